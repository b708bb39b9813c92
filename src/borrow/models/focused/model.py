"""Focused (asymmetric) multi-task GP regression.

G. Leen, J. Peltonen, S. Kaski: Focused multi-task learning using Gaussian processes. ECML PKDD 2011.

| symbol           | name here                    | shape                                             |
|------------------|------------------------------|---------------------------------------------------|
| f^p              | the shared function          | carried by u at `Z`, m inducing inputs            |
| X of the primary | `Z`                          | (m, d), see below                                 |
| D_t + rho^2 V V' | `design`                     | all pairs of rows, where that is cheaper          |
| k^p              | `kernel`                     |                                                   |
| rho_t            | `values["rho"]`              | (M - 1,), the primary's is 1                      |
| K_t^spec         | `values["specific"]`         | kernels of the tasks' own parts, one after other  |
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
  the prior variance of f^p, gets a N(0, 1) prior by default, N(0, e^2) with labels, whose functions are so much larger
  (`rho_prior=None` for the paper's). On rho alone the prior would inflate v instead.
- In the paper all of the primary's function is shared. Where several secondaries have a function in common that depends
  on other columns than the primary, they have rows enough to make it the primary's, whose own rows become noise. So
  the primary too has a part of its own, f^p + own, with the lengthscales of its own rows where these say so; with
  labels always, and its weight on f^p then has the prior of the others': without, f^p was what the secondaries share
  made three times as large, and far too sure. There is none with `rho_prior=None`, with background functions, and
  where nothing is shared.
- A relation that adds less than 1.5 nats is dropped (`relations.prune`), part of the same default. With labels none is,
  and predictions are averaged with those of no transfer by the odds of the two (`relations.log_odds`).
- The evidence has a mode for every choice of signs. Flipping the sign of task t changes b_t only, so all flips are
  scored in closed form (`relations.best_signs`) instead of by blind restarts.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from borrow.covariance import Basis, DenseTasks, Design, SharedCovariance
from borrow.estimators.gp import EXACT
from borrow.inference import Inference, Result, priors
from borrow.inference.hyper_uncertainty import MOST_ROWS, HyperUncertainty, UncertaintyByTask, direction
from borrow.kernels import Kernel
from borrow.models.gp.model import Evidence, explore, single_lengthscales, uncertainty_by_task
from borrow.models.gp.task_model import TaskModel
from borrow.numerics.linalg import Array
from borrow.numerics.optimise import Objective, Values, pack, with_prior
from borrow.numerics.stored import stored
from borrow.tasks.contracts import Shard, Tasks


@stored("focused-setup")
@dataclass(frozen=True)
class Setup(TaskModel):
    """The model without its hyper-parameters."""

    tasks: Tasks[Shard]
    primary: int
    kernel: Kernel
    specific: list[Kernel | None]  # None where a task has no specific part
    Z: Array  # inducing inputs; where the rows are written out, only where the variance of f^p is looked at
    background: Kernel | None = None
    background_Z: Array | None = None
    infer: Inference = EXACT
    design: Design | None = None  # all pairs of rows written out, nothing approximated; None: carried by Z
    left: float = 0.0  # the largest share of the variance of f^p that a Z chosen by "auto" leaves at any row

    noise_in_common = False

    @cached_property
    def secondaries(self) -> npt.NDArray[np.intp]:
        """Codes of the secondary tasks."""
        return np.delete(np.arange(len(self.specific)), self.primary)

    def directions_of_tasks(self, values: Values, V: Array) -> Values:
        """By rho_t, with r the weights of tasks: [t_i = t] (k^p (r beta))_i + r_i (k^p (beta [t]))_i."""
        r, task = task_weights(values, self)[:, 0], self.cells.task
        mine = task[:, None] == np.arange(len(r))
        return {"rho": (mine * (V @ r)[:, None] + r[task][:, None] * V)[:, self.secondaries]}


def task_weights(values: Values, setup: Setup) -> Array:
    """R[t, q]: rho_t on the primary's function, 1 for the primary (eqs. 4, 5), loadings on the background (sec. 3)."""
    loadings = values.get("loadings", np.zeros((len(setup.secondaries), 0)))
    R = np.zeros((len(setup.specific), 1 + loadings.shape[1]))
    R[setup.primary, 0] = 1.0  # eq. 5: rho of the primary
    R[setup.secondaries, 0] = values["rho"]  # eq. 4: f^shared = rho_t f^p
    R[setup.secondaries, 1:] = loadings  # sec. 3
    return R


def prior_of_tasks(values: Values, setup: Setup) -> SharedCovariance | DenseTasks:
    """The joint prior of all tasks' functions (eq. 9): every pair of rows, or in its structured form."""
    if setup.design is not None:  # eqs. 5, 8: cov(f_t, f_s) = rho_t rho_s k^p + [t = s] K_t^spec
        r, kernel = task_weights(values, setup)[:, 0], setup.kernel.with_theta(values["kernel"])
        return DenseTasks(setup.design, kernel, np.multiply.outer(r, r), specific=list(setup.specific_kernels(values)))
    bases, basis_of = [Basis(setup.kernel.with_theta(values["kernel"]), setup.Z)], [0]  # eqs. 6, 7: f^p through f^p(Z)
    if setup.background is not None and setup.background_Z is not None:  # sec. 3
        bases.append(Basis(setup.background.with_theta(values["background"]), setup.background_Z))
        basis_of += [1] * values["loadings"].shape[1]
    own = setup.specific_kernels(values)  # eq. 8: K^spec, a block per task
    return SharedCovariance(setup.tasks, bases, basis_of, task_weights(values, setup), own)  # eq. 9


def condition(values: Values, setup: Setup, start: Any = None) -> Result:
    """Posterior and log evidence at given hyper-parameters (sec. 2.4)."""
    return setup.infer(prior_of_tasks(values, setup), setup.tasks, values, start)


def focused_objective(setup: Setup) -> Evidence:
    """log evidence and its gradient by all of `values` (sec. 2.4)."""
    return Evidence(setup, setup.tasks, condition, evidence_gradient, setup.tasks.report)


def evidence_gradient(fit: Result, values: Values, setup: Setup) -> Values:
    """The adjoints of the evidence handed on to all of `values`."""
    adjoints, by = fit.gradient()
    weights = adjoints.weights
    if weights is None:  # B = r r', so d/dr = 2 bB r
        assert adjoints.B is not None
        weights = 2.0 * adjoints.B @ task_weights(values, setup)
    by |= {"kernel": adjoints.bases[0], "rho": weights[setup.secondaries, 0]}
    by["specific"] = setup.by_specific(adjoints)
    if "loadings" in values:
        by |= {"background": adjoints.bases[1], "loadings": weights[setup.secondaries, 1:]}
    return {n: by[n] for n in values}


@dataclass(frozen=True)
class WeightPrior:
    """w_t = rho_t sqrt(v) ~ N(0, sd^2) with v the mean prior variance of f^p over Z; the background's loadings alike.

    log p = -sum rho^2 v / (2 sd^2), so d/d rho = -rho v / sd^2 and d/d theta = -(sum rho^2 / (2 sd^2)) dv/d theta. With
    labels the primary's rho = 1 counts too where it has a part of its own: else f^p would be what secondaries share,
    made larger. Of numbers, whose scale is known, that changes nothing to speak of.
    """

    setup: Setup
    sd: float

    def _one(
        self, kernel: Kernel, Z: Array, theta: Array, weights: Array, more: float = 0.0
    ) -> tuple[float, Array, Array]:
        diagonal, pullback = kernel.with_theta(theta).evaluate_diag(Z)
        v, total = float(diagonal.mean()), (more + float(np.sum(weights**2))) / (2.0 * self.sd**2)
        return -total * v, pullback(np.full(len(Z), -total / len(Z))).theta, -weights * v / self.sd**2

    def __call__(self, values: Values) -> tuple[float, Values]:
        """The log density, and its derivatives by name."""
        setup = self.setup
        own = float(setup.specific[setup.primary] is not None and not setup.infer.gaussian)
        value, by_theta, by_rho = self._one(setup.kernel, setup.Z, values["kernel"], values["rho"], own)
        by: Values = {"kernel": by_theta, "rho": by_rho}
        if setup.background is not None and setup.background_Z is not None:
            more, by["background"], by["loadings"] = self._one(
                setup.background, setup.background_Z, values["background"], values["loadings"]
            )
            value += more
        return value, by

    def curvature(self, values: Values) -> Array:
        """Minus the second derivatives by rho, the kernel held."""
        v = float(self.setup.kernel.with_theta(values["kernel"]).diag(self.setup.Z).mean())
        on = {n: np.full(x.shape, float(n == "rho")) for n, x in values.items()}
        return np.diag(pack(on) * v / self.sd**2)


def hyper_priors(setup: Setup, scales: Array) -> priors.NamedPriors:
    """The weak priors that all GP estimators share, on kernels and noise."""
    chosen = setup.weak_priors(scales)
    if setup.background is not None:
        chosen["background"] = priors.kernel_prior(setup.background, scales)
    return priors.independent_priors(chosen)


def priors_of(setup: Setup, scales: Array, prior: str | None, sd: float | None) -> list[Any]:
    """The priors that are switched on."""
    on_kernels = [] if prior is None else [hyper_priors(setup, scales)]
    return on_kernels + ([] if sd is None or not len(setup.secondaries) else [WeightPrior(setup, sd)])


def objective_of(setup: Setup, scales: Array, prior: str | None, sd: float | None) -> Objective:
    """What is maximised: the evidence, and the priors that are switched on."""
    return with_prior(focused_objective(setup), *priors_of(setup, scales, prior, sd))


def model_uncertainty(
    setup: Setup, values: Values, scales: Array, prior: str | None, sd: float | None, centred: bool
) -> HyperUncertainty | UncertaintyByTask | None:
    """How uncertain the hyper-parameters leave the functions of all tasks.

    Moved are the lengthscales of all kernels together; the variance of f^p with w = rho sqrt(v) held, so that the
    secondaries stay as they are; how much is shared, by all rho alike; the noise of the primary; and lengthscales
    of its kernel one at a time. What is uncertain of a secondary's own part alone is not counted. Where nothing is
    shared, each task is as uncertain as a single-task GP; where the rows are many, the primary alone is. The levels of
    centred targets are integrated out. Hyper-parameters are taken as known where an evaluation is dear, which many
    rows of many tasks in the structured form are not: 2,450 rows of 25 tasks cost as much as 400 written out.
    """
    if "noise" in values and not np.any(task_weights(values, setup)[setup.secondaries]):
        few = len(setup.cells.y) <= MOST_ROWS
        own = [kernel if few else None for kernel in setup.specific_kernels(values)]
        own[setup.primary] = setup.kernel.with_theta(values["kernel"])
        return uncertainty_by_task(setup.tasks, own, values, scales, prior, setup.infer, centred)
    log_priors = priors_of(setup, scales, prior, sd)
    kernel, marks = setup.kernel, [k.mask_of("lengthscale") for k in setup.specific if k is not None]
    lengths = {"kernel": kernel.mask_of("lengthscale"), "specific": np.concatenate([np.zeros(0), *marks])}
    if setup.background is not None:
        lengths["background"] = setup.background.mask_of("lengthscale")
    moves = [
        direction(values, **lengths),
        direction(values, kernel=kernel.mask_of("variance"), rho=-0.5 * values["rho"]),
        direction(values, rho=values["rho"]),
    ]
    part, kernel_of_own = setup.specific_parts[setup.primary], setup.specific[setup.primary]
    if kernel_of_own is not None:  # how much is shared is how little is the primary's own
        moved = np.zeros(values["specific"].size)
        moved[part] = kernel_of_own.mask_of("variance")
        moves[-1] = direction(values, specific=moved)
    if "noise" in values:
        moves.append(direction(values, noise=np.arange(len(setup.specific)) == setup.primary))
    singles, levelled = single_lengthscales(values, kernel), replace(setup, specific=setup.with_unknown_levels(centred))
    rows = rows_of_equal_cost(values, setup)
    return explore(setup.tasks, lambda at: condition(at, levelled), log_priors, values, moves, singles, rows)


def rows_of_equal_cost(values: Values, setup: Setup) -> float:
    """How many rows with all pairs written out cost as much as an evaluation.

    n rows written out are a Cholesky factor, n^3 / 3 multiplications. In the structured form every task has one of its
    own rows and is projected on the m values that carry the shared functions: n_t^3 / 3 + n_t^2 m + n_t m^2 of task t,
    a third of (n_t + m)^3 - m^3. It is never more than the rows that there are: inputs that somebody names may cost
    more than the pairs of few rows.
    """
    n = np.diff(setup.cells.starts).astype(float)
    if setup.design is not None:
        return float(n.sum())
    m = len(setup.Z)
    if setup.background_Z is not None:
        m += values["loadings"].shape[1] * len(setup.background_Z)
    return float(min(n.sum(), np.cbrt(np.sum((n + m) ** 3 - m**3))))
