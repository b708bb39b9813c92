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
- A relation that adds less than one nat is dropped (`focused_search.prune`), part of the same default.
- The evidence has a mode for every choice of signs. Flipping the sign of task t changes b_t only, so all flips are
  scored in closed form (`focused_search.best_signs`) instead of by blind restarts.
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Hashable
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from borrow import hyper, memory
from borrow.covariance import Basis, SharedCovariance
from borrow.covariance.shared import Prediction
from borrow.data import Cells, Codes, TaskData, list_labels
from borrow.hyper import Optimum, Values
from borrow.inference import Exact, exact
from borrow.kernels import Constant, Kernel, resolve
from borrow.likelihoods import Gaussian
from borrow.linalg import Array
from borrow.models.estimator import (
    Fitted,
    GPRegressor,
    by_label,
    numbers_by_label,
    single_thread,
    warn_unfinished,
)
from borrow.table import Table

log = logging.getLogger("borrow")

#: Where the variance of a secondary's own offset starts, in units of its scaled targets.
OFFSET_VARIANCE = 0.3


@dataclass(frozen=True)
class Setup:
    """The model without its hyper-parameters."""

    cells: Cells
    primary: int
    kernel: Kernel
    specific: list[Kernel | None]  # None for the primary, and where a secondary has no specific part
    Z: Array
    background: Kernel | None = None
    background_Z: Array | None = None

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
    specific = [
        None if k is None else k.with_theta(values["specific"][at])
        for k, at in zip(setup.specific, setup.specific_parts, strict=True)
    ]
    bases, basis_of = [Basis(setup.kernel.with_theta(values["kernel"]), setup.Z)], [0]
    if setup.background is not None and setup.background_Z is not None:
        bases.append(Basis(setup.background.with_theta(values["background"]), setup.background_Z))
        basis_of += [1] * values["loadings"].shape[1]
    R = task_weights(values, setup)
    return SharedCovariance(setup.cells.X, setup.cells.starts, bases, basis_of, R, specific)


def condition(values: Values, setup: Setup) -> Exact:
    """Posterior and log evidence at given hyper-parameters (sec. 2.4)."""
    return exact(prior_of_tasks(values, setup), Gaussian(setup.cells, np.exp(values["noise"])))


def focused_objective(setup: Setup) -> hyper.Objective:
    """log evidence and its gradient by all of `values` (sec. 2.4)."""

    def objective(values: Values) -> tuple[float, Values]:
        fit = condition(values, setup)
        adjoints, by_noise = fit.gradient()
        parts = [g for g in adjoints.specific if g is not None]
        by: Values = {
            "kernel": adjoints.bases[0],
            "rho": adjoints.weights[setup.secondaries, 0],
            "specific": np.concatenate(parts) if parts else np.zeros(0),
            "noise": by_noise,
        }
        if "loadings" in values:
            by["background"] = adjoints.bases[1]
            by["loadings"] = adjoints.weights[setup.secondaries, 1:]
        return fit.evidence, by

    return objective


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
    priors = {
        "kernel": hyper.kernel_prior(setup.kernel, scales),
        "noise": hyper.noise_prior(len(setup.specific)),
    }
    own = [hyper.kernel_prior(k, scales) for k in setup.specific if k is not None]
    if own:
        priors["specific"] = hyper.join_priors(own)
    if setup.background is not None:
        priors["background"] = hyper.kernel_prior(setup.background, scales)
    return hyper.independent_priors(priors)


class FocusedGPRegressor(GPRegressor):
    """Learn a primary task with the help of secondary ones: y_t = rho_t f_primary + a function of its own + noise.

    Parameters
    ----------
    task : column of X that names the task (name or position); None with `tasks=` in `fit`, wide y, or a single task.
    primary : label of the task that matters; may be left out only when there is a single task.
    kernel : kernel of the primary's function; default squared exponential with one lengthscale a column.
    specific_kernel : kernel of what a secondary does not share; one for all or a dict by label (None: no such part);
        default squared exponential plus a constant.
    rho, noise : starting values (the values, with `optimizer=None`); a number or a dict by label. Noise variances are
        in the units of y; rho and kernel variances refer to scaled targets.
    inducing : "auto", "primary" (the paper's), a number of inputs, or an array of them.
    rho_prior : "auto" is N(0, 1) on rho sqrt(variance), a number is another standard deviation, None is no prior.
    background : number of functions shared among the secondaries but not with the primary.
    normalize_y, prior, optimizer, max_iter, n_restarts, random_state : as in every GP estimator; restarts flip signs
        of rho at random.

    Fitted attributes beyond the common ones: `rho_`, `specific_kernels_` (dicts by label), `inducing_`,
    `background_` (dict by label of loadings).
    """

    def __init__(
        self,
        task: str | int | None = None,
        primary: Any = None,
        *,
        kernel: Any = None,
        specific_kernel: Any = None,
        rho: Any = None,
        noise: Any = None,
        inducing: Any = "auto",
        rho_prior: Any = "auto",
        background: int = 0,
        normalize_y: bool = True,
        prior: str | None = "auto",
        optimizer: str | None = "lbfgs",
        max_iter: int = 500,
        n_restarts: int = 1,
        random_state: Any = 0,
    ) -> None:
        self.task = task
        self.primary = primary
        self.kernel = kernel
        self.specific_kernel = specific_kernel
        self.rho = rho
        self.noise = noise
        self.inducing = inducing
        self.rho_prior = rho_prior
        self.background = background
        self.normalize_y = normalize_y
        self.prior = prior
        self.optimizer = optimizer
        self.max_iter = max_iter
        self.n_restarts = n_restarts
        self.random_state = random_state

    def _primary_code(self, labels: tuple[Hashable, ...]) -> int:
        if self.primary is None:
            if len(labels) == 1:
                return 0
            raise ValueError(
                f"there are {len(labels)} tasks and no primary; give primary=, one of {list_labels(labels)}"
            )
        if self.primary not in labels:
            raise ValueError(f"primary={self.primary!r} is not a task; tasks are {list_labels(labels)}")
        return labels.index(self.primary)

    def _fit(self, data: TaskData) -> Fitted:
        setup, values = self._prepare(data)
        optimum = None
        if self.optimizer is not None:
            setup, values, optimum = self._optimise(data, setup, values)
            warn_unfinished(self, optimum, self._names(data, setup), self._objective(setup, data.column_scales))
        fit = condition(values, setup)
        self._setup, self._values, self._scales, self._posterior = (
            setup,
            values,
            data.column_scales,
            fit.posterior,
        )
        self._publish(data.labels)
        if len(setup.secondaries) and not len(setup.cells.y[setup.cells.of(setup.primary)]):
            warnings.warn(
                f"the primary task {data.labels[setup.primary]!r} has no labelled row: it is predicted from the other "
                "tasks alone, in their average units, and the sign of each relation is an assumption",
                UserWarning,
                stacklevel=3,
            )
        jitter = fit.posterior.prior.jitter
        if jitter > 0:
            log.info("relative jitter %g was added to the covariance of the inducing inputs", jitter)
        n_iter, converged = (0, True) if optimum is None else (max(optimum.n_iter, 1), optimum.converged)
        return Fitted(fit.evidence, np.exp(values["noise"]), jitter, n_iter, converged)

    def _prepare(self, data: TaskData) -> tuple[Setup, Values]:
        """The model at the hyper-parameters given, or at neutral ones."""
        from borrow.models import focused_search as search

        p, M = self._primary_code(data.labels), len(data.labels)
        kernel = self._default_kernel(data, self.kernel, "kernel")
        given = by_label(self.specific_kernel, data.labels, "specific_kernel", default="auto")
        offset = OFFSET_VARIANCE  # each task was centred on its own rows: a secondary's level is its own
        own = self._default_kernel(data, None, "specific_kernel", tied=True) + Constant(offset)
        specific: list[Kernel | None] = [
            None if k is None else own if isinstance(k, str) and k == "auto" else resolve(k, "specific_kernel")
            for k in given
        ]
        specific[p] = None
        setup = Setup(data.cells, p, kernel, specific, np.zeros((0, data.cells.X.shape[1])))
        rho = numbers_by_label(self.rho, data.labels, "rho", default=0.0)
        thetas = [k.theta for k in specific if k is not None]
        values: Values = {
            "kernel": kernel.theta,
            "rho": np.array([rho[t] for t in setup.secondaries]),
            "specific": np.concatenate(thetas) if thetas else np.zeros(0),
            "noise": np.log(self._start_noise(data)),
        }
        if self.background:
            if not isinstance(self.background, (int, np.integer)) or self.background < 0:
                raise ValueError(f"background={self.background!r}: expected a number of functions, 0 for none")
            shared = self._default_kernel(data, None, "kernel", tied=True)
            shared = replace(shared, fixed=("variance",))  # type: ignore[type-var]  # the loadings carry the scale
            setup = replace(setup, background=shared)
            values["background"], values["loadings"] = shared.theta, np.zeros((M - 1, int(self.background)))
        setup = search.with_inducing(self.inducing, data, setup, values)
        self._check_memory(data, setup)
        return setup, values

    def _objective(self, setup: Setup, scales: Array) -> hyper.Objective:
        """What is maximised: the evidence, and the priors that are switched on."""
        objective = focused_objective(setup)
        if self.prior is not None:
            objective = hyper.with_prior(objective, hyper_priors(setup, scales))
        sd = self._weight_sd()
        if sd is not None and len(setup.secondaries):
            objective = hyper.with_prior(objective, weight_prior(setup, sd))
        return objective

    def _weight_sd(self) -> float | None:
        """Standard deviation of the prior on w = rho sqrt(v)."""
        if self.rho_prior is None:
            return None
        sd = 1.0 if isinstance(self.rho_prior, str) and self.rho_prior == "auto" else self.rho_prior
        if isinstance(sd, str) or not np.isfinite(sd) or sd <= 0:
            raise ValueError(f"rho_prior={self.rho_prior!r}: expected 'auto', a positive standard deviation, or None")
        return float(sd)

    def _optimise(self, data: TaskData, setup: Setup, values: Values) -> tuple[Setup, Values, Optimum]:
        """Race the starts of `focused_search`, mend signs, choose Z again for the kernel found and go on from there."""
        from borrow.models import focused_search as search

        scales = data.column_scales
        alone = search.fit_alone(setup, values, scales, self.prior, self.max_iter)
        setup = search.with_inducing(self.inducing, data, setup, {**alone.values, **alone.finest(setup)})
        given = {**alone.values, "rho": values["rho"]} if self.rho is not None else None
        starts = search.starts(setup, alone, check_random_state(self.random_state), self.n_restarts, given)
        bounds = hyper.bounds_around(starts[0], {"noise": float(np.log(hyper.NOISE_FLOOR))})
        objective = self._objective(setup, scales)
        best = hyper.race(objective, starts, bounds, self.max_iter)
        best = search.mend_signs(objective, setup, best, bounds, self.max_iter)
        sd = self._weight_sd()
        if sd is not None and len(setup.secondaries) and alone.primary is not None:
            posterior = condition(best.values, setup).posterior
            gains = search.sharing_gains(setup, best.values, posterior, alone, scales, self.prior, sd)
            best, bounds = search.prune(objective, best, gains, setup, alone, bounds, self.max_iter)
        again = search.with_inducing(self.inducing, data, setup, best.values)
        if not np.array_equal(again.Z, setup.Z):
            setup, objective, before = again, self._objective(again, scales), best.n_iter
            best = hyper.maximise(objective, best.values, bounds, self.max_iter)
            best = search.mend_signs(objective, setup, best, bounds, self.max_iter)
            best = replace(best, n_iter=before + best.n_iter)
        log.info(
            "objective %.4f after %d iterations, %d inducing inputs",
            best.objective,
            best.n_iter,
            len(setup.Z),
        )
        return setup, best.values, best

    def _publish(self, labels: tuple[Hashable, ...]) -> None:
        prior, setup = self._posterior.prior, self._setup
        self.kernel_ = prior.carriers[0].basis.kernel
        self.inducing_ = setup.Z
        self.rho_ = dict(zip(labels, prior.weights[:, 0].tolist(), strict=True))
        self.specific_kernels_ = {labels[t]: prior.specific[t] for t in setup.secondaries}
        self.background_ = {labels[t]: prior.weights[t, 1:].tolist() for t in setup.secondaries}

    def _names(self, data: TaskData, setup: Setup) -> dict[str, list[str]]:
        own = [(t, k) for t, k in enumerate(setup.specific) if k is not None]
        loadings = [f"background weight of task {data.labels[t]!r}" for t in setup.secondaries]
        return {
            "kernel": [f"{n} of the primary's kernel" for n in setup.kernel.parameter_names()],
            "rho": [f"rho of task {data.labels[t]!r}" for t in setup.secondaries],
            "specific": [f"{n} of task {data.labels[t]!r}" for t, k in own for n in k.parameter_names()],
            "noise": [f"noise of task {label!r}" for label in data.labels],
            "background": [f"{n} of the background" for n in setup.background.parameter_names()]
            if setup.background
            else [],
            "loadings": [n for n in loadings for _ in range(int(self.background))],
        }

    def _check_memory(self, data: TaskData, setup: Setup) -> None:
        sizes = np.diff(data.cells.starts).astype(float)
        own = np.array([k is not None for k in setup.specific])
        m = len(setup.Z) + (self.background * len(setup.background_Z) if setup.background_Z is not None else 0)
        primary = sizes[setup.primary]
        memory.require(
            8.0 * (3 * float((sizes[own] ** 2).sum()) + 5 * sizes.sum() * m + 4 * primary**2),
            f"a focused GP of {len(sizes)} task(s), of up to {int(sizes.max()):,} distinct rows,",
            "thin the rows of the largest task, or average its replicates",
        )

    def _predict(self, X: Array, task: Codes, full: bool) -> Prediction:
        return self._posterior.predict(X, task, full)

    def relatedness(self) -> Table:
        """One row a task: rho, its standard error, correlation with the primary, share of its variance that is shared.

        The standard error comes from the curvature of what was maximised, at the optimum. `share` is the part of the
        function's prior variance that comes from the primary's function (noise left out); `correlation` is the prior
        correlation of the two functions at the same input.
        """
        from borrow.models.relatedness import relatedness

        check_is_fitted(self)
        objective = self._objective(self._setup, self._scales)
        with single_thread(int(np.diff(self._setup.cells.starts).max())):
            return relatedness(self._setup, self._values, self._posterior, objective, self._schema.labels)
