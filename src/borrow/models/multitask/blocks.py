"""The symmetric model as one block per task given the functions that tasks share (Bonilla et al. 2008, section 3).

What a task does not share is a sum of kernels: s_t^2 k^x of a diagonal in K^f, a random intercept, and its own kernel.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from borrow.covariance import Adjoints, Basis, SharedCovariance
from borrow.kernels import Constant, Kernel
from borrow.kernels.compose import Product, Sum
from borrow.numerics.linalg import Array
from borrow.tasks.placed import PlacedTasks


def prior_of_blocks(
    tasks: PlacedTasks,
    kernel: Kernel,
    Z: Array,
    R: Array,
    own: Array | None,
    intercept: float | None,
    specific: Sequence[Kernel | None],
) -> SharedCovariance:
    """K^f = R R' + diag(own) on the kernel at Z, the variance of intercepts, and the tasks' own kernels."""
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
    for t, rest in enumerate(found.specific):
        if own is not None and own[t] > 0:
            assert rest is not None  # a block has a kernel
            diagonal[t], theta, rest = rest[0] / own[t], theta + rest[1 : 1 + n_theta], rest[1 + n_theta :]
        if log_intercept is not None:
            assert rest is not None  # a block has a kernel
            intercept, rest = intercept + rest[0] / float(np.exp(log_intercept[0])), rest[1:]
        specific.append(rest)
    return found._replace(bases=[theta], diagonal=diagonal, intercept=intercept, specific=specific)
