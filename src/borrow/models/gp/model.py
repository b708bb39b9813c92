"""One GP on the rows of one group: exact, or sparse on learnt pseudo-inputs; Gaussian noise, or labels by EP.

It is the covariance of the focused model with one task, so that comparisons compare models and not code: an exact GP is
a task with a kernel of its own and nothing shared; a sparse one is a shared function without an own part. Its inducing
inputs are rows' inputs, chosen for the kernel and again for the kernel found; or they are learnt, moved by the gradient
of the evidence (Snelson & Ghahramani 2006; Leen, Peltonen & Kaski 2011, section 5.2). Learnt ones explain noise by
where they are: the evidence then is higher than the exact one (by 40 nats at 500 rows in three columns), new rows are
predicted worse, and hundreds of iterations go into it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from borrow.covariance import Basis, SharedCovariance, choose_inducing
from borrow.data.cells import Cells
from borrow.estimators.gp import EXACT
from borrow.inference import ExactInference, Inference, Result
from borrow.inference.hyper_uncertainty import (
    MOST_ROWS,
    HyperUncertainty,
    UncertaintyByTask,
    direction,
    hyper_uncertainty,
    with_level,
)
from borrow.inference.priors import Prior, independent_priors, kernel_prior, noise_prior
from borrow.kernels import Kernel
from borrow.numerics import device as devices
from borrow.numerics.device import require
from borrow.numerics.linalg import Array
from borrow.numerics.optimise import (
    NOISE_FLOOR,
    Objective,
    Optimum,
    QuasiNewton,
    Values,
    bounds_around,
    maximise,
    with_prior,
)
from borrow.numerics.threads import SMALL_BLOCK
from borrow.tasks.placed import PlacedTasks

SPARSE_ABOVE = 300
INDUCING_INPUTS = 100
#: Inducing inputs are chosen again for the kernel found at most so many times in all.
CHOICES = 3
#: Learnt ones creep: there, stop when ten steps together gain less than this per row, in nats.
CREEPING = {"patience": 10, "memory": 100}
CREEPING_TOL = 1e-4
#: Lengthscales are moved one at a time up to so many, and in as many groups beyond: a move is two evaluations.
MOST_SINGLES = 100
#: What stands for a search where parameters are kept as given.
KEPT = Optimum({}, np.nan, 0, 0, True, "kept as given")


def condition_single(
    tasks: PlacedTasks,
    kernel: Kernel,
    values: Values,
    infer: Inference = EXACT,
    Z: Array | None = None,
    start: Any = None,
) -> Result:
    """GP on the rows of one task, on pseudo-inputs Z if given; `values` holds the likelihood's parameters, if any."""
    if Z is None:
        prior = SharedCovariance(tasks, [], [], np.zeros((1, 0)), [kernel])
    else:
        prior = SharedCovariance(tasks, [Basis(kernel, Z)], [0], np.ones((1, 1)), [None])
    return infer(prior, tasks, values, start)


def single_objective(
    tasks: PlacedTasks,
    kernel: Kernel,
    infer: Inference = EXACT,
    scales: Array | float = 1.0,
    Z: Array | None = None,
) -> Objective:
    """Evidence of one GP by {kernel, the likelihood's parameters, and Z where it is learnt, in column scales}."""

    def condition(values: Values, rows: PlacedTasks, start: Any) -> Result:
        at = values["Z"] * scales if "Z" in values else Z
        return condition_single(rows, kernel.with_theta(values["kernel"]), values, infer, at, start)

    def gradient(fit: Result, values: Values, _: Any) -> Values:
        return _gradient(fit, "Z" in values or Z is not None, scales if "Z" in values else None)

    return Evidence(tasks, tasks, condition, gradient)


class Evidence:
    """Log evidence of a model and its gradient by `values`: an objective. EP starts from the sites of the call before.

    The result of a call stays where it is small, since else the system takes back its pages and gives them again; and
    where `keep` asks for it, until the next call makes room.
    """

    keep = False

    def __init__(
        self,
        model: Any,
        tasks: PlacedTasks,
        condition: Callable[[Values, Any, Any], Result],
        gradient: Callable[[Result, Values, Any], Values],
        report: Callable[[float], None] | None = None,
    ) -> None:
        self._model, self._condition, self._gradient, self._report = model, condition, gradient, report
        self._small = tasks.device is None and len(tasks.cells.y) < SMALL_BLOCK
        self._last: Result | None = None
        self._where: Values = {}
        self._start: Any = None

    def __call__(self, values: Values) -> tuple[float, Values]:
        """The evidence and its derivatives."""
        fit = self._made(values)
        by = self._gradient(fit, values, self._model)
        if self._report is not None:
            self._report(fit.evidence)
        return fit.evidence, by

    def value(self, values: Values) -> float:
        """The evidence alone; where the result is kept, the derivatives at the same values go on from it."""
        return self._made(values).evidence

    def at(self, values: Values) -> Result:
        """The result at these values: that of the last call where it was for them and is kept, else made anew."""
        return self._kept(values) or self._condition(values, self._model, self._start)

    def _kept(self, values: Values) -> Result | None:
        same = self._last is not None and all(np.array_equal(self._where[n], v) for n, v in values.items())
        return self._last if same else None

    def _made(self, values: Values) -> Result:
        """The result at these values; the next one starts from it."""
        fit = self._kept(values)
        if fit is None:
            self._last = self._last if self._small else None
            fit = self._condition(values, self._model, self._start)
            self._start, self._last = fit.start, fit if self._small or self.keep else None
            self._where = {n: v.copy() for n, v in values.items()}
        return fit


def _gradient(fit: Result, sparse: bool, scales: Array | float | None) -> Values:
    """Derivatives of the evidence; by the pseudo-inputs too where their scales are given."""
    found: Any
    found, by_likelihood = fit.gradient(inducing=sparse and scales is not None)
    by = {"kernel": found.bases[0] if sparse else found.specific[0], **by_likelihood}
    return by if not sparse or scales is None else {**by, "Z": found.inducing[0] * scales}


class Learnt(NamedTuple):
    """What a fit of one GP found, and how it went."""

    kernel: Kernel
    likelihood: Values
    optimum: Optimum
    Z: Array | None = None


def fit_single(
    tasks: PlacedTasks,
    kernel: Kernel,
    likelihood: Values,
    scales: Array,
    prior: str | None,
    max_iter: int,
    infer: Inference = EXACT,
    Z: Array | None = None,
    learn_Z: bool = False,
) -> Learnt:
    """Maximise the evidence (and the priors) of one GP; inducing inputs, where there are any, are held or learnt.

    A rough function can be taken for a smooth one and noise: a second start has a fifth of the lengthscales.
    """
    start = {"kernel": kernel.theta, **likelihood} | ({} if Z is None or not learn_Z else {"Z": Z / scales})
    objective, bounds = single_objective(tasks, kernel, infer, scales, Z), bounds_of(start, tasks.cells)
    if prior is not None:
        objective = with_prior(objective, single_priors(kernel, scales, bool(likelihood), infer.log_variance))
    if "Z" not in start:
        rough = {**start, "kernel": start["kernel"] + np.log(0.2) * kernel.marks("lengthscale")}
        optimum = QuasiNewton(objective).race([start, rough], bounds, max_iter)
    else:
        reach = 2.0 + np.ptp(tasks.cells.X, axis=0) / scales  # pseudo-inputs may leave the data, but not by far
        bounds["Z"] = (start["Z"] - reach, start["Z"] + reach)
        tol = CREEPING_TOL * len(tasks.cells.y)
        optimum = maximise(objective, start, bounds, max_iter, tol, **CREEPING)
        Z = optimum.values["Z"] * scales
    own = {n: optimum.values[n] for n in likelihood}
    return Learnt(kernel.with_theta(optimum.values["kernel"]), own, optimum, Z)


def fit_on_rows(
    tasks: PlacedTasks,
    kernel: Kernel,
    likelihood: Values,
    scales: Array,
    prior: str | None,
    max_iter: int,
    infer: Inference,
    Z: Array,
) -> Learnt:
    """One GP on inducing inputs among the rows', which are chosen again for the kernel found while that gains."""
    best = fit_single(tasks, kernel, likelihood, scales, prior, max_iter, infer, Z)
    n_iter = best.optimum.n_iter
    for _ in range(CHOICES - 1):
        again = choose_inducing(best.kernel, tasks.cells.X[:0], tasks.cells.X, len(Z), tolerance=0.0)
        trial = fit_single(tasks, best.kernel, best.likelihood, scales, prior, max_iter, infer, again)
        n_iter += trial.optimum.n_iter
        if trial.optimum.objective <= best.optimum.objective + 1e-3:
            break
        best = trial
    return best._replace(optimum=replace(best.optimum, n_iter=n_iter))


def bounds_of(start: Values, cells: Cells) -> dict[str, tuple[Array, Array]]:
    """Wide bounds, and the floor of the noise where there is one: what the targets' resolution leaves."""
    if "noise" not in start:
        return bounds_around(start)
    least = np.full(len(cells.starts) - 1, NOISE_FLOOR)
    if cells.least_noise is not None:
        least = np.maximum(least, cells.least_noise)
    return bounds_around(start, {"noise": np.log(least if start["noise"].size == least.size else least.min())})


def single_priors(kernel: Kernel, scales: Array, noise: bool = True, log_variance: float = 0.0) -> Objective:
    """The priors that every GP estimator puts on its kernel and noise."""
    priors: dict[str, Prior] = {"kernel": kernel_prior(kernel, scales, log_variance)}
    return independent_priors({**priors, "noise": noise_prior()} if noise else priors)


def single_uncertainty(
    tasks: PlacedTasks, found: Learnt, scales: Array, prior: str | None, infer: Inference, centred: bool
) -> HyperUncertainty | None:
    """How uncertain kernel, noise and, of centred targets, level leave the function of one GP; sparse with a Z."""
    kernel, own, _, Z = found
    values = {"kernel": kernel.theta, **own}
    log_prior = None if prior is None else single_priors(kernel, scales, bool(own), infer.log_variance)
    moves = [direction(values, kernel=kernel.marks(name)) for name in ("lengthscale", "variance")]
    levelled: Any = with_level(kernel, centred)
    return explore(
        tasks,
        lambda at: condition_single(tasks, levelled.with_theta(at["kernel"]), at, infer, Z),
        log_prior,
        values,
        [*moves, direction(values, noise=1.0)],
        single_lengthscales(values, kernel),
    )


def uncertainty_by_task(
    tasks: PlacedTasks,
    kernels: Sequence[Kernel | None],
    values: Values,
    scales: Array,
    prior: str | None,
    infer: Inference,
    centred: bool,
) -> UncertaintyByTask:
    """That of tasks that share nothing, each as of a single-task GP; none of a task without a kernel or a row."""
    parts = []
    for t, kernel in enumerate(kernels):
        own, alone = {n: values[n][t : t + 1] for n in ("noise",) if n in values}, tasks.only(t)
        part = None
        if kernel is not None and len(alone.cells.y):
            part = single_uncertainty(alone, Learnt(kernel, own, KEPT), scales, prior, infer, centred)
        parts.append(part)
    return UncertaintyByTask(parts, np.exp(values["noise"]) if "noise" in values else None)


def single_lengthscales(values: Values, kernel: Kernel, name: str = "kernel") -> list[Values]:
    """Moves of one lengthscale each, where a kernel has several; of groups of them where they are very many."""
    at = np.flatnonzero(kernel.marks("lengthscale"))
    groups = np.array_split(at, min(len(at), MOST_SINGLES)) if len(at) > 1 else []
    return [direction(values, **{name: np.isin(np.arange(kernel.n_theta), g)}) for g in groups]


def explore(
    tasks: PlacedTasks,
    condition: Callable[[Values], Result],
    log_prior: Objective | None,
    values: Values,
    directions: Sequence[Values],
    singles: Sequence[Values] = (),
) -> HyperUncertainty | None:
    """How uncertain the hyper-parameters of a model leave its functions; None where the rows are many, or labels.

    With labels the scale of the function is its certainty: on EEG trials probabilities averaged over the points had a
    log loss of .555 where those of the optimum have .519 without transfer, though .524 against .553 with it.
    """
    if "noise" not in values or len(tasks.cells.y) > MOST_ROWS:
        return None

    def evaluate(at: Values) -> tuple[float, Any]:
        fit = condition(at)
        return fit.evidence + (0.0 if log_prior is None else log_prior(at)[0]), fit.posterior

    low = {n: bounds_of(values, tasks.cells)[n][0] for n in ("noise",) if n in values}
    return hyper_uncertainty(evaluate, values, directions, singles, low)


def number_of_inducing(inducing: Any, n: int) -> int | None:
    """Inducing inputs of a pooled GP on n rows; None is exact."""
    if isinstance(inducing, str) and inducing == "auto":
        return INDUCING_INPUTS if n > SPARSE_ABOVE else None
    if inducing is None:
        return None
    if isinstance(inducing, (int, np.integer)) and not isinstance(inducing, bool) and inducing >= 1:
        return int(inducing)
    raise ValueError(f"inducing={inducing!r}: expected 'auto', None or a number of pseudo-inputs")


def check_memory(tasks: PlacedTasks, infer: Inference, m: int | None = None) -> None:
    """Refuse what would not fit; m are inducing inputs, None without.

    Four matrices of every task are kept, and one more of the largest is worked in, or two by EP; small ones stay until
    the next are there. More on a GPU.
    """
    sizes = np.diff(tasks.cells.starts).astype(float)
    n = int(sizes.max())
    if m is not None:
        what = f"a GP of {m:,} inducing inputs on {n:,} distinct rows"
        return require(tasks.device, 8.0 * 2.7 * n * m, what, "give fewer inducing inputs, or thin the rows")
    place = tasks.device if n >= devices.ALONE_ROWS or len(sizes) == 1 else None
    worked = (1.0 if isinstance(infer, ExactInference) else 2.0) + 2.7 * (n < SMALL_BLOCK)
    kept = 4.0 * float(sizes @ sizes) + worked * n * n
    require(
        place,
        8.0 * (kept if place is None else devices.MATRICES * n * n),
        f"an exact GP on a task of {n:,} distinct rows",
        "thin the rows, average replicates, or use PooledGPRegressor, which is sparse",
    )
