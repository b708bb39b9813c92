"""What models of several tasks share, before any paper: kernels of the tasks' own, weak priors, and the way up.

The parameters of own kernels stand one task after the other in `values["specific"]`; what is written here is where
each lies, what it is called in a warning and how its derivatives are put together.

The way up of every search is scoring steps where all rows are written out, with the curvature of the priors; L-BFGS.
A model gives its evidence and its priors. With beta = (K + noise)^-1 y the average information is
1/2 D'(K + noise)^-1 D, the columns of D being derivatives of K + noise times beta (`DensePosterior.information`). Of
K = B[t, t'] k + [t = t'] k_t they are (`directions`)

    what B is made of:   (dB/dphi)[t_i, :] V_i,   V = k E,  E_jt = beta_j [t_j = t]; the model knows dB,
    theta of k:          (B[t_i, t_j] dk/dtheta) beta,   `tangents` of the kernel,
    theta of k_t:        (dk_t/dtheta) beta, at the rows of t,
    log noise of task t: sigma_t^2 beta / count, at the rows of t.

A dozen such steps do what a hundred of L-BFGS do, and the information at the end is the curvature that standard errors
need. Where they do not gain, as near a singular matrix, L-BFGS goes on. Under EP the information is that of its sites,
as if these were targets: it says less of the curvature, and still most of it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any, ClassVar, NamedTuple, TypeVar

import numpy as np

from borrow.covariance import Adjoints, Design
from borrow.data.cells import Cells, Codes, thin
from borrow.estimators.settings import by_label
from borrow.inference import Gaussian, Inference, OtherModel, Result, priors, with_unknown_level
from borrow.kernels import Kernel, resolve
from borrow.kernels.compose import TaskKernels
from borrow.models.gp.model import Evidence
from borrow.numerics import optimise as hyper
from borrow.numerics.linalg import Array, as_type_of, to_host
from borrow.numerics.optimise import Optimum, QuasiNewton, ScoringSearch, Values
from borrow.tasks.contracts import Shard, Tasks

#: A scoring step that gains less than this per parameter is the last, unless it is said otherwise.
TOLERANCE = 1e-5
#: How much sooner a search by blocks ends that another follows.
ROUGHLY = 10.0

#: A lengthscale so many times the usual one, in logs, has no slope left; it is put back to so many times that.
FLAT, NEARER = float(np.log(1e3)), float(np.log(10.0))

#: Of two models of labels that are averaged, one that is less probable than this is left out.
NEGLIGIBLE = 0.05

S = TypeVar("S", bound="TaskModel")
Bounds = Mapping[str, tuple[Array, Array]]


class TaskModel(ABC):
    """A model of several tasks without its hyper-parameters. Abstract: a model declares these fields and its own."""

    tasks: Tasks[Shard]
    kernel: Kernel
    specific: Sequence[Kernel | None]  # None where a task has no kernel of its own
    infer: Inference
    #: Are the tasks' noises drawn to each other? Not where sharing is weighed against not sharing: it would weigh too.
    noise_in_common: ClassVar[bool] = True

    @abstractmethod
    def directions_of_tasks(self, values: Values, V: Array) -> Values:
        """Columns of `directions` of what ties the tasks, by name, where scoring steps are taken."""

    @property
    def cells(self) -> Cells:
        """The rows of all tasks."""
        return self.tasks.cells

    @cached_property
    def specific_parts(self) -> Sequence[slice]:
        """Where each task's theta lies in `values["specific"]`."""
        return TaskKernels.of(self.specific).parts

    def specific_kernels(self, values: Values) -> TaskKernels:
        """The tasks' own kernels at given hyper-parameters."""
        return TaskKernels(self.specific, values.get("specific", np.zeros(0)), self.specific_parts)

    def with_unknown_levels(self, centred: bool) -> list[Kernel | None]:
        """The tasks' own kernels where their levels are not known: those of tasks with rows, of centred targets."""
        own = self.specific or [None] * (len(self.cells.starts) - 1)
        return [with_unknown_level(k, centred and n > 0) for k, n in zip(own, np.diff(self.cells.starts), strict=True)]

    def specific_theta(self) -> Array:
        """`values["specific"]` of the kernels as they were given."""
        return TaskKernels.of(self.specific).theta

    def log_normaliser(self, values: Values, t: int) -> float:
        """What the evidence of a task's rows has beside that of their sites as unit-noise observations."""
        likelihood = Gaussian(self.cells.only(t), np.exp(values["noise"][t : t + 1]))
        return likelihood.log_normaliser(likelihood.tau)

    def by_specific(self, adjoints: Adjoints) -> Array:
        """Derivatives by `values["specific"]`."""
        own = zip(adjoints.specific, self.specific, strict=True)
        return np.concatenate([np.zeros(0), *(g for g, k in own if g is not None and k is not None)])

    def specific_names(self, labels: tuple[Hashable, ...]) -> list[str]:
        """What to call each entry of `values["specific"]` in a warning."""
        own = zip(labels, self.specific, strict=False)
        return [f"{n} of task {label!r}" for label, k in own if k is not None for n in k.parameter_names()]

    def weak_priors(self, scales: Array) -> dict[str | tuple[str, ...], priors.Prior]:
        """The priors that all GP estimators share, on the kernels and the noise."""
        own = [k for k in self.specific if k is not None]
        of_kernels = priors.kernel_priors([self.kernel, *own], scales, self.infer.log_variance)
        chosen: dict[str | tuple[str, ...], priors.Prior] = {("kernel", "specific") if own else "kernel": of_kernels}
        if self.infer.gaussian:
            n = len(self.cells.starts) - 1
            chosen["noise"] = priors.noise_prior() if self.noise_in_common else priors.independent_noise_prior(n)
        return chosen


class NoTransfer(NamedTuple):
    """Every task by itself: the model without its hyper-parameters, these, and how probable it is (of each task)."""

    setup: Any
    values: Values
    probability: float | Array

    def weighed(self, condition: Callable[[Values, Any], Result], infer: Inference) -> OtherModel:
        """It as the other of two models whose predictions are averaged."""
        return OtherModel(condition(self.values, replace(self.setup, infer=infer)).posterior, self.probability)


def own_kernels(given: Any, labels: tuple[Hashable, ...], auto: Kernel, default: Any) -> list[Kernel | None]:
    """A kernel of its own for every task, from the constructor's `specific_kernel`; "auto" stands for a default one."""
    return [
        None if k is None else auto if isinstance(k, str) and k == "auto" else resolve(k, "specific_kernel")
        for k in by_label(given, labels, "specific_kernel", default)
    ]


def directions(values: Values, posterior: Any, setup: TaskModel) -> Array:
    """(n, P): derivatives of K + noise by all of `values`, in their order, times beta of the posterior at them."""
    prior, coefficients = posterior.prior, posterior.coefficients
    beta, M, task = to_host(coefficients), len(prior.B), prior.task
    mine = task[:, None] == np.arange(M)
    columns = setup.directions_of_tasks(
        values, to_host(prior.Kx_at_rows @ as_type_of(coefficients, mine * beta[:, None]))
    )
    # The posterior has w B w, and beta = w alpha: no further matrix of all pairs of rows is made.
    scaled = prior.kernel.tangents(prior.X, posterior.wBw, posterior.alpha)
    columns["kernel"] = to_host(scaled / posterior.w[:, None])
    if "noise" in values:
        by_row = (np.exp(np.broadcast_to(values["noise"], M))[task] * beta / setup.cells.count)[:, None]
        columns["noise"] = by_row * mine if len(values["noise"]) == M else by_row
    if "specific" in values:
        columns["specific"] = np.zeros((len(beta), values["specific"].size))
        every_pair = as_type_of(coefficients, np.ones(1))  # all pairs of rows count alike
        for block, kernel in prior.own_kernels(lambda k: k.knows_tangents(prior.X.shape[1])):
            v = coefficients[block.at] if block.size is None else prior.padded(block, coefficients)
            found = to_host(kernel.tangents(prior.own_inputs(block), every_pair, v))
            for t, rows in zip(block.tasks, found[None] if block.size is None else found, strict=True):
                at = prior.design.of(t)
                columns["specific"][at, setup.specific_parts[t]] = rows[: at.stop - at.start]
    return as_type_of(coefficients, np.hstack([columns[name] for name in values]))


class Ascent(QuasiNewton):
    """What is maximised, and the way up: scoring steps where they are asked for, else L-BFGS with its options.

    Priors give their log density with its derivatives when called, and for scoring steps their `curvature`, like
    `NamedPriors`.
    `usual` is where the weak priors would have the parameters of the kernel, whether there are priors or not.
    `blocks` are those of `maximise_by_blocks`, which then come before L-BFGS; `rough` is a search that another follows:
    it ends sooner, with the blocks. `curvature` is that of the same model on fewer rows, raised to these: scoring steps
    are then taken with it.
    """

    def __init__(
        self,
        setup: TaskModel,
        evidence: Evidence,
        log_priors: Sequence[Any],
        scales: Array,
        scores: bool,
        options: Mapping[str, Any] | None = None,
        curvature: Array | None = None,
        blocks: Sequence[Any] = (),
        rough: bool = False,
    ) -> None:
        super().__init__(hyper.with_prior(evidence, *log_priors), options)
        self.model, self.evidence, self.log_priors = setup, evidence, log_priors
        self.usual = priors.kernel_prior(setup.kernel, scales).mean
        self.curvature, self.blocks, self.rough = curvature, list(blocks), rough
        self.scores = evidence.keep = scores or curvature is not None

    def log_prior(self, values: Values) -> float:
        """What the priors add to the evidence."""
        return sum(log_prior(values)[0] for log_prior in self.log_priors)

    def information(self, values: Values) -> Array:
        """Minus the curvature, where the objective was evaluated last."""
        if self.curvature is not None:
            return self.curvature
        posterior: Any = self.evidence.at(values).posterior
        return sum(
            (log_prior.curvature(values) for log_prior in self.log_priors),
            posterior.information(directions(values, posterior, self.model)),
        )

    def maximise(
        self,
        start: Values,
        bounds: Bounds,
        max_iter: int,
        tol: float | None = None,
        begun: ScoringSearch | None = None,
    ) -> Optimum:
        """The optimum from these values on; L-BFGS goes on where scoring steps stop short, and after blocks."""
        options = dict(self.options)
        if self.scores:
            best = (begun or self._scoring(start, bounds)).go_on(max_iter, self._tolerance(start, tol))
            options = ({} if tol is None else {"tol": tol}) | options
            ended = best.message != hyper.STALLED
        elif self.blocks:
            best, ended = self._by_blocks(start, bounds, max_iter, options), self.rough
        else:
            return super().maximise(start, bounds, max_iter)
        if ended or best.n_iter >= max_iter:
            return best
        return best.followed_by(hyper.maximise(self.objective, best.values, bounds, max_iter - best.n_iter, **options))

    def warm_up(
        self, start: Values, bounds: Bounds, steps: int, tol: float | None, rival: float = -np.inf
    ) -> tuple[Optimum, ScoringSearch | None]:
        """A few steps from one start, by scoring, by blocks or by L-BFGS; and the search, if it can be gone on with."""
        if self.scores:
            search = self._scoring(start, bounds)
            return search.go_on(steps, self._tolerance(start, tol), rival), search
        if self.blocks:
            found = self._by_blocks(start, bounds, steps, {**self.options, "tol": 0.0})
            return replace(found, converged=False), None
        return super().warm_up(start, bounds, steps, tol)

    def maximise_from(
        self, starts: list[Values], bounds: Bounds, max_iter: int, warmup: int = hyper.WARMUP, tol: float | None = None
    ) -> Optimum:
        """The best start to the end; once more where lengthscales ran away, and the better end of the two."""
        best = super().maximise_from(starts, bounds, max_iter, warmup, tol)
        nearer = self.put_back(best.values)
        if nearer is None or best.n_iter >= max_iter:
            return best
        end = best.followed_by(self.maximise(nearer, bounds, max_iter - best.n_iter, tol))
        return max(best, end, key=lambda found: found.objective)

    def put_back(self, values: Values) -> Values | None:
        """Where a search goes on that let lengthscales run away though their columns matter; None where it did not.

        dE/d log l = -2 l^-2 dE/d(l^-2) vanishes as l grows, whatever dE/d(l^-2) is: one step that was too long is the
        end of that lengthscale. Priors would pull it back.
        """
        flat = (self.model.kernel.mask_of("lengthscale") > 0.0) & (values["kernel"] - self.usual > FLAT)
        if not flat.any():
            return None
        flat &= self.objective(values)[1]["kernel"] < 0.0  # it grows with l^-2
        back = np.where(flat, self.usual + NEARER, values["kernel"])
        return {**values, "kernel": back} if flat.any() else None

    def value(self, values: Values) -> float:
        """What is maximised, without its derivatives."""
        return self.evidence.value(values) + self.log_prior(values)

    def _scoring(self, start: Values, bounds: Bounds) -> ScoringSearch:
        return ScoringSearch(self.objective, self.information, start, bounds, self.value)

    def _tolerance(self, start: Values, tol: float | None) -> float:
        return TOLERANCE * hyper.pack(start).size if tol is None else tol

    def _by_blocks(self, start: Values, bounds: Bounds, steps: int, options: Mapping[str, Any]) -> Optimum:
        tol = options["tol"] * (ROUGHLY if self.rough else 1.0)
        return hyper.maximise_by_blocks(self.objective, start, bounds, self.blocks, steps, tol, options["patience"])


def on_few_rows(setup: S, tasks: Tasks[Shard], per_task: int | Codes) -> S | None:
    """A model on at most so many rows of every task, evenly spaced, with all pairs written out: where a search begins.

    It computes where `tasks` do. None where that leaves out no row.
    """
    few = thin(setup.cells, np.maximum(per_task, 1))
    if len(few.y) >= len(setup.cells.y):
        return None
    return replace(setup, tasks=tasks.here(few), design=Design.from_cells(few, tasks.device))  # type: ignore[type-var]
