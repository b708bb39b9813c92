"""Arguments of the symmetric estimators, checked and turned into the model without its hyper-parameters."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from typing import Any

import narwhals.stable.v1 as nw
import numpy as np

from borrow.covariance import Design, choose_inducing
from borrow.data.labels import list_labels
from borrow.data.scaling import TaskData, column_scales
from borrow.estimators.gp import default_kernel
from borrow.estimators.settings import by_label, is_matrix, is_number
from borrow.inference import Inference
from borrow.kernels import Kernel, resolve
from borrow.models.multitask.model import EXACT, Setup, choose_path, correlation_kernel
from borrow.models.multitask.task_covariance import Features, Form, FreeForm, Given, LowRank, Uniform
from borrow.numerics.device import MATRICES, require
from borrow.numerics.linalg import Array
from borrow.numerics.optimise import Values
from borrow.tasks.placed import PlacedTasks

#: Where the variance of random intercepts starts, in units of scaled targets.
INTERCEPT_VARIANCE = 0.3
DIAGONALS = ("none", "isotropic", "free")


def form_of(estimator: Any, M: int, features: Array | None, log_variance: float = 0.0) -> tuple[Form, Values]:
    """The form that the arguments ask for, and where its parameters start if they say so."""
    strength = prior_strength(estimator.task_prior, M)
    kind, rank = estimator.task_covariance, estimator.rank
    if estimator.diagonal not in DIAGONALS:
        raise ValueError(f"diagonal={estimator.diagonal!r}: expected 'none', 'isotropic' or 'free'")
    if features is not None:
        if rank is not None or not (isinstance(kind, str) and kind == "free"):
            raise ValueError("task_features= makes K^f from a kernel: leave out task_covariance= and rank=")
        scales = column_scales(features, np.ones(len(features)))
        kernel = default_kernel(scales, None, "task_kernel")
        if estimator.task_kernel is not None:
            kernel = resolve(estimator.task_kernel, "task_kernel")
        return Features(features, kernel, scales, strength, log_variance), {"task_kernel": kernel.theta}
    if rank is not None:
        if not (isinstance(kind, str) and kind == "free"):
            raise ValueError(f"rank={rank!r} and task_covariance={_short(kind)} were given; give one of them")
        if isinstance(rank, bool) or not isinstance(rank, (int, np.integer)) or not 1 <= rank <= M:
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
    B = check_matrix(kind, M)
    if estimator.optimizer is None:
        return Given(B), {}
    free = FreeForm(M, strength, log_variance)
    return free, free.of_matrix(B)


def prepare(
    estimator: Any,
    data: TaskData,
    tasks: PlacedTasks,
    features: Array | None,
    infer: Inference = EXACT,
    merged: bool = True,
) -> tuple[Setup, Values]:
    """The model at the hyper-parameters given, or at neutral ones; K^f starts later, from the data.

    The likelihood's own parameters are for the caller to add.
    """
    kernel = correlation_kernel(default_kernel(data.column_scales, estimator.kernel, "kernel"))
    form, start = form_of(estimator, len(data.labels), features, infer.log_variance)
    specific = own_kernels(estimator.specific_kernel, data)
    design, intercept = Design.of(tasks.cells, tasks.device), bool(estimator.intercept)
    path = choose_path(design, form, intercept, specific, estimator.inducing is not None, merged)
    if path == "dense":
        n = len(data.cells.y)
        require(
            tasks.device,
            8.0 * (6 if tasks.device is None else MATRICES) * n * n,
            f"a dense multi-task GP on {n:,} distinct rows",
            "give rank= (few functions shared by all tasks) and inducing=, or thin the rows",
        )
    Z = inducing_inputs(estimator.inducing, kernel, design.inputs)
    values: Values = {"kernel": kernel.theta}
    if intercept:
        values["intercept"] = np.log([INTERCEPT_VARIANCE])
    if specific:
        values["specific"] = np.concatenate([np.zeros(0), *(k.theta for k in specific if k is not None)])
    setup = Setup(tasks, design, kernel, form, path, Z, intercept, specific, infer=infer)
    return setup, {**values, **start}


def own_kernels(given: Any, data: TaskData) -> list[Kernel | None]:
    """A kernel of its own for every task, from the constructor's `specific_kernel`; empty where there are none."""
    if given is None:
        return []
    plain = default_kernel(data.column_scales, None, "specific_kernel", tied=True)
    return [
        None if k is None else plain if isinstance(k, str) and k == "auto" else resolve(k, "specific_kernel")
        for k in by_label(given, data.labels, "specific_kernel", default=None)
    ]


def inducing_inputs(given: Any, kernel: Kernel, inputs: Array) -> Array | None:
    """The inducing inputs given, or so many of the distinct inputs, spread by the kernel as it is now."""
    if given is None:
        return None
    if is_matrix(given, inputs.shape[1]):
        return np.asarray(given, dtype=float)
    if isinstance(given, bool) or not isinstance(given, (int, np.integer)) or given < 1:
        raise ValueError(
            f"inducing={given!r}: expected None, a number of inputs, or an array of {inputs.shape[1]} columns"
        )
    return choose_inducing(kernel, inputs[:0], inputs, min(int(given), len(inputs)), 0.0)


def check_matrix(given: Any, M: int) -> Array:
    """A symmetric positive semi-definite matrix, one row a task."""
    B = np.asarray(given)
    if B.shape != (M, M) or B.dtype.kind not in "iuf" or not np.isfinite(B).all():
        raise ValueError(
            f"task_covariance has shape {B.shape}; expected {(M, M)} finite numbers, one row and column a task in the "
            "order of tasks_ (sorted labels)"
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


def prior_strength(task_prior: Any, M: int) -> float | None:
    """Strength of the inverse-Wishart penalty from the constructor's `task_prior`."""
    if task_prior is None:
        return None
    if isinstance(task_prior, str) and task_prior == "auto":
        return float(M)
    if is_number(task_prior) and task_prior > 0:
        return float(task_prior)
    raise ValueError(f"task_prior={task_prior!r}: expected 'auto', a positive strength, or None")


def descriptor_columns(task_features: Any) -> list[Any] | None:
    """Names or positions where `task_features` names columns of X."""
    if task_features is None or isinstance(task_features, Mapping):
        return None
    if isinstance(task_features, (list, tuple)) and task_features and all(_is_name(v) for v in task_features):
        return list(task_features)
    raise ValueError(
        f"task_features={_short(task_features)}: expected a dict from task label to numbers, or a list of columns of X "
        "(names, or positions in an array)"
    )


def split_descriptors(X: Any, columns: list[Any]) -> tuple[Any, list[Hashable]]:
    """X without these columns, and what stands in them, a tuple a row."""
    frame = nw.from_native(X, eager_only=True, pass_through=True)
    if isinstance(frame, nw.DataFrame):
        missing = [c for c in columns if c not in frame.columns]
        if missing:
            raise ValueError(
                f"task_features names {list_labels(missing)}, not a column of X; columns are "
                f"{list_labels(frame.columns)}"
            )
        rest = frame.drop(columns)
        _inputs_left(len(rest.columns), columns)
        return rest.to_native(), _finite(frame.select(columns).rows())
    array = np.asarray(X)
    width = array.shape[1] if array.ndim == 2 else 0
    wrong = [c for c in columns if isinstance(c, str) or not -width <= c < width]
    if wrong:
        raise ValueError(
            f"task_features names {list_labels(wrong)}; X is an array of {width} columns, 0 to {width - 1}"
        )
    at = [int(c) % width for c in columns]
    _inputs_left(width - len(set(at)), columns)
    return np.delete(array, at, axis=1), _finite(array[:, at].tolist())


def _inputs_left(n: int, columns: list[Any]) -> None:
    if n == 0:
        raise ValueError(f"X has no column beside the task features {list_labels(columns)}; give at least one input")


def _finite(rows: Iterable[Iterable[Any]]) -> list[Hashable]:
    labels: list[Hashable] = []
    for i, row in enumerate(rows):
        given = tuple(row)
        try:
            label = tuple(float(v) for v in given)
        except (TypeError, ValueError):
            label = (np.nan,)
        if not np.isfinite(label).all():
            raise ValueError(f"the task features of row {i} are {given}; expected finite numbers: fill or drop the row")
        labels.append(label)
    return labels


def features_of(task_features: Any, labels: tuple[Hashable, ...], columns: list[Any] | None) -> Array | None:
    """(M, p) in the order of the labels."""
    if task_features is None:
        return None
    if columns is not None:
        return np.array(labels, dtype=float)
    missing = [label for label in labels if label not in task_features]
    if missing:
        raise ValueError(
            f"task_features has no entry for task {list_labels(missing)}; give one for every task, or drop these tasks"
        )
    rows = [np.atleast_1d(np.asarray(task_features[label])) for label in labels]
    lengths = {label: row.shape for label, row in zip(labels, rows, strict=True)}
    if len(set(lengths.values())) > 1 or rows[0].ndim != 1:
        raise ValueError(f"task_features differ in length: {lengths}; give the same number of features for every task")
    for label, row in zip(labels, rows, strict=True):
        if row.dtype.kind not in "iufb" or not np.isfinite(row.astype(float)).all():
            raise ValueError(f"task_features of {label!r} are {row.tolist()}; expected finite numbers")
    return np.stack(rows).astype(float)


def _is_name(value: Any) -> bool:
    return isinstance(value, (str, int, np.integer)) and not isinstance(value, bool)


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) < 60 else f"{text[:57]}..."
