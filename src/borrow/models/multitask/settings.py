"""Arguments of the symmetric estimators, checked and turned into the model without its hyper-parameters."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any

import numpy as np

from borrow.covariance import Design, choose_inducing
from borrow.data.labels import places_of
from borrow.data.scaling import TaskData, column_scales
from borrow.estimators.gp import EXACT, default_kernel
from borrow.estimators.settings import is_matrix, is_number
from borrow.inference import ExactInference, Inference
from borrow.kernels import Kernel
from borrow.models.gp.task_model import own_kernels
from borrow.models.multitask.model import Setup, choose_path, correlation_kernel
from borrow.models.multitask.task_covariance import Features, Form, FreeForm, Given, LowRank, Uniform
from borrow.numerics.device import MATRICES, require
from borrow.numerics.linalg import Array
from borrow.numerics.optimise import Values
from borrow.numerics.threads import SMALL_BLOCK
from borrow.tasks.placed import PlacedTasks

#: Where the variance of random intercepts starts, in units of scaled targets.
INTERCEPT_VARIANCE = 0.3
#: `specific_kernel` that leaves it to the evidence which tasks share and which have functions of their own.
BY_EVIDENCE = "evidence"
DIAGONALS = ("none", "isotropic", "free")


@dataclass(frozen=True)
class TaskCovarianceSettings:
    """What the constructors say about K^f."""

    task_covariance: Any
    rank: Any
    diagonal: str
    task_prior: Any
    task_kernel: Any
    learnt: bool  # False keeps a matrix as it was given

    def form(self, labels: tuple[Hashable, ...], features: Array | None, log_variance: float) -> tuple[Form, Values]:
        """The form of K^f that is asked for, and where its parameters start if the settings say so."""
        M = len(labels)
        strength, kind, rank = prior_strength(self.task_prior, M), self.task_covariance, self.rank
        free = isinstance(kind, str) and kind == "free"
        if self.diagonal not in DIAGONALS:
            raise ValueError(f"diagonal={self.diagonal!r}: expected 'none', 'isotropic' or 'free'")
        if features is not None:
            if rank is not None or not free:
                raise ValueError("task_features= makes K^f from a kernel: leave out task_covariance= and rank=")
            scales = column_scales(features, np.ones(len(features)))
            kernel = default_kernel(scales, self.task_kernel, "task_kernel")
            return Features(features, kernel, scales, strength, log_variance), {"task_kernel": kernel.theta}
        if rank is not None:
            if not free:
                raise ValueError(f"rank={rank!r} and task_covariance={short(kind)} were given; give one of them")
            if isinstance(rank, bool) or not isinstance(rank, (int, np.integer)) or not 1 <= rank <= M:
                raise ValueError(
                    f"rank={rank!r}: expected a whole number from 1 to {M}, the number of tasks, or None (full rank)"
                )
            return LowRank(M, int(rank), self.diagonal, strength, log_variance), {}
        if self.diagonal != "none":
            raise ValueError(f"diagonal={self.diagonal!r} goes with rank=: K^f = R R' + diagonal; give rank=")
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
        if not self.learnt:
            return Given(B), {}
        start = FreeForm(M, strength, log_variance)
        return start, start.of_matrix(B)


def prepare(
    data: TaskData,
    tasks: PlacedTasks,
    kernel: Any,
    given: TaskCovarianceSettings,
    features: Array | None,
    intercept: bool,
    specific_kernel: Any,
    inducing: Any,
    infer: Inference = EXACT,
) -> tuple[Setup, Values]:
    """The model at the hyper-parameters given, or at neutral ones; K^f starts later, from the data.

    The likelihood's own parameters are for the caller to add.
    """
    kernel = correlation_kernel(default_kernel(data.column_scales, kernel, "kernel"))
    form, start = given.form(data.labels, features, infer.log_variance)
    specific: list[Kernel | None] = []
    if specific_kernel is not None:
        plain = default_kernel(data.column_scales, None, "specific_kernel", tied=True)
        specific = own_kernels(specific_kernel, data.labels, plain, default=None)
    design = Design.of(tasks.cells, tasks.device)
    merged = isinstance(infer, ExactInference)
    path = choose_path(design, form, intercept, specific, inducing is not None, merged)
    Z = inducing_inputs(inducing, kernel, design.inputs)
    setup = Setup(tasks, design, kernel, form, path, Z, intercept, specific, infer=infer)
    check_memory(setup, merged)
    values: Values = {"kernel": kernel.theta}
    if intercept:
        values["intercept"] = np.log([INTERCEPT_VARIANCE])
    if specific:
        values["specific"] = setup.specific_theta()
    return setup, {**values, **start}


def check_memory(setup: Setup, merged: bool) -> None:
    """Refuse what would not fit; how many matrices there are at once on each path was measured."""
    n, N, device = len(setup.design.X), len(setup.design.inputs), setup.tasks.device
    if setup.path == "dense":
        numbers = ((6.0 if merged else 8.0) + 3.0 * (n < SMALL_BLOCK) if device is None else MATRICES) * n * n
    elif setup.path == "complete":
        numbers = 9.5 * N * N
    else:
        m, P = N if setup.Z is None else len(setup.Z), setup.form.rank or setup.design.n_tasks
        numbers = (13.0 + 12.0 * (n < SMALL_BLOCK)) * N * m + 1.2 * (P * m) ** 2
        if setup.path == "blocks":
            sizes = np.diff(setup.design.starts).astype(float)
            numbers += 5.0 * n * P * m + 3.3 * float(sizes @ sizes)
    what = f"a {setup.path} multi-task GP on {n:,} distinct rows"
    remedy = "give rank= (few functions shared by all tasks) and inducing=, or thin the rows"
    require(device, 8.0 * numbers, what, remedy)


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


def prior_strength(task_prior: Any, M: int) -> float | None:
    """Strength of the inverse-Wishart penalty from the constructor's `task_prior`."""
    if task_prior is None:
        return None
    if isinstance(task_prior, str) and task_prior == "auto":
        return float(M)
    if is_number(task_prior) and task_prior > 0:
        return float(task_prior)
    raise ValueError(f"task_prior={task_prior!r}: expected 'auto', a positive strength, or None")


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
