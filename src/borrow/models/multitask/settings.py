"""Arguments of the symmetric estimators, checked and turned into the model without its hyper-parameters.

Features of tasks, from which K^f is made, are given by label, or in columns of X that say which task a row is of.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any

import narwhals.stable.v1 as nw
import numpy as np

from borrow.covariance import Design, choose_inducing
from borrow.data.labels import list_labels, places_of
from borrow.data.scaling import TaskData, column_scales
from borrow.estimators.gp import default_kernel
from borrow.estimators.settings import is_matrix, is_whole
from borrow.inference import Inference
from borrow.kernels import Kernel
from borrow.models.gp.task_model import own_kernels
from borrow.models.multitask.model import Setup, choose_path, correlation_kernel
from borrow.models.multitask.task_covariance import Features, Form, FreeForm, Given, LowRank, Uniform
from borrow.numerics.device import MATRICES
from borrow.numerics.linalg import Array
from borrow.numerics.optimise import Values
from borrow.numerics.threads import SMALL_BLOCK
from borrow.tasks.contracts import Shard, Tasks

#: Where the variance of random intercepts starts, in units of scaled targets.
INTERCEPT_VARIANCE = 0.3
#: `specific_kernel` that leaves it to the evidence which tasks share and which have functions of their own.
BY_EVIDENCE = "evidence"


def form_of(estimator: Any, labels: tuple[Hashable, ...], log_variance: float) -> tuple[Form, Values]:
    """The form of K^f that an estimator asks for, and where its parameters start if its settings say so."""
    M, kind, rank = len(labels), estimator.task_covariance, estimator.rank
    given = M if estimator.task_prior == "auto" else estimator.task_prior
    strength = None if given is None else float(given)
    features = features_of(estimator.task_features, labels)
    free = isinstance(kind, str) and kind == "free"
    if features is not None:
        if rank is not None or not free:
            raise ValueError("task_features= makes K^f from a kernel: leave out task_covariance= and rank=")
        scales = column_scales(features, np.ones(len(features)))
        kernel = default_kernel(scales, estimator.task_kernel, "task_kernel")
        return Features(features, kernel, scales, strength, log_variance), {"task_kernel": kernel.theta}
    if rank is not None:
        if not free:
            raise ValueError(f"rank={rank!r} and task_covariance={short(kind)} were given; give one of them")
        if not is_whole(rank, 1) or rank > M:
            raise ValueError(
                f"rank={rank!r}: expected a whole number from 1 to {M}, the number of tasks, or None (full rank)"
            )
        return LowRank(M, int(rank), estimator.diagonal, strength, log_variance), {}
    if estimator.diagonal != "none":
        raise ValueError(f"diagonal={estimator.diagonal!r} goes with rank=: K^f = R R' + diagonal; give rank=")
    if isinstance(kind, str):
        forms: dict[str, Form] = {
            "free": FreeForm(M, strength, log_variance),
            "diagonal": LowRank(M, 0, "free", strength, log_variance),
            "uniform": Uniform(M, strength, log_variance),
        }
        if kind not in forms:
            raise ValueError(f"task_covariance={kind!r}: expected 'free', 'diagonal', 'uniform' or a matrix")
        return forms[kind], {}
    codes = np.argsort(places_of(labels))  # the matrix is in the order of the sorted labels
    B = check_matrix(kind, M)[np.ix_(codes, codes)]
    if estimator.optimizer is None:
        return Given(B), {}
    start = FreeForm(M, strength, log_variance)
    return start, start.of_matrix(B)


def prepare(estimator: Any, data: TaskData, tasks: Tasks[Shard], infer: Inference) -> tuple[Setup, Values]:
    """The model at the hyper-parameters that an estimator gives, or at neutral ones; K^f starts later, from the data.

    The likelihood's own parameters are for the caller to add.
    """
    kernel = correlation_kernel(default_kernel(data.column_scales, estimator.kernel, "kernel"))
    form, start = form_of(estimator, data.labels, infer.log_variance)
    intercept, own = bool(estimator.intercept), estimator.specific_kernel
    specific: list[Kernel | None] = []
    if own is not None and not is_by_evidence(own):
        plain = default_kernel(data.column_scales, None, "specific_kernel", tied=True)
        specific = own_kernels(own, data.labels, plain, default=None)
    design = Design.from_cells(tasks.cells, tasks.device)
    path = choose_path(design, form, intercept, specific, estimator.inducing is not None, infer.gaussian)
    Z = inducing_inputs(estimator.inducing, kernel, design.inputs)
    setup = Setup(tasks, design, kernel, form, path, Z, intercept, specific, infer=infer)
    check_memory(setup)
    values: Values = {"kernel": kernel.theta}
    if intercept:
        values["intercept"] = np.log([INTERCEPT_VARIANCE])
    if specific:
        values["specific"] = setup.specific_theta()
    return setup, {**values, **start}


def check_memory(setup: Setup) -> None:
    """Refuse what would not fit; how many matrices there are at once on each path was measured."""
    n, N = len(setup.design.X), len(setup.design.inputs)
    shared, device = 0.0, None
    if setup.path == "dense":
        host, device = ((6.0 if setup.infer.gaussian else 8.0) + 3.0 * (n < SMALL_BLOCK)) * n * n, MATRICES * n * n
    elif setup.path == "complete":
        host = 9.5 * N * N
    else:
        m, P = N if setup.Z is None else len(setup.Z), setup.form.rank or setup.design.n_tasks
        shared, host = 1.2 * (P * m) ** 2, (13.0 + 12.0 * (n < SMALL_BLOCK)) * N * m
        if setup.path == "blocks":
            sizes = np.diff(setup.design.starts).astype(float)
            host += 5.0 * n * P * m + 3.3 * float(sizes @ sizes)
    what = f"a {setup.path} multi-task GP on {n:,} distinct rows"
    remedy = "give rank= (few functions shared by all tasks) and inducing=, or thin the rows"
    setup.tasks.require(what, remedy, shared, host, device)


def inducing_inputs(given: Any, kernel: Kernel, inputs: Array) -> Array | None:
    """The inducing inputs given, or so many of the distinct inputs, spread by the kernel as it is now."""
    if given is None:
        return None
    if is_matrix(given, inputs.shape[1]):
        return np.asarray(given, dtype=float)
    if not is_whole(given, 1):
        raise ValueError(
            f"inducing={given!r}: expected None, a number of inputs, or an array of {inputs.shape[1]} columns"
        )
    return choose_inducing(kernel, inputs[:0], inputs, min(int(given), len(inputs)), 0.0)


def check_matrix(given: Any, M: int) -> Array:
    """A symmetric positive semi-definite matrix, one row per task."""
    B = np.asarray(given)
    if B.shape != (M, M) or B.dtype.kind not in "iuf" or not np.isfinite(B).all():
        raise ValueError(
            f"task_covariance has shape {B.shape}; expected {(M, M)} finite numbers, one row and column per task in "
            "the order of tasks_ (sorted labels)"
        )
    B = B.astype(float)
    size = float(np.abs(B).max())
    gap = float(np.abs(B - B.T).max())
    if gap > 1e-8 * size:
        raise ValueError(f"task_covariance is not symmetric: entries differ by up to {gap:g}; give (B + B.T) / 2")
    least = float(np.linalg.eigvalsh(B)[0])
    if least < -1e-8 * size:
        raise ValueError(
            f"task_covariance is not positive semi-definite: its smallest eigenvalue is {least:g}; add at least "
            f"{-least:.3g} to its diagonal, or give B = R @ R.T"
        )
    return 0.5 * (B + B.T)


def is_by_evidence(specific_kernel: Any) -> bool:
    """Whether the constructor leaves the tasks' own functions to the evidence."""
    return isinstance(specific_kernel, str) and specific_kernel == BY_EVIDENCE


def parameter_names(labels: tuple[Hashable, ...], setup: Setup) -> dict[str, list[str]]:
    """What to call each entry of `values` in a warning."""
    return {
        "kernel": setup.kernel.parameter_names(),
        "noise": ["the noise"] if setup.share_noise else [f"noise of task {label!r}" for label in labels],
        "intercept": ["variance of the intercepts"],
        "specific": setup.specific_names(labels),
        **setup.form.names(labels),
    }


def short(value: Any) -> str:
    """What was given, in a few words for a message."""
    text = repr(value)
    return text if len(text) < 60 else f"{text[:57]}..."


def descriptor_columns(task_features: Any) -> list[Any] | None:
    """Names or positions where `task_features` names columns of X."""
    if task_features is None or isinstance(task_features, Mapping):
        return None
    named = isinstance(task_features, (list, tuple)) and len(task_features) > 0
    if named and all(isinstance(v, (str, int, np.integer)) and not isinstance(v, bool) for v in task_features):
        return list(task_features)
    raise ValueError(
        f"task_features={short(task_features)}: expected a dict from task label to numbers, or a list of columns of X "
        "(names, or positions in an array)"
    )


def split_descriptors(X: Any, columns: list[Any]) -> tuple[Any, list[Hashable]]:
    """X without these columns, and what stands in them, a tuple per row."""
    frame = nw.from_native(X, eager_only=True, pass_through=True)
    if isinstance(frame, nw.DataFrame):
        missing = [c for c in columns if c not in frame.columns]
        if missing:
            raise ValueError(
                f"task_features names {list_labels(missing)}, not a column of X; columns are "
                f"{list_labels(frame.columns)}"
            )
        kept, given = frame.drop(columns), frame.select(columns).rows()
        left, rest = len(kept.columns), kept.to_native()
    else:
        array = np.asarray(X)
        width = array.shape[1] if array.ndim == 2 else 0
        wrong = [c for c in columns if isinstance(c, str) or not -width <= c < width]
        if wrong:
            raise ValueError(
                f"task_features names {list_labels(wrong)}; X is an array of {width} columns, 0 to {width - 1}"
            )
        at = [int(c) % width for c in columns]
        left, rest, given = width - len(set(at)), np.delete(array, at, axis=1), array[:, at].tolist()
    if left == 0:
        raise ValueError(f"X has no column beside the task features {list_labels(columns)}; give at least one input")
    labels: list[Hashable] = []
    for i, row in enumerate(map(tuple, given)):
        try:
            label = tuple(float(v) for v in row)
        except (TypeError, ValueError):
            label = (np.nan,)
        if not np.isfinite(label).all():
            raise ValueError(f"the task features of row {i} are {row}; expected finite numbers: fill or drop the row")
        labels.append(label)
    return rest, labels


def features_of(task_features: Any, labels: tuple[Hashable, ...]) -> Array | None:
    """(M, p) in the order of the labels."""
    if task_features is None:
        return None
    if descriptor_columns(task_features) is not None:
        return np.array(labels, dtype=float)
    missing = [label for label in labels if label not in task_features]
    if missing:
        raise ValueError(
            f"task_features has no entry for task {list_labels(missing)}; give one for every task, or drop these tasks"
        )
    rows = [np.atleast_1d(np.asarray(task_features[label])) for label in labels]
    lengths = {labels[t]: rows[t].shape for t in places_of(labels)}
    if len(set(lengths.values())) > 1 or rows[0].ndim != 1:
        raise ValueError(f"task_features differ in length: {lengths}; give the same number of features for every task")
    for label, row in zip(labels, rows, strict=True):
        if row.dtype.kind not in "iufb" or not np.isfinite(row.astype(float)).all():
            raise ValueError(f"task_features of {label!r} are {row.tolist()}; expected finite numbers")
    return np.stack(rows).astype(float)
