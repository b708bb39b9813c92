"""What GP regressors and classifiers share: settings of the kernel and of the search, and what a search has to say."""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Hashable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from borrow import kernels
from borrow.data.labels import list_labels
from borrow.data.scaling import TaskData
from borrow.estimators.base import Place, TaskEstimator
from borrow.estimators.settings import Allowed, one_of, whole
from borrow.inference import ExactInference, Inference
from borrow.numerics.linalg import Array, NotPositiveDefiniteError
from borrow.numerics.optimise import NOISE_FLOOR, Objective, Optimum, Values
from borrow.numerics.warned import log, warn
from borrow.tasks.placed import PlacedTasks

#: So many times more columns than rows are told, from a hundred columns on.
WIDE = 10

EXACT = ExactInference()


@dataclass(eq=False, repr=False, kw_only=True)
class LearntEstimator(TaskEstimator):
    """Settings of all estimators that learn hyper-parameters by the evidence. Abstract.

    Parameters
    ----------
    prior : "auto" has weak priors on kernel and noise, the same in every GP estimator; None is maximum likelihood.
    optimizer : "lbfgs", or None to keep kernel, noise and the model's own parameters as given.
    max_iter : the most iterations of the optimiser; a fit that needs more warns.
    device : "cpu", "cuda" (the matrices on a GPU, through PyTorch), or "auto" for a GPU where there is one and the rows
        are many; answers agree to about 1e-8 and come back as NumPy arrays.
    """

    prior: str | None = "auto"
    optimizer: str | None = "lbfgs"
    max_iter: int = 500
    device: str = "cpu"

    allowed: ClassVar[Allowed] = {
        "prior": one_of("auto", None, said="'auto' (weak priors) or None (maximum likelihood)"),
        "optimizer": one_of("lbfgs", None, said="'lbfgs', or None to keep the given parameters"),
        "max_iter": whole(1),
    }


@dataclass(eq=False, repr=False, kw_only=True)
class GPEstimator(LearntEstimator):
    """What all GP estimators share. Abstract.

    Parameters
    ----------
    kernel : one of `borrow.kernels` or of scikit-learn's, where learning starts; None is a squared exponential with
        one lengthscale per column.
    prior, optimizer, max_iter, device : as in every `LearntEstimator`.
    task, random_state, unseen : as in every `TaskEstimator`.
    """

    kernel: Any = None

    allowed: ClassVar[Allowed] = {
        "normalize_y": one_of(
            *(True, False, "common"),
            said="True (scale each task), 'common' (all tasks by the same figures, for targets in the same units) or "
            "False",
        ),
        "n_restarts": whole(0),
        "background": whole(0),
    }

    @abstractmethod
    def _fit_gp(self, data: TaskData, tasks: PlacedTasks, infer: Inference, likelihood: Values) -> Any:
        """Fit the GP model, for numbers or for labels as `infer` says; `likelihood` has its start values, if any."""

    @contextmanager
    def _places(self, n_rows: int, largest: int, largest_on_device: int) -> Iterator[Place]:
        """As for all estimators; with a word where a lengthscale per column is more than so few rows can tell."""
        columns = self._schema.n_features
        with super()._places(n_rows, largest, largest_on_device) as place:
            if self.kernel is None and self.optimizer is not None and columns > max(WIDE * n_rows, 100):
                warn(
                    f"X has {columns:,} columns and {n_rows:,} rows: which columns matter can hardly be learnt from "
                    "them; leave columns out, take their leading principal components, or give a kernel with one "
                    "lengthscale, such as SquaredExponential()"
                )
            yield place

    def _warn_unfinished(self, optimum: Optimum, names: Mapping[str, list[str]], objective: Objective) -> None:
        """Warn where the optimiser ran out of iterations or the data do not identify a parameter, and name it.

        Where no prior holds the parameters, columns that carry no information are named too: the optimiser stops
        on a plateau long before their lengthscales meet a bound.
        """
        prior = self.prior is not None
        remedy = "" if prior else ", or use prior='auto'"
        if not optimum.converged:
            warn(
                f"the optimiser stopped after {optimum.n_iter} iterations without converging "
                f"({optimum.message}); raise max_iter (now {self.max_iter}){remedy}",
                ConvergenceWarning,
            )
        floored = [(n, i) for n, i in optimum.at_bound if n == "noise" and optimum.values[n][i] < 0.0]
        exact = [(n, i) for n, i in floored if optimum.values[n][i] <= np.log(NOISE_FLOOR)]
        if exact:
            which = list_labels([names[n][i] for n, i in exact], 4)
            text = f"{which} is at its floor of {NOISE_FLOOR:g} of the variance of y: the fit meets every target"
            if prior:  # the data outvoted it: there is no noise
                log.info(text)
            else:
                warn(f"{text}, which is overfitting unless they are exact; use prior='auto'", ConvergenceWarning)
        if len(floored) > len(exact):
            which = list_labels([names[n][i] for n, i in floored if (n, i) not in exact], 4)
            log.info("%s is as small as the resolution of the targets allows", which)
        loose = [at for at in optimum.at_bound if at not in floored]
        if not prior:
            loose += [at for at in plateau(objective, optimum, names["kernel"]) if at not in loose]
        if loose:
            which = list_labels([_with_column(names[n][i], self._schema.names) for n, i in loose], 4)
            of_columns = all("lengthscale" in names[n][i] for n, i in loose)
            advice = "drop the column if it carries no information, or " * of_columns
            warn(
                f"{which} is not identified: other values explain the data as well; {advice}fix the parameter{remedy}",
                ConvergenceWarning,
            )


def default_kernel(scales: Array, given: Any, name: str, tied: bool = False) -> kernels.Kernel:
    """The kernel given, or a squared exponential with lengthscales of sqrt(d) column scales."""
    if given is not None:
        return kernels.resolve(given, name)
    start = scales * np.sqrt(len(scales))
    lengthscale = float(start[0]) if len(start) == 1 else tuple(start.tolist())
    return kernels.SquaredExponential(1.0, lengthscale, tied=tied and len(start) > 1)


def plateau(objective: Objective, optimum: Optimum, names: list[str]) -> list[tuple[str, int]]:
    """Lengthscales of the kernel that may be twenty times longer at a cost of less than a tenth of a nat."""

    def cost(i: int) -> float:
        longer = optimum.values["kernel"].copy()
        longer[i] += np.log(20.0)
        try:
            return optimum.objective - objective({**optimum.values, "kernel": longer})[0]
        except NotPositiveDefiniteError:
            return np.inf

    return [("kernel", i) for i, name in enumerate(names) if "lengthscale" in name and cost(i) < 0.1]


def _with_column(name: str, columns: tuple[Hashable, ...] | None) -> str:
    """The name of a parameter, with the column of the frame that it belongs to."""
    found = re.search(r"lengthscale\[(\d+)\]", name)
    return f"{name} (column {columns[int(found[1])]!r})" if found and columns else name
