"""What models of several tasks share, before any paper: a kernel of its own for every task, and weak priors.

The parameters of these kernels stand one task after the other in `values["specific"]`; what is written here is where
each lies, what it is called in a warning and how its derivatives are put together.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from functools import cached_property
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np

from borrow.covariance import Adjoints
from borrow.data.cells import Cells
from borrow.estimators.settings import by_label
from borrow.inference import ExactInference, Inference, priors
from borrow.inference.hyper_uncertainty import with_level
from borrow.inference.priors import Prior
from borrow.kernels import Kernel, resolve
from borrow.kernels.compose import TaskKernels
from borrow.numerics.linalg import Array
from borrow.numerics.optimise import Values
from borrow.tasks.placed import PlacedTasks


class TaskModel:
    """A model of several tasks without its hyper-parameters. Abstract: a model declares these fields and its own."""

    tasks: PlacedTasks
    kernel: Kernel
    specific: Sequence[Kernel | None]  # None where a task has no kernel of its own
    infer: Inference
    #: Are the tasks' noises drawn to each other? Not where sharing is weighed against not sharing: it would weigh too.
    noise_in_common: ClassVar[bool] = True

    @property
    def cells(self) -> Cells:
        """The rows of all tasks."""
        return self.tasks.cells

    @cached_property
    def specific_parts(self) -> list[slice]:
        """Where each task's theta lies in `values["specific"]`."""
        ends = np.cumsum([0, *(0 if k is None else k.n_theta for k in self.specific)])
        return [slice(int(i), int(j)) for i, j in pairwise(ends)]

    def specific_kernels(self, values: Values) -> TaskKernels:
        """The tasks' own kernels at given hyper-parameters."""
        return TaskKernels(self.specific, values.get("specific", np.zeros(0)), self.specific_parts)

    def levelled(self, centred: bool) -> list[Kernel | None]:
        """The tasks' own kernels where their levels are not known: those of tasks with rows, of centred targets."""
        own = self.specific or [None] * (len(self.cells.starts) - 1)
        return [with_level(k, centred and n > 0) for k, n in zip(own, np.diff(self.cells.starts), strict=True)]

    def specific_theta(self) -> Array:
        """`values["specific"]` of the kernels as they were given."""
        return np.concatenate([np.zeros(0), *(k.theta for k in self.specific if k is not None)])

    def by_specific(self, adjoints: Adjoints) -> Array:
        """Derivatives by `values["specific"]`."""
        own = zip(adjoints.specific, self.specific, strict=True)
        return np.concatenate([np.zeros(0), *(g for g, k in own if g is not None and k is not None)])

    def specific_names(self, labels: tuple[Hashable, ...]) -> list[str]:
        """What to call each entry of `values["specific"]` in a warning."""
        own = zip(labels, self.specific, strict=False)
        return [f"{n} of task {label!r}" for label, k in own if k is not None for n in k.parameter_names()]

    def weak_priors(self, scales: Array, alike: float = priors.ALIKE) -> dict[str | tuple[str, ...], Prior]:
        """The priors that all GP estimators share, on the kernels and the noise.

        The relevance of columns is in common: log lengthscales of any two kernels are correlated by `alike`.
        """
        own = [k for k in self.specific if k is not None]
        of_kernels = priors.exchangeable_lengthscales([self.kernel, *own], scales, self.infer.log_variance, alike)
        chosen: dict[str | tuple[str, ...], Prior] = {("kernel", "specific") if own else "kernel": of_kernels}
        if isinstance(self.infer, ExactInference):
            n = len(self.cells.starts) - 1
            chosen["noise"] = priors.noise_prior() if self.noise_in_common else priors.independent_noise_prior(n)
        return chosen


def own_kernels(given: Any, labels: tuple[Hashable, ...], auto: Kernel, default: Any) -> list[Kernel | None]:
    """A kernel of its own for every task, from the constructor's `specific_kernel`; "auto" stands for a default one."""
    return [
        None if k is None else auto if isinstance(k, str) and k == "auto" else resolve(k, "specific_kernel")
        for k in by_label(given, labels, "specific_kernel", default)
    ]
