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
| sec. 2.2 | `multitask_objective`: log evidence and its gradient; EM in `multitask_em`                 |
| sec. 2.3 | `transfer_cancels`                                                                         |
| sec. 3   | `choose_path`, `prior_of_tasks`: low rank and Nystrom                                      |

Deviations, each with its reason:
- One noise variance a task (`share_noise=True` for the paper's): the largest single gain on real tables.
- K^f gets an inverse-Wishart penalty (`task_prior=None` for the paper's): with 16 rows a task it is badly estimated,
  and the plain likelihood needs hundreds of evaluations to end at a singular matrix.
- Nystrom's approximation loses variance; what it loses stays on the diagonal, at no cost, so that bands stay honest.
  The paper drops it.
- The paper averages replicates and divides the noise; here the scatter within a cell stays in the evidence.
- A random intercept and a function of its own for every task can be added: real tasks differ in level, and tasks that
  need another lengthscale lose by any shared k^x.
- Start: K^f from the correlation of the tasks' own fits, so that no two columns of a factor start equal.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np

from borrow.covariance import (
    Adjoints,
    Basis,
    CompleteTasks,
    DenseTasks,
    Design,
    LowRankTasks,
    SharedCovariance,
)
from borrow.covariance.kronecker import CompletePosterior
from borrow.data.cells import Cells, Codes
from borrow.inference import ExactInference, Inference, Result, priors
from borrow.kernels import Constant, Kernel
from borrow.kernels.compose import Product, Sum
from borrow.models.multitask.scoring import average_information, can_score
from borrow.models.multitask.task_covariance import Form, Given, LowRank, Parts, log_normal
from borrow.numerics import linalg
from borrow.numerics import optimise as hyper
from borrow.numerics.linalg import Array
from borrow.numerics.optimise import Values
from borrow.tasks.placed import PlacedTasks, TaskShard

EXACT = ExactInference()
#: Less than this is noise, and less of the fit crosses from task to task: transfer has cancelled (sec. 2.3).
CANCELLED = 1e-3
#: Steps that L-BFGS remembers: an evaluation costs far more than its memory, and the entries of K^f are correlated.
MEMORY = 100
#: With so few rows an evaluation costs less than a long memory does.
SMALL, SMALL_MEMORY = 400, 30
#: Scoring steps from every start before the best goes on.
HEAT = 4
#: At most so many rows of a task are used to find where K^f starts.
START_ROWS = 300
#: With more tasks than this, their own fits are compared through the inducing inputs where there are any.
START_PAIRS = 200


@dataclass(frozen=True)
class Setup:
    """The model without its hyper-parameters."""

    tasks: PlacedTasks
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
    def cells(self) -> Cells:
        """The rows of all tasks."""
        return self.tasks.cells

    @property
    def M(self) -> int:
        """Number of tasks."""
        return self.design.n_tasks

    @property
    def specific_parts(self) -> list[slice]:
        """Where each task's theta lies in `values["specific"]`."""
        ends = np.cumsum([0, *(0 if k is None else k.n_theta for k in self.specific)])
        return [slice(int(i), int(j)) for i, j in pairwise(ends)]


def choose_path(
    design: Design, form: Form, intercept: bool, specific: Sequence[Kernel | None], inducing: bool, merged: bool = True
) -> str:
    """The cheapest exact algebra for these data, or the approximation asked for (sec. 3).

    "complete": two eigendecompositions. "gathered": sums by distinct input, P N of them the size of the problem.
    "low rank": the same on inducing inputs. "blocks": one block a task given P functions at N inputs. "dense": rows.
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
    design = setup.design
    specific = [
        None if k is None else k.with_theta(values["specific"][at])
        for k, at in zip(setup.specific, setup.specific_parts, strict=True)
    ]
    if setup.path == "complete":
        return CompleteTasks(design, kernel, parts.B)
    if setup.path == "dense":
        return DenseTasks(design, kernel, parts.B, c, specific)
    Z = design.inputs if setup.Z is None else setup.Z
    R = parts.R if parts.R is not None else np.asarray(linalg.cholesky_jittered(parts.B)[0])
    if setup.path == "blocks":
        return _blocks(setup, parts._replace(R=R), kernel, Z, c, specific)
    return LowRankTasks(setup.tasks, kernel, Z, R, c)


def _blocks(setup: Setup, parts: Parts, kernel: Kernel, Z: Array, c: float, specific: list[Any]) -> Any:
    """One block per task given the shared functions: s_t^2 k^x, the intercept and the task's own kernel."""
    R = parts.R
    assert R is not None  # every form has a factor by now
    own: list[Kernel | None] = []
    for t in range(setup.M):
        terms: list[Kernel] = [] if parts.own is None else [Product.of(Constant(float(parts.own[t])), kernel)]
        terms += [Constant(c)] if setup.intercept else []
        terms += [specific[t]] if specific and specific[t] is not None else []
        own.append(Sum.of(*terms) if terms else None)
    bases = [Basis(kernel, Z)] if R.shape[1] else []
    return SharedCovariance(setup.tasks, bases, [0] * R.shape[1], R, own)


def condition(values: Values, setup: Setup, start: Any = None) -> Result:
    """Posterior, which predicts by eq. (2), and log evidence at given hyper-parameters."""
    noise = np.broadcast_to(values["noise"], setup.M) if "noise" in values else None
    with_noise = values if noise is None else {**values, "noise": noise}
    return setup.infer(prior_of_tasks(values, setup), setup.tasks, with_noise, start)


def multitask_objective(setup: Setup) -> hyper.Objective:
    """log evidence and its gradient by all of `values` (sec. 2.2). EP starts from the sites of the call before."""
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
    found: Any
    found, by = fit.gradient()
    adjoints: Any = _from_blocks(found, values, setup) if setup.path == "blocks" else found
    out = {"kernel": adjoints.theta, **setup.form.pullback(values, adjoints)}
    if "noise" in values:
        out["noise"] = np.array([by["noise"].sum()]) if setup.share_noise else by["noise"]
    if setup.intercept:
        out["intercept"] = np.exp(values["intercept"]) * adjoints.intercept
    if setup.specific:
        own = [g for g, k in zip(adjoints.specific, setup.specific, strict=True) if k is not None]
        out["specific"] = np.concatenate(own) if own else np.zeros(0)
    return {n: out[n] for n in values}


def _from_blocks(found: Any, values: Values, setup: Setup) -> Adjoints:
    """Adjoints of the blocks' kernels taken apart again: own variance, k^x, intercept, the task's kernel."""
    parts, nk = setup.form.parts(values), setup.kernel.n_theta
    theta = found.bases[0].copy() if found.bases else np.zeros(nk)
    diagonal, intercept, specific = np.zeros(setup.M), 0.0, []
    for t, g in enumerate(found.specific):
        rest = g
        if parts.own is not None:
            diagonal[t], theta, rest = rest[0] / parts.own[t], theta + rest[1 : 1 + nk], rest[1 + nk :]
        if setup.intercept:
            intercept, rest = intercept + rest[0], rest[1:]
        specific.append(rest)
    if setup.intercept:
        intercept = float(intercept / np.exp(values["intercept"][0]))
    return found._replace(bases=[theta], diagonal=diagonal, intercept=intercept, specific=specific)


def log_prior_of(setup: Setup, scales: Array) -> hyper.Objective:
    """The weak priors that all GP estimators share, on kernels, noise and intercept."""
    centre = setup.infer.log_variance
    chosen = {"kernel": priors.kernel_prior(setup.kernel, scales, centre)}
    if isinstance(setup.infer, ExactInference):
        chosen["noise"] = priors.noise_prior(1 if setup.share_noise else setup.M)
    if setup.specific:
        own = [priors.kernel_prior(k, scales, centre) for k in setup.specific if k is not None]
        chosen["specific"] = priors.join_priors(own)
    shared = priors.independent_priors(chosen)
    if not setup.intercept:
        return shared

    def log_prior(values: Values) -> tuple[float, Values]:
        value, by = shared(values)
        more, by_c = log_normal(values["intercept"])
        return value + more, {**by, "intercept": by_c}

    return log_prior


def objective_of(setup: Setup, scales: Array, prior: str | None) -> hyper.Objective:
    """What is maximised: the evidence, and the priors that are switched on; that of K^f belongs to its form."""
    objective = hyper.with_prior(multitask_objective(setup), setup.form.log_prior)
    return objective if prior is None else hyper.with_prior(objective, log_prior_of(setup, scales))


def start_correlation(setup: Setup, kernel: Kernel, tau: Array) -> Array:
    """Correlations of the tasks' own fits, as functions: beta_t'k beta_t' of their coefficients, scaled to 1.

    Each task alone has beta_t = w (I + w k w)^-1 w y, w = sqrt(tau). A task without rows correlates with none.
    """
    design, M = setup.design, setup.M
    if setup.Z is not None and M > START_PAIRS:
        C = _products_through_Z(setup.tasks, kernel, tau, setup.Z)
    else:
        chosen, beta = zip(*(_own_fit(setup.cells, t, kernel, tau) for t in range(M)), strict=True)
        C = np.eye(M)
        for t in range(M):
            for s in range(t + 1):
                C[t, s] = C[s, t] = beta[t] @ kernel(design.X[chosen[t]], design.X[chosen[s]]) @ beta[s]
    size = np.sqrt(np.diagonal(C))
    size = np.where(size > 0, size, np.inf)
    C = C / np.multiply.outer(size, size)
    C.flat[:: M + 1] = 1.0
    return C


def _own_fit(cells: Cells, t: int, kernel: Kernel, tau: Array) -> tuple[Any, Array]:
    """Rows of a task, thinned, and the coefficients of its own fit."""
    rows = np.arange(cells.starts[t], cells.starts[t + 1])
    rows = rows[:: max(1, -(-len(rows) // START_ROWS))]
    w = np.sqrt(tau[rows])
    A = w[:, None] * kernel(cells.X[rows]) * w
    A.flat[:: len(A) + 1] += 1.0
    return rows, w * linalg.solve(linalg.cholesky(A), w * cells.y[rows])


@dataclass(frozen=True)
class _Precisions:
    """The precision of every row, in parts."""

    tau: Array
    starts: Codes

    def part(self, tasks: slice) -> _Precisions:
        return _Precisions(self.tau[self.starts[tasks.start] : self.starts[tasks.stop]], self.starts[:0])


def _products_through_Z(tasks: PlacedTasks, kernel: Kernel, tau: Array, Z: Array) -> Array:
    """beta_t'k beta_t' of all pairs with k(X, X') = k(X, Z) k(Z, Z)^-1 k(Z, X'): one vector per task, from its rows."""
    F = np.concatenate(tasks.each(_fits_at_Z, (kernel, Z), _Precisions(tau, tasks.cells.starts)))
    half = linalg.solve_lower(linalg.cholesky_jittered(kernel(Z))[0], np.ascontiguousarray(F.T))
    return half.T @ half


def _fits_at_Z(shard: TaskShard, common: tuple[Kernel, Array], rows: _Precisions) -> Array:
    """k(Z, X_t) beta_t of the shard's tasks, one per row."""
    kernel, Z = common
    fits = (_own_fit(shard.cells, t, kernel, rows.tau) for t in range(len(shard.cells.dof)))
    return np.stack([kernel(Z, shard.cells.X[rows]) @ beta for rows, beta in fits])


def starts_of(setup: Setup, values: Values) -> list[Values]:
    """Where the search begins: K^f as it is in `values`, or from the data, at the kernel given and at a rougher one.

    The rougher one has a fifth of the lengthscales.
    """
    out = []
    noise = np.exp(np.broadcast_to(values.get("noise", np.zeros(1)), setup.M))
    tau = setup.design.count / noise[setup.design.task]
    for factor in (1.0, 0.2):
        theta = values["kernel"] + np.log(factor) * setup.kernel.marks("lengthscale")
        C = start_correlation(setup, setup.kernel.with_theta(theta), tau)
        found = {n: v for n, v in setup.form.start(C).items() if n not in values}
        out.append({**values, "kernel": theta, **found})
    return out


def optimise(setup: Setup, values: Values, scales: Array, prior: str | None, max_iter: int) -> hyper.Optimum:
    """Maximise the evidence, and the priors, from the better of the starts."""
    starts = starts_of(setup, values) if not isinstance(setup.form, Given) else [values]
    floors = {"noise": float(np.log(hyper.NOISE_FLOOR))} if "noise" in values else None
    bounds = hyper.bounds_around(starts[0], floors)
    # The plain likelihood creeps for hundreds of steps towards a singular K^f, and so do loadings of many tasks
    # towards each other: there, stop when ten steps together gain next to nothing.
    loadings = isinstance(setup.form, LowRank) and setup.form.diagonal == "none"
    if prior is None and can_score(setup, starts[0]):
        return _optimise_by_scoring(setup, starts, bounds, max_iter)
    slow: dict[str, Any] = {"tol": 1e-2 if loadings else 1e-3, "patience": 10} if loadings or prior is None else {}
    return hyper.race(objective_of(setup, scales, prior), starts, bounds, max_iter, memory=MEMORY, **slow)


def _optimise_by_scoring(setup: Setup, starts: list[Values], bounds: Any, max_iter: int) -> hyper.Optimum:
    """A few scoring steps from every start, the best of them to the end, and L-BFGS where scoring stops short."""
    fit: list[Any] = [None]

    def evidence(values: Values) -> tuple[float, Values]:
        fit[0] = None  # the matrices of the evaluation before make room
        fit[0] = condition(values, setup)
        gradient = evidence_gradient(fit[0], values, setup)
        return fit[0].evidence, gradient

    def information(values: Values) -> Array:  # asked for where the evidence was evaluated last
        return average_information(values, setup, fit[0].posterior)

    def score(start: Values, steps: int) -> hyper.Optimum:
        return hyper.maximise_by_scoring(evidence, information, start, bounds, steps, tol=1e-3)

    best = max((score(s, min(HEAT, max_iter)) for s in starts), key=lambda o: o.objective)
    spent = best.n_iter
    if not best.converged and best.message != hyper.STALLED and spent < max_iter:
        best = score(best.values, max_iter - spent)
        spent += best.n_iter
    if not best.converged and spent < max_iter:
        memory = MEMORY if len(setup.cells.y) > SMALL else SMALL_MEMORY
        options: dict[str, Any] = {"tol": 1e-2, "patience": 10, "memory": memory}
        best = hyper.maximise(evidence, best.values, bounds, max_iter - spent, **options)
        spent += best.n_iter
    return replace(best, n_iter=spent)


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


def parameter_names(labels: tuple[Hashable, ...], setup: Setup) -> dict[str, list[str]]:
    """What to call each entry of `values` in a warning."""
    own = [(t, k) for t, k in enumerate(setup.specific) if k is not None]
    return {
        "kernel": setup.kernel.parameter_names(),
        "noise": ["the noise"] if setup.share_noise else [f"noise of task {label!r}" for label in labels],
        "intercept": ["variance of the intercepts"],
        "specific": [f"{n} of task {labels[t]!r}" for t, k in own for n in k.parameter_names()],
        **setup.form.names(labels),
    }
