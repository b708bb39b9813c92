"""Focused (asymmetric) multi-task GP regression.

G. Leen, J. Peltonen, S. Kaski: Focused multi-task learning using Gaussian processes. ECML PKDD 2011.

| symbol           | name here                    | shape                                             |
|------------------|------------------------------|---------------------------------------------------|
| f^p              | the shared function          | carried by u at `Z`, m inducing inputs            |
| k^p              | `kernel`                     |                                                   |
| rho_t            | `values["rho"]`              | (M - 1,), the primary's is 1                      |
| K_t^spec         | `values["specific"]`         | kernels of the secondaries, theta one after other |
| sigma_t^2        | exp of `values["noise"]`     | (M,)                                              |
| (section 3)      | `values["loadings"]`         | (M - 1, k) on k background functions              |

| equation | function                                                                    |
|----------|-----------------------------------------------------------------------------|
| (4), (5) | `task_weights`: what each task takes of each shared function                |
| (6)-(9)  | `prior_of_tasks`, the algebra in `borrow.covariance.shared`                 |
| sec. 2.4 | `focused_objective`: log evidence and its gradient                          |
| sec. 3   | `task_weights`, `prior_of_tasks`: background functions                      |

Deviations, each with its reason:
- The paper's pseudo-inputs are the primary's inputs, all of them, labelled or not. `inducing="auto"` takes these (less
  those the others determine to 1e-10) and adds the other tasks' inputs where the shared function is not pinned down to
  1 % of its variance: with only the primary's labelled rows nothing can be transferred into a gap.
- The paper maximises the evidence. With few primary rows that over-trusts unrelated tasks, so w_t = rho_t sqrt(v), v
  the prior variance of f^p, gets a N(0, 1) prior by default (`rho_prior=None` for the paper's). On rho alone the prior
  would inflate v instead.
- A relation that adds less than 1.5 nats is dropped (`focused_search.prune`), part of the same default; with labels
  none is.
- The evidence has a mode for every choice of signs. Flipping the sign of task t changes b_t only, so all flips are
  scored in closed form (`focused_search.best_signs`) instead of by blind restarts.
"""

from __future__ import annotations

import logging
from collections.abc import Hashable
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from borrow.covariance import Basis, SharedCovariance
from borrow.covariance.layout import STRETCH
from borrow.data.cells import Cells
from borrow.data.labels import list_labels
from borrow.data.scaling import TaskData
from borrow.estimators.gp import default_kernel
from borrow.estimators.settings import by_label, numbers_by_label
from borrow.inference import ExactInference, Inference, Result, priors
from borrow.inference.hyper_uncertainty import HyperUncertainty, measure
from borrow.kernels import Constant, Kernel, resolve
from borrow.kernels.compose import TaskKernels
from borrow.models.gp.model import EXACT
from borrow.numerics import optimise as hyper
from borrow.numerics.linalg import Array, solve_lower_transposed, to_host
from borrow.numerics.optimise import Values
from borrow.tasks.placed import PlacedTasks

log = logging.getLogger("borrow")

#: Where the variance of a secondary's own offset starts, in units of its scaled targets.
OFFSET_VARIANCE = 0.3


@dataclass(frozen=True)
class Setup:
    """The model without its hyper-parameters."""

    tasks: PlacedTasks
    primary: int
    kernel: Kernel
    specific: list[Kernel | None]  # None for the primary, and where a secondary has no specific part
    Z: Array
    background: Kernel | None = None
    background_Z: Array | None = None
    infer: Inference = EXACT

    @property
    def cells(self) -> Cells:
        """The rows of all tasks."""
        return self.tasks.cells

    @property
    def secondaries(self) -> npt.NDArray[np.intp]:
        """Codes of the secondary tasks."""
        return np.delete(np.arange(len(self.specific)), self.primary)

    @cached_property
    def specific_parts(self) -> list[slice]:
        """Where each task's theta lies in `values["specific"]`."""
        ends = np.cumsum([0, *(0 if k is None else k.n_theta for k in self.specific)])
        return [slice(int(i), int(j)) for i, j in pairwise(ends)]


def task_weights(values: Values, setup: Setup) -> Array:
    """R[t, q]: rho_t on the primary's function, 1 for the primary (eqs. 4, 5), loadings on the background (sec. 3)."""
    M = len(setup.specific)
    R = np.zeros((M, 1 + (values["loadings"].shape[1] if "loadings" in values else 0)))
    R[setup.secondaries, 0] = values["rho"]
    R[setup.primary, 0] = 1.0
    if "loadings" in values:
        R[setup.secondaries, 1:] = values["loadings"]
    return R


def prior_of_tasks(values: Values, setup: Setup) -> SharedCovariance:
    """The joint prior of all tasks' functions (eq. 9), kept in its structured form."""
    bases, basis_of = [Basis(setup.kernel.with_theta(values["kernel"]), setup.Z)], [0]
    if setup.background is not None and setup.background_Z is not None:
        bases.append(Basis(setup.background.with_theta(values["background"]), setup.background_Z))
        basis_of += [1] * values["loadings"].shape[1]
    specific = TaskKernels(setup.specific, values["specific"], setup.specific_parts)
    return SharedCovariance(setup.tasks, bases, basis_of, task_weights(values, setup), specific)


def condition(values: Values, setup: Setup, start: Any = None) -> Result:
    """Posterior and log evidence at given hyper-parameters (sec. 2.4)."""
    return setup.infer(prior_of_tasks(values, setup), setup.tasks, values, start)


def focused_objective(setup: Setup) -> hyper.Objective:
    """log evidence and its gradient by all of `values` (sec. 2.4). EP starts from the sites of the call before."""
    start: Any = None

    def objective(values: Values) -> tuple[float, Values]:
        nonlocal start
        fit = condition(values, setup, start)
        start, gradient = fit.start, evidence_gradient(fit, values, setup)
        setup.tasks.report(fit.evidence)
        return fit.evidence, gradient

    return objective


def evidence_gradient(fit: Result, values: Values, setup: Setup) -> Values:
    """The adjoints of the evidence handed on to all of `values`."""
    adjoints, by_likelihood = fit.gradient()
    parts, weights = [g for g in adjoints.specific if g is not None], adjoints.weights
    assert weights is not None  # this covariance has them
    by: Values = {
        "kernel": adjoints.bases[0],
        "rho": weights[setup.secondaries, 0],
        "specific": np.concatenate(parts) if parts else np.zeros(0),
        **by_likelihood,
    }
    if "loadings" in values:
        by["background"] = adjoints.bases[1]
        by["loadings"] = weights[setup.secondaries, 1:]
    return {n: by[n] for n in values}


def weight_prior(setup: Setup, sd: float) -> hyper.Objective:
    """w_t = rho_t sqrt(v) ~ N(0, sd^2) with v the mean prior variance of f^p over Z; the background's loadings alike.

    log p = -sum rho^2 v / (2 sd^2), so d/d rho = -rho v / sd^2 and d/d theta = -(sum rho^2 / (2 sd^2)) dv/d theta.
    """

    def one(kernel: Kernel, Z: Array, theta: Array, weights: Array) -> tuple[float, Array, Array]:
        diagonal, pullback = kernel.with_theta(theta).evaluate_diag(Z)
        v, total = float(diagonal.mean()), float(np.sum(weights**2)) / (2.0 * sd**2)
        return -total * v, pullback(np.full(len(Z), -total / len(Z))).theta, -weights * v / sd**2

    def log_prior(values: Values) -> tuple[float, Values]:
        value, by_theta, by_rho = one(setup.kernel, setup.Z, values["kernel"], values["rho"])
        by: Values = {"kernel": by_theta, "rho": by_rho}
        if setup.background is not None and setup.background_Z is not None:
            more, by["background"], by["loadings"] = one(
                setup.background, setup.background_Z, values["background"], values["loadings"]
            )
            value += more
        return value, by

    return log_prior


def hyper_priors(setup: Setup, scales: Array) -> hyper.Objective:
    """The weak priors that all GP estimators share, on kernels and noise."""
    centre = setup.infer.log_variance
    chosen = {"kernel": priors.kernel_prior(setup.kernel, scales, centre)}
    if isinstance(setup.infer, ExactInference):
        chosen["noise"] = priors.noise_prior(len(setup.specific))
    own = [priors.kernel_prior(k, scales, centre) for k in setup.specific if k is not None]
    if own:
        chosen["specific"] = priors.join_priors(own)
    if setup.background is not None:
        chosen["background"] = priors.kernel_prior(setup.background, scales)
    return priors.independent_priors(chosen)


def objective_of(setup: Setup, scales: Array, prior: str | None, sd: float | None) -> hyper.Objective:
    """What is maximised: the evidence, and the priors that are switched on."""
    objective = focused_objective(setup)
    for log_prior in priors_of(setup, scales, prior, sd):
        objective = hyper.with_prior(objective, log_prior)
    return objective


def priors_of(setup: Setup, scales: Array, prior: str | None, sd: float | None) -> list[hyper.Objective]:
    """The priors that are switched on."""
    on_kernels = [] if prior is None else [hyper_priors(setup, scales)]
    return on_kernels + ([] if sd is None or not len(setup.secondaries) else [weight_prior(setup, sd)])


def measure_uncertainty(
    setup: Setup, values: Values, scales: Array, prior: str | None, sd: float | None
) -> HyperUncertainty | None:
    """How uncertain the hyper-parameters leave the primary's function; relations that were dropped count as known."""
    priors = priors_of(setup, scales, prior, sd)

    def evaluate(values: Values) -> tuple[Values, Array]:
        fit = condition(values, setup)
        gradient = evidence_gradient(fit, values, setup)
        for log_prior in priors:
            for name, g in log_prior(values)[1].items():
                gradient[name] = gradient[name] + g
        carrier = fit.posterior.prior.carriers[0]
        c = solve_lower_transposed(carrier.L, fit.posterior.a[fit.posterior.prior.parameters.columns[0]])
        return gradient, to_host(c)

    held = hyper.pack({n: (v == 0 if n == "rho" else np.zeros_like(v)) for n, v in values.items()}).astype(bool)
    kernel = setup.kernel.with_theta(values["kernel"])
    return measure(evaluate, values, kernel, setup.Z, held)


def weight_sd(rho_prior: Any) -> float | None:
    """Standard deviation of the prior on w = rho sqrt(v) from the constructor's `rho_prior`."""
    if rho_prior is None:
        return None
    sd = 1.0 if isinstance(rho_prior, str) and rho_prior == "auto" else rho_prior
    if isinstance(sd, str) or not np.isfinite(sd) or sd <= 0:
        raise ValueError(f"rho_prior={rho_prior!r}: expected 'auto', a positive standard deviation, or None")
    return float(sd)


def primary_code(primary: Any, labels: tuple[Hashable, ...]) -> int:
    """Code of the task that matters."""
    if primary is None:
        if len(labels) == 1:
            return 0
        raise ValueError(f"there are {len(labels)} tasks and no primary; give primary=, one of {list_labels(labels)}")
    if primary not in labels:
        raise ValueError(f"primary={primary!r} is not a task; tasks are {list_labels(labels)}")
    return labels.index(primary)


def prepare(
    data: TaskData,
    primary: int,
    kernel: Any,
    specific_kernel: Any,
    rho: Any,
    background: int = 0,
    infer: Inference = EXACT,
) -> tuple[Setup, Values]:
    """The model at the hyper-parameters given, or at neutral ones; the likelihood's own are for the caller to add."""
    shared = default_kernel(data.column_scales, kernel, "kernel")
    plain = default_kernel(data.column_scales, None, "specific_kernel", tied=True)
    own = plain + Constant(OFFSET_VARIANCE)  # each task is centred on its own rows: a secondary's level is its own
    specific: list[Kernel | None] = [
        None if k is None else own if isinstance(k, str) and k == "auto" else resolve(k, "specific_kernel")
        for k in by_label(specific_kernel, data.labels, "specific_kernel", default="auto")
    ]
    specific[primary] = None
    setup = Setup(PlacedTasks(data.cells), primary, shared, specific, np.zeros((0, data.cells.X.shape[1])), infer=infer)
    weights = numbers_by_label(rho, data.labels, "rho", default=0.0)
    thetas = [k.theta for k in specific if k is not None]
    values: Values = {
        "kernel": shared.theta,
        "rho": np.array([weights[t] for t in setup.secondaries]),
        "specific": np.concatenate(thetas) if thetas else np.zeros(0),
    }
    if background:
        common = replace(plain, fixed=("variance",))  # type: ignore[type-var]  # the loadings carry the scale
        setup = replace(setup, background=common)
        values |= {"background": common.theta, "loadings": np.zeros((len(setup.secondaries), background))}
    return setup, values


def parameter_names(labels: tuple[Hashable, ...], setup: Setup, background: int = 0) -> dict[str, list[str]]:
    """What to call each entry of `values` in a warning."""
    own = [(t, k) for t, k in enumerate(setup.specific) if k is not None]
    loadings = [f"background weight of task {labels[t]!r}" for t in setup.secondaries]
    common = setup.background.parameter_names() if setup.background else []
    return {
        "kernel": [f"{n} of the primary's kernel" for n in setup.kernel.parameter_names()],
        "rho": [f"rho of task {labels[t]!r}" for t in setup.secondaries],
        "specific": [f"{n} of task {labels[t]!r}" for t, k in own for n in k.parameter_names()],
        "noise": [f"noise of task {label!r}" for label in labels],
        "background": [f"{n} of the background" for n in common],
        "loadings": [n for n in loadings for _ in range(background)],
    }


def check_memory(setup: Setup) -> None:
    """Refuse what would not fit, before it is allocated."""
    sizes = np.diff(setup.cells.starts).astype(float)
    own = np.array([k is not None for k in setup.specific])
    m = len(setup.Z) + (0 if setup.background_Z is None else len(setup.background_Z))
    place = setup.tasks.device
    blocks, tall = (3, 5) if place is None else (8, 9)  # matrices of each kind at once; on a GPU also of each kernel
    padded = 1.0 if place is None else STRETCH
    setup.tasks.require(
        8.0
        * (
            blocks * padded**2 * float((sizes[own] ** 2).sum())
            + tall * padded * sizes.sum() * m
            + 4 * sizes[setup.primary] ** 2
        ),
        f"a focused GP of {len(sizes)} task(s), of up to {int(sizes.max()):,} distinct rows,",
        "thin the rows of the largest task, or average its replicates",
    )
