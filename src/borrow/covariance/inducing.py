"""Inducing inputs by greedy conditional variance (a pivoted Cholesky factorisation that stops early)."""

from __future__ import annotations

import numpy as np

from borrow.kernels import Kernel
from borrow.numerics.linalg import Array

#: A primary input whose variance given those already chosen is below this share adds nothing but rounding error.
REDUNDANT = 1e-10
#: The other tasks' inputs are added until this share of the prior variance is left at most.
TOLERANCE = 0.01
MOST = 300
CANDIDATES = 20_000


def choose_inducing(
    kernel: Kernel, first: Array, others: Array, most: int = MOST, tolerance: float = TOLERANCE
) -> Array:
    """Rows of `first` until they are explained to rounding, then rows of `others` to `tolerance`, `most` in all.

    `first` are the primary's inputs, labelled or not. Dropping those that the others determine to 1e-10 of the prior
    variance keeps k(Z, Z) factorisable without jitter and changes nothing else.
    """
    first, others = _thin(first, CANDIDATES), _thin(others, CANDIDATES)
    candidates = np.vstack([first, others])
    prior = kernel.diag(candidates)
    left = prior.copy()
    F = np.empty((len(candidates), min(most, len(candidates))), order="F")
    chosen: list[int] = []
    for stage, share in ((slice(0, len(first)), REDUNDANT), (slice(len(first), None), tolerance)):
        while len(chosen) < F.shape[1]:
            ratio = left[stage] / np.maximum(prior[stage], np.finfo(float).tiny)
            if ratio.size == 0 or ratio.max() <= share:
                break
            i = int(np.argmax(ratio)) + (stage.start or 0)
            k = len(chosen)
            column = kernel(candidates, candidates[i : i + 1])[:, 0]
            column -= F[:, :k] @ F[i, :k]
            column /= np.sqrt(left[i])
            F[:, k] = column
            left = np.maximum(left - column * column, 0.0)
            left[i] = 0.0
            chosen.append(i)
    return candidates[chosen]


def _thin(X: Array, most: int) -> Array:
    """At most `most` rows, evenly spaced: the greedy rule needs a cover, not every row of a very long table."""
    if len(X) <= most:
        return X
    return X[np.linspace(0, len(X) - 1, most).astype(np.intp)]
