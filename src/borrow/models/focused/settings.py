"""Arguments of the focused estimators, checked and turned into the model without its hyper-parameters."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from borrow.covariance.layout import STRETCH
from borrow.data.labels import list_labels, sort_labels
from borrow.data.scaling import TaskData
from borrow.estimators.gp import EXACT, default_kernel
from borrow.estimators.settings import numbers_by_label
from borrow.inference import Inference
from borrow.kernels import Constant
from borrow.models.focused.model import Setup
from borrow.models.gp.task_model import own_kernels
from borrow.numerics.device import MATRICES
from borrow.numerics.optimise import Values
from borrow.numerics.threads import SMALL_BLOCK
from borrow.tasks.contracts import Shard, Tasks

#: Where the variance of a secondary's own offset starts, in units of its scaled targets.
OFFSET_VARIANCE = 0.3


def weight_sd(rho_prior: Any, infer: Inference) -> float | None:
    """Standard deviation of the prior on w = rho sqrt(v) from the constructor's `rho_prior`.

    "auto" is as large as functions are beforehand: 1 for scaled targets, e for the argument of a probit.
    """
    if rho_prior is None:
        return None
    sd = np.exp(0.5 * infer.log_variance) if isinstance(rho_prior, str) and rho_prior == "auto" else rho_prior
    if isinstance(sd, str) or not np.isfinite(sd) or sd <= 0:
        raise ValueError(f"rho_prior={rho_prior!r}: expected 'auto', a positive standard deviation, or None")
    return float(sd)


def primary_code(primary: Any, labels: tuple[Hashable, ...]) -> int:
    """Code of the task that matters."""
    if primary is None:
        if len(labels) == 1:
            return 0
        raise ValueError(
            f"there are {len(labels)} tasks and no primary; give primary=, one of {list_labels(sort_labels(labels))}"
        )
    if primary not in labels:
        raise ValueError(f"primary={primary!r} is not a task; tasks are {list_labels(sort_labels(labels))}")
    return labels.index(primary)


def prepare(
    data: TaskData,
    tasks: Tasks[Shard],
    primary: int,
    kernel: Any,
    specific_kernel: Any,
    rho: Any,
    background: int = 0,
    infer: Inference = EXACT,
) -> tuple[Setup, Values]:
    """The model at the hyper-parameters given, or at neutral ones; the likelihood's own are for the caller to add."""
    shared = default_kernel(data.column_scales, kernel, "kernel")
    # Each task is centred on its own rows: a secondary's level is its own.
    own = default_kernel(data.column_scales, None, "specific_kernel") + Constant(OFFSET_VARIANCE)
    specific = own_kernels(specific_kernel, data.labels, own, default="auto")
    if not (isinstance(specific_kernel, Mapping) and data.labels[primary] in specific_kernel):
        specific[primary] = None  # it is given a part of its own by the search (`primary.with_own_part`)
    setup = Setup(tasks, primary, shared, specific, np.zeros((0, data.cells.X.shape[1])), infer=infer)
    weights = np.array(numbers_by_label(rho, data.labels, "rho", default=0.0))
    values: Values = {
        "kernel": shared.theta,
        "rho": weights[setup.secondaries],
        "specific": setup.specific_theta(),
    }
    if background:
        plain = default_kernel(data.column_scales, None, "background", tied=True)
        common = replace(plain, fixed=("variance",))  # type: ignore[type-var]  # the loadings carry the scale
        setup = replace(setup, background=common)
        values |= {"background": common.theta, "loadings": np.zeros((len(setup.secondaries), background))}
    return setup, values


def parameter_names(labels: tuple[Hashable, ...], setup: Setup, background: int = 0) -> dict[str, list[str]]:
    """What to call each entry of `values` in a warning."""
    loadings = [f"background weight of task {labels[t]!r}" for t in setup.secondaries]
    common = setup.background.parameter_names() if setup.background else []
    return {
        "kernel": [f"{n} of the primary's kernel" for n in setup.kernel.parameter_names()],
        "rho": [f"rho of task {labels[t]!r}" for t in setup.secondaries],
        "specific": setup.specific_names(labels),
        "noise": [f"noise of task {label!r}" for label in labels],
        "background": [f"{n} of the background" for n in common],
        "loadings": [n for n in loadings for _ in range(background)],
    }


def check_memory(setup: Setup) -> None:
    """Refuse what would not fit, before it is allocated."""
    if setup.design is not None:
        n = len(setup.cells.y)
        what, remedy = f"an exact focused GP on {n:,} distinct rows", "leave inducing at 'auto', or thin the rows"
        return setup.tasks.require(what, remedy, host=17.0 * n * n)
    sizes = np.diff(setup.cells.starts).astype(float)
    m = len(setup.Z) + (0 if setup.background_Z is None else len(setup.background_Z))
    kept, worked = (3.6, 3.2) if setup.infer.gaussian else (4.0, 4.8)
    kept *= 2.0 if sizes.sum() < SMALL_BLOCK else 1.0  # small matrices stay until the next are there
    most = max(sizes[setup.primary] ** 2, np.sort(sizes[setup.secondaries] ** 2)[-2:].sum())
    own = np.array([k is not None for k in setup.specific]) * sizes * STRETCH
    setup.tasks.require(
        f"a focused GP of {len(sizes)} task(s), of up to {int(sizes.max()):,} distinct rows,",
        "thin the rows of the largest task, or average its replicates",
        # Of every task, and of two that are worked on at once; measured.
        host=kept * float(sizes @ sizes) + worked * most + 5.0 * sizes.sum() * m,
        device=8.0 * float(own @ own) + 9.0 * STRETCH * sizes.sum() * m + MATRICES * sizes[setup.primary] ** 2,
    )
