"""Symmetric multi-task GP with a free-form task covariance.

E. V. Bonilla, K. M. A. Chai, C. K. I. Williams: Multi-task Gaussian process prediction. NIPS 2007 (2008).

| symbol          | name here                       | shape                                               |
|-----------------|---------------------------------|-----------------------------------------------------|
| K^f             | `form.parts(values).B`          | (M, M); forms in `task_covariance`                  |
| k^x             | `kernel`                        | a correlation: its variance is not learnt           |
| sigma_l^2       | exp of `values["noise"]`        | (M,), or (1,) where it is shared                    |
| L~, P           | `form.parts(values).R`          | (M, P)                                              |
| Q               | `len(Z)`                        | inducing inputs of the Nystrom approximation        |
| N, M            | `len(design.inputs)`, `len(B)`  | distinct inputs, tasks                              |

| equation | function                                                                                   |
|----------|--------------------------------------------------------------------------------------------|
| (1)      | `prior_of_tasks`: the covariance, in the form that is cheapest for the data                |
| (2)      | `condition`: the posterior, whose `predict` is in `borrow.covariance`                      |
| sec. 2.2 | `multitask_objective`: log evidence and its gradient; EM in `em`                           |
| sec. 2.3 | `transfer_cancels`                                                                         |
| sec. 3   | `choose_path`, `prior_of_tasks`: low rank and Nystrom                                      |

Deviations, each with its reason:
- One noise variance per task (`share_noise=True` for the paper's): the largest single gain on real tables.
- K^f gets an inverse-Wishart penalty (`task_prior=None` for the paper's): with 16 rows per task it is badly estimated,
  and the plain likelihood needs hundreds of evaluations to end at a singular matrix.
- Nystrom's approximation loses variance; what it loses stays on the diagonal, at no cost, so that bands stay honest.
  The paper drops it, and so does EM.
- The paper averages replicates and divides the noise; here the scatter within a cell stays in the evidence.
- A random intercept and a function of its own for every task can be added: real tasks differ in level, and tasks that
  need another lengthscale lose by any shared k^x.
- Start: K^f from the correlation of the tasks' own fits, so that no two columns of a factor start equal.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from borrow.covariance import (
    Adjoints,
    Basis,
    CompletePosterior,
    CompleteTasks,
    DenseTasks,
    Design,
    LowRankTasks,
    SharedCovariance,
)
from borrow.estimators.gp import EXACT
from borrow.inference import HyperUncertainty, Inference, Result, UncertaintyByTask, direction, priors
from borrow.kernels import Constant, Kernel, Product, Sum
from borrow.models.gp.model import Evidence, explore, single_lengthscales, uncertainty_by_task
from borrow.models.gp.task_model import TaskModel
from borrow.models.multitask.task_covariance import Form, LowRank, SharingTasks
from borrow.numerics.linalg import Array, cholesky_jittered
from borrow.numerics.optimise import Objective, Values, with_prior
from borrow.numerics.stored import stored
from borrow.tasks.contracts import Shard, Tasks

#: Less than this is noise, and less of the fit crosses from task to task: transfer has cancelled (sec. 2.3).
CANCELLED = 1e-3
#: The path of Nystrom's approximation without the variance that it loses, as the paper has it: EM's (sec. 3).
AS_PRINTED = "low rank, as printed"


@stored("multitask-setup")
@dataclass(frozen=True)
class Setup(TaskModel):
    """The model without its hyper-parameters."""

    tasks: Tasks[Shard]
    design: Design
    kernel: Kernel
    form: Form
    path: str
    Z: Array | None = None  # inducing inputs; None: all distinct inputs
    intercept: bool = False
    specific: Sequence[Kernel | None] = ()  # empty: no task has a function of its own
    share_noise: bool = False
    infer: Inference = EXACT

    @property
    def M(self) -> int:
        """The number of tasks, those without rows counted too."""
        return self.design.n_tasks

    def directions_of_tasks(self, values: Values, V: Array) -> Values:
        """By the parameters phi of K^f: (dK^f/dphi)[t_i, :] V_i."""
        moves = self.form.changes(values)
        return {self.form.scored: np.concatenate([V[self.cells.of(t)] @ moves[:, t].T for t in range(self.M)])}


def choose_path(
    design: Design, form: Form, intercept: bool, specific: Sequence[Kernel | None], inducing: bool, merged: bool = True
) -> str:
    """The cheapest exact algebra for these data, or the approximation asked for (sec. 3).

    "complete": two eigendecompositions. "gathered": sums by distinct input, P N of them the size of the problem.
    "low rank": the same on inducing inputs. "blocks": one block per task given P functions at N inputs. "dense": rows.
    """
    n, M = len(design.X), design.n_tasks
    N, sizes = len(design.inputs), np.diff(design.starts).astype(float)
    own = form.diagonal != "none" if isinstance(form, LowRank) else form.rank is not None
    alone = not own and not specific
    if inducing:
        return "low rank" if alone and merged else "blocks"
    if M > 1 and design.complete and merged and not intercept and not specific:
        return "complete"
    if form.rank is None:
        return "dense"
    P = float(form.rank)
    if alone and merged:
        gathered = P * P * N**3 / 2 + (P * N) ** 3
        return "gathered" if gathered < float(n) ** 3 else "dense"
    blocks = np.sum(sizes**3) + n * (P * N) ** 2 + (P * N) ** 3
    return "blocks" if blocks < float(n) ** 3 else "dense"


def prior_of_tasks(values: Values, setup: Setup) -> Any:
    """The joint prior of all tasks' functions (eq. 1; sec. 3 for the low-rank forms)."""
    parts, kernel = setup.form.parts(values), setup.kernel.with_theta(values["kernel"])
    c = float(np.exp(values["intercept"][0])) if setup.intercept else 0.0
    specific = list(setup.specific_kernels(values))
    if setup.path == "complete":
        return CompleteTasks(setup.design, kernel, parts.B)  # eq. 1: K^f (x) K^x
    if setup.path == "dense":
        return DenseTasks(setup.design, kernel, parts.B, c, specific)  # eq. 1, at the rows that are there
    Z = setup.design.inputs if setup.Z is None else setup.Z  # sec. 3: Nystrom's approximation of K^x
    R = parts.R if parts.R is not None else np.asarray(cholesky_jittered(parts.B)[0])  # sec. 3: K^f = R R'
    if setup.path == "blocks":
        return prior_of_blocks(setup.tasks, kernel, Z, R, parts.own, c if setup.intercept else None, specific)
    return LowRankTasks(setup.tasks, kernel, Z, R, c, keeps=setup.path != AS_PRINTED)


def prior_of_blocks(
    tasks: Tasks[Shard],
    kernel: Kernel,
    Z: Array,
    R: Array,
    own: Array | None,
    intercept: float | None,
    specific: Sequence[Kernel | None],
) -> SharedCovariance:
    """K^f = R R' + diag(own) on the kernel at Z, the variance of intercepts, and the tasks' own kernels (sec. 3).

    One block per task given the functions that tasks share. What a task does not share is a sum of kernels: s_t^2 k^x
    of a diagonal in K^f, a random intercept, and its own kernel.
    """
    blocks: list[Kernel | None] = []
    for t in range(len(R)):
        terms: list[Kernel] = [Product.of(Constant(float(own[t])), kernel)] if own is not None and own[t] > 0 else []
        terms += [] if intercept is None else [Constant(intercept)]
        terms += [k for k in specific[t : t + 1] if k is not None]
        blocks.append(Sum.of(*terms) if terms else None)
    return SharedCovariance(tasks, [Basis(kernel, Z)] if R.shape[1] else [], [0] * R.shape[1], R, blocks)


def adjoints_of_parts(found: Adjoints, n_theta: int, own: Array | None, log_intercept: Array | None) -> Adjoints:
    """Adjoints of the blocks' kernels taken apart again: own variance, k^x, intercept, the task's kernel."""
    theta = found.bases[0].copy() if found.bases else np.zeros(n_theta)
    diagonal, intercept, specific = np.zeros(len(found.specific)), 0.0, []
    blocks: list[Any] = list(found.specific)
    for t, rest in enumerate(blocks):
        if own is not None and own[t] > 0:
            diagonal[t], theta, rest = rest[0] / own[t], theta + rest[1 : 1 + n_theta], rest[1 + n_theta :]
        if log_intercept is not None:
            intercept, rest = intercept + rest[0] / float(np.exp(log_intercept[0])), rest[1:]
        specific.append(rest)
    return found._replace(bases=[theta], diagonal=diagonal, intercept=intercept, specific=specific)


def condition(values: Values, setup: Setup, start: Any = None) -> Result:
    """Posterior, which predicts by eq. (2), and log evidence at given hyper-parameters."""
    if "noise" in values:
        values = {**values, "noise": np.broadcast_to(values["noise"], setup.M)}
    return setup.infer(prior_of_tasks(values, setup), setup.tasks, values, start)


def multitask_objective(setup: Setup) -> Evidence:
    """log evidence and its gradient by all of `values` (sec. 2.2)."""
    return Evidence(setup, setup.tasks, condition, evidence_gradient, setup.tasks.report)


def evidence_gradient(fit: Result, values: Values, setup: Setup) -> Values:
    """The adjoints of the evidence handed on to all of `values`."""
    adjoints, by = fit.gradient()
    if setup.path == "blocks":
        own = setup.form.parts(values).own
        adjoints = adjoints_of_parts(adjoints, setup.kernel.n_theta, own, values.get("intercept"))
    by |= {"kernel": adjoints.bases[0], **setup.form.pullback(values, adjoints)}
    if setup.share_noise and "noise" in by:
        by["noise"] = np.array([by["noise"].sum()])
    if setup.intercept:
        by["intercept"] = np.exp(values["intercept"]) * adjoints.intercept
    if setup.specific:
        by["specific"] = setup.by_specific(adjoints)
    return {n: by[n] for n in values}


def log_prior_of(setup: Setup, scales: Array) -> priors.NamedPriors:
    """The weak priors that all GP estimators share, on kernels, noise and intercept.

    The relevance of columns is in common through k^x alone: own functions are there for tasks that differ, and
    correlated lengthscales were worse on the scenarios that choose defaults.
    """
    chosen = setup.weak_priors(scales)
    if setup.intercept:
        chosen["intercept"] = priors.GaussianPrior(np.zeros(1), np.full(1, priors.VARIANCE_SD**-2))
    return priors.independent_priors(chosen)


def priors_of(setup: Setup, scales: Array, prior: str | None) -> list[Any]:
    """The priors that are switched on; that of K^f, the first, belongs to its form."""
    return [setup.form.log_prior] + ([] if prior is None else [log_prior_of(setup, scales)])


def objective_of(setup: Setup, scales: Array, prior: str | None) -> Objective:
    """What is maximised: the evidence, and the priors that are switched on."""
    return with_prior(multitask_objective(setup), *priors_of(setup, scales, prior))


def model_uncertainty(
    setup: Setup, values: Values, scales: Array, prior: str | None, centred: bool
) -> HyperUncertainty | UncertaintyByTask | None:
    """How uncertain the hyper-parameters leave the functions: lengthscales, variances and noise, each moved as a whole.

    Single lengthscales of k^x are moved too; single entries of K^f and the noise of single tasks are not. Where no task
    shares anything, each is as uncertain as a single-task GP. The levels of centred targets are integrated out
    where the algebra has room for functions of single tasks.
    """
    if isinstance(setup.form, SharingTasks) and not setup.form.members:
        alone = setup.specific_kernels(values)
        return uncertainty_by_task(setup.tasks, alone, values, scales, prior, setup.infer, centred)
    own = {
        name: np.concatenate([np.zeros(0), *(k.mask_of(name) for k in setup.specific if k is not None)])
        for name in ("lengthscale", "variance")
    }
    lengths = direction(values, kernel=setup.kernel.mask_of("lengthscale"), specific=own["lengthscale"])
    growth = direction(values, **setup.form.growth(values), specific=own["variance"])
    moves = [lengths, growth, direction(values, noise=1.0)]
    room = setup.path in ("dense", "blocks")
    levelled = replace(setup, specific=setup.with_unknown_levels(centred)) if room else setup
    log_priors, singles = priors_of(setup, scales, prior), single_lengthscales(values, setup.kernel)
    return explore(setup.tasks, lambda at: condition(at, levelled), log_priors, values, moves, singles)


def transfer_cancels(posterior: Any) -> bool:
    """A complete design almost without noise: the prediction of a task depends on its own targets alone (sec. 2.3).

    Little also crosses where tasks are unrelated or where each was asked to be alone; that is not meant.
    """
    if not isinstance(posterior, CompletePosterior) or not posterior.related:
        return False
    return max(posterior.share_of_noise(), posterior.share_of_transfer()) < CANCELLED


def correlation_kernel(kernel: Kernel) -> Kernel:
    """The kernel with its overall variance held: K^f carries the scale. Of a sum, the first term's is held."""
    if isinstance(kernel, Sum):
        return Sum((correlation_kernel(kernel.parts[0]), *kernel.parts[1:]))
    if isinstance(kernel, Product):
        return Product(tuple(correlation_kernel(k) for k in kernel.parts))
    if "variance" in getattr(kernel, "learnable", ()) and np.ndim(kernel.variance) == 0:  # type: ignore[attr-defined]
        held = {*kernel.fixed, "variance"}  # type: ignore[attr-defined]
        return replace(kernel, fixed=tuple(sorted(held)))  # type: ignore[type-var]
    return kernel
