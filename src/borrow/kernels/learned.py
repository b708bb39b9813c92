"""A kernel learnt from many tasks, as an object like any other.

K. Yu, V. Tresp, A. Schwaighofer: Learning Gaussian processes from multiple tasks. ICML 2005, eqs. (18) and (19).
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

from scipy import sparse

from borrow.kernels.base import Gradient, Kernel, Leaf, Pullback
from borrow.numerics.linalg import Array, as_type_of, inner, row_dots
from borrow.numerics.stored import stored


@stored("LearnedKernel")
@dataclass(frozen=True, eq=False, repr=False)
class LearnedKernel(Leaf):
    """variance (raw_weight k(x, Z) R R' k(Z, z) + base_weight k(x, z)) with k the base kernel.

    R R' is the paper's C_alpha. `raw_weight = m/(tau + m)`, `base_weight = tau/(tau + m)` is eq. (19); 1 and 0 is
    eq. (18), which has finite rank: `raw()`. Only `variance` is free; what was learnt from the tasks stays as it is.
    With P = k(X, Z) R and Q = k(Z', Z) R for the other side, K = s (r P Q' + b k), so

        bP = s r bK Q,   bQ = s r bK' P,   and both go back through k(., Z) R to the inputs.

    Z may be sparse where the base kernel takes sparse tables.

    Examples
    --------
    >>> import numpy as np
    >>> from borrow.kernels import LearnedKernel, Linear
    >>> kernel = LearnedKernel(base=Linear(), Z=np.array([[1.0]]), root=np.array([[2.0]]))
    >>> kernel(np.array([[1.0], [3.0]]))
    array([[ 4., 12.],
           [12., 36.]])
    """

    base: Kernel = field(kw_only=True)
    Z: Any = field(kw_only=True)
    root: Array = field(kw_only=True)  # R, (len(Z), rank)
    raw_weight: float = field(default=1.0, kw_only=True)
    base_weight: float = field(default=0.0, kw_only=True)
    variance: float = 1.0

    learnable: ClassVar[tuple[str, ...]] = ("variance",)

    def __post_init__(self) -> None:
        super().__post_init__()
        rows = self.Z.shape[0]
        if self.root.ndim != 2 or self.root.shape[0] != rows:
            raise ValueError(f"LearnedKernel: root has the shape {self.root.shape} for {rows} inputs Z")
        if self.raw_weight < 0 or self.base_weight < 0 or self.raw_weight + self.base_weight <= 0:
            raise ValueError(
                f"LearnedKernel: raw_weight={self.raw_weight!r} and base_weight={self.base_weight!r} must not be "
                "negative, nor both zero"
            )

    def raw(self) -> LearnedKernel:
        """The learnt part alone (eq. 18): a kernel of finite rank."""
        return replace(self, raw_weight=1.0, base_weight=0.0)

    def evaluate(self, X: Array, Z: Array | None = None) -> tuple[Array, Pullback]:
        """K and its pull-back."""
        s, r, b = self.variance, self.raw_weight, self.base_weight
        P, back_P = self._features(X)
        Q, back_Q = (P, back_P) if Z is None else self._features(Z)
        k, back_base = self.base.evaluate(X, Z)
        K = (s * r) * (P @ Q.T) + (s * b) * k

        def pullback(bK: Array, inputs: bool = False) -> Gradient:
            theta = self._gather(variance=inner(bK, K))
            if not inputs:
                return Gradient(theta)
            direct = back_base((s * b) * bK, True)
            by_X, by_Z = back_P((s * r) * (bK @ Q)) + direct.X, back_Q((s * r) * (bK.T @ P))
            return Gradient(theta, by_X + by_Z) if direct.Z is None else Gradient(theta, by_X, by_Z + direct.Z)

        return K, pullback

    def evaluate_diag(self, X: Array) -> tuple[Array, Pullback]:
        """variance (raw_weight |R' k(Z, x)|^2 + base_weight k(x, x))."""
        s, r, b = self.variance, self.raw_weight, self.base_weight
        P, back_P = self._features(X)
        k, back_base = self.base.evaluate_diag(X)
        d = s * (r * row_dots(P, P) + b * k)

        def pullback(bd: Array, inputs: bool = False) -> Gradient:
            theta = self._gather(variance=float(bd @ d))
            if not inputs:
                return Gradient(theta)
            return Gradient(theta, back_P((2.0 * s * r) * (bd[:, None] * P)) + back_base((s * b) * bd, True).X)

        return d, pullback

    def _features(self, X: Array) -> tuple[Array, Any]:
        """k(X, Z) R, and the way back to X."""
        root = as_type_of(X, self.root)
        k, back = self.base.evaluate(X, as_type_of(X, self.Z))
        return k @ root, lambda bP: back(bP @ root.T, True).X

    def __repr__(self) -> str:
        kind = "sparse " if sparse.issparse(self.Z) else ""
        return (
            f"LearnedKernel(variance={self.variance:.4g}, {self.raw_weight:.3g} learnt on {self.Z.shape[0]} {kind}"
            f"inputs + {self.base_weight:.3g} {self.base!r})"
        )
