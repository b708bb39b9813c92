"""Inducing inputs by greedy conditional variance (a pivoted Cholesky factorisation that stops early)."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from borrow.kernels import Kernel
from borrow.numerics.linalg import Array

#: A primary input whose variance given those already chosen is below this share adds nothing but rounding error.
REDUNDANT = 1e-10
#: The other tasks' inputs are added until this share of the prior variance is left at most.
TOLERANCE = 0.01
#: So many of the other tasks' inputs at most, and of the primary's; `Inducing.left` says what these leave unexplained.
MOST, MOST_FIRST = 300, 2000
CANDIDATES = 20_000


class Inducing(NamedTuple):
    """Inducing inputs, and the largest share of the prior variance that they leave at any candidate."""

    Z: Array
    left: float


def choose_inducing(
    kernel: Kernel, first: Array, others: Array, most: int = MOST, tolerance: float = TOLERANCE
) -> Array:
    """The inducing inputs of `spread_inducing`."""
    return spread_inducing(kernel, first, others, most, tolerance).Z


def spread_inducing(
    kernel: Kernel, first: Array, others: Array, most: int = MOST, tolerance: float = TOLERANCE
) -> Inducing:
    """Rows of `first` until they are explained to rounding; rows of `others` to `tolerance`, or up to `most` in all.

    `first` are the primary's inputs, labelled or not. Dropping those that the others determine to 1e-10 of the prior
    variance keeps k(Z, Z) factorisable without jitter and changes nothing else.
    """
    first, others = _thin(first, CANDIDATES), _thin(others, CANDIDATES)
    candidates = np.vstack([first, others])
    prior = kernel.diag(candidates)
    left = prior.copy()
    tiny = np.finfo(float).tiny
    F = np.empty((len(candidates), min(64, len(candidates))), order="F")
    chosen: list[int] = []
    stages = (slice(0, len(first)), REDUNDANT, MOST_FIRST), (slice(len(first), None), tolerance, most)
    for stage, share, limit in stages:
        while len(chosen) < limit:
            ratio = left[stage] / np.maximum(prior[stage], tiny)
            if ratio.max(initial=0.0) <= share:
                break
            i = int(np.argmax(ratio)) + (stage.start or 0)
            k = len(chosen)
            if k == F.shape[1]:
                F = np.asfortranarray(np.hstack([F, np.empty_like(F)]))
            column = kernel(candidates, candidates[i : i + 1])[:, 0]
            column -= F[:, :k] @ F[i, :k]
            column /= np.sqrt(left[i])
            F[:, k] = column
            left = np.maximum(left - column * column, 0.0)
            left[i] = 0.0
            chosen.append(i)
    return Inducing(candidates[chosen], float((left / np.maximum(prior, tiny)).max(initial=0.0)))


def _thin(X: Array, most: int) -> Array:
    """At most `most` rows, evenly spaced: the greedy rule needs a cover, not every row of a very long table."""
    if len(X) <= most:
        return X
    return X[np.linspace(0, len(X) - 1, most).astype(np.intp)]
