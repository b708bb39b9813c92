"""What the structured covariances have in common: functions carried at inducing inputs, sites, and pickling."""

from __future__ import annotations

from dataclasses import dataclass, is_dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from borrow.kernels import Kernel
from borrow.numerics import linalg
from borrow.numerics.device import Device, place
from borrow.numerics.linalg import Array, is_tensor, like, namespace, to_host

LOG_2PI = float(np.log(2.0 * np.pi))


class Basis(NamedTuple):
    """A kernel and the inducing inputs that carry functions drawn from it."""

    kernel: Kernel
    Z: Array


class _Forgetful:
    """Pull-backs are closures: they serve the fit and stay behind when the object is pickled.

    What lies on a device is left behind too, and computed again, on that device where there is one, else on the host.
    A class says how by `_again`: its constructor's arguments, on the host.
    """

    def __getstate__(self) -> dict[str, Any]:
        return {k: v for k, v in self.__dict__.items() if not k.startswith("_back")}

    def __reduce_ex__(self, protocol: Any) -> Any:
        again = self._again()
        return super().__reduce_ex__(protocol) if again is None else again

    def _again(self) -> Any:
        return None


def on_host(value: Any) -> Any:
    """The same object without tensors: itself where it has none, else computed again on the host."""
    if isinstance(value, Device):
        return None
    if is_dataclass(value) and isinstance(getattr(value, "device", None), Device):
        return replace(value, device=None)  # type: ignore[type-var]
    again = value._again() if isinstance(value, _Forgetful) else None
    if again is None:
        return value
    build, arguments = again
    return build(*map(on_host, arguments))


def build_there(cls: Any, device: Device | None, X: Array, *rest: Any) -> Any:
    """An object whose first argument is an array that lies on a device."""
    return cls(place(X, device), *rest)


class _Carrier(_Forgetful):
    """A basis evaluated at all rows: V, the residual variances, and the way back to its parameters."""

    def __init__(self, basis: Basis, X: Array, jitter: float) -> None:
        self.basis = basis
        self.Z = like(X, basis.Z)
        Kzz, self._back_zz = basis.kernel.evaluate(self.Z)
        self.L, self.jitter = linalg.cholesky_jittered(Kzz, jitter)
        self.V, self.residual, self._back_xz, self._back_diag = self._at(X)

    def _at(self, X: Array) -> tuple:
        Kxz, back_xz = self.basis.kernel.evaluate(X, self.Z)
        V = linalg.right_solve_transposed(Kxz, self.L)
        kxx, back_diag = self.basis.kernel.evaluate_diag(X)
        return V, (kxx - linalg.row_dots(V, V)).clip(0.0), back_xz, back_diag

    def at(self, X: Array) -> tuple[Array, Array]:
        """V and residual variances at other inputs."""
        return self._at(X)[:2]

    def pullback(self, bG: Array, bresidual: Array, S: Array, inputs: bool) -> tuple[Array, Array | None]:
        """To the kernel's parameters (and Z). bG is the adjoint of V through G, S its product V'bG in closed form."""
        S = S - 2.0 * (self.V.T @ (bresidual[:, None] * self.V))
        bV = bG
        bV -= (2.0 * bresidual)[:, None] * self.V
        bKzz = -0.5 * linalg.right_solve(linalg.solve_lower_transposed(self.L, S), self.L)
        xz = self._back_xz(linalg.right_solve(bV, self.L), inputs)
        zz = self._back_zz(0.5 * (bKzz + bKzz.T), inputs)
        theta = xz.theta + zz.theta + self._back_diag(bresidual).theta
        return theta, to_host(xz.Z + zz.X) if inputs else None


@dataclass(frozen=True)
class Prediction:
    """Posterior of the functions at new rows: mean, marginal variances and, if asked, the joint covariance."""

    mean: Array
    variance: Array
    covariance: Array | None = None


def marginal_variances(K: Array, L: Array, w: Array, e: Array | None = None) -> Array:
    """diag(E - E w A^-1 w E), A = I + w E w = L L', E = K + diag(e).

    w E w = A - I, so tau v = 1 - diag A^-1, a third of the flops of a solve. Sites too weak for that difference take
    their columns of E instead; it is not formed otherwise.
    """
    rest = 1.0 - linalg.diagonal_of_inverse(L)
    weak = rest < 1e-4
    if is_tensor(K):
        xp = namespace(K)
        variance = rest / xp.where(weak, 1.0, w * w)
        if bool(weak.any()):
            E = linalg.copy(K)
            if e is not None:
                linalg.add_diagonal(E, e)
            own = linalg.copy(linalg.diagonal(E))
            E *= w[..., None]
            half = linalg.solve_lower(L, E)
            del E  # three matrices at once would be more than a fit has elsewhere
            variance = xp.where(weak, own - linalg.column_dots(half, half), variance)
        return variance
    variance = np.divide(rest, w * w, out=np.zeros_like(w), where=~weak)
    if weak.any():
        rows = np.flatnonzero(weak)
        columns = K[:, rows]
        if e is not None:
            columns[rows, np.arange(len(rows))] += e[rows]
        half = linalg.solve_lower(L, w[:, None] * columns)
        variance[rows] = columns[rows, np.arange(len(rows))] - np.einsum("ij,ij->j", half, half)
    return variance


def unit_noise(nu: Array, tau: Array) -> tuple[Array, Array]:
    """Sites as observations s = w f + noise: w = sqrt(tau), s = nu / w; 0 where there is no site."""
    xp = namespace(tau)
    w = xp.sqrt(tau)
    return w, xp.where(w > 0, nu, 0.0) / xp.where(w > 0, w, 1.0)
