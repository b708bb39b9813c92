"""Figure 2 of Leen, Peltonen & Kaski (2011): posterior variance of the primary, symmetric against asymmetric.

    python benchmarks/studies/leen2011_variance.py

X_P = [1/3, 2/3], X_S = [1/5, 1/2, 4/5], squared exponential kernels, lengthscale 0.11 for k^p and 1 for k^s, noise
variance 0.05, rho^2 in 0, 1/8, 1/4, 1/2, 3/4, 1. The asymmetric variances come from `FocusedGPRegressor` (with Z at the
rows of both tasks the model is eq. 11 exactly); the symmetric ones from eqs. (10), (12) written out.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
import matplotlib
from matplotlib.figure import Figure

import borrow
from borrow import plot as figures
from borrow.kernels import SquaredExponential
from results import FIGURES, write_result

XP, XS = np.array([[1 / 3], [2 / 3]]), np.array([[1 / 5], [1 / 2], [4 / 5]])
RHO2 = (0.0, 1 / 8, 1 / 4, 1 / 2, 3 / 4, 1.0)
NOISE, KP, KS = 0.05, SquaredExponential(1.0, 0.11), SquaredExponential(1.0, 1.0)
GRID = np.linspace(0, 1, 201)[:, None]


def symmetric(rho: float) -> np.ndarray:
    """Eqs. (10) and (12)."""
    X = np.vstack([XP, XS])
    weight = np.array([1, 1, rho, rho, rho])
    across = np.not_equal.outer(np.arange(5) < 2, np.arange(5) < 2)
    share = np.where(across, rho, 1.0)
    C = share * KP(X) + NOISE * np.eye(5)
    k = weight * KP(GRID, X)
    return 1.0 - np.einsum("ij,ij->i", k, np.linalg.solve(C, k.T).T)


def asymmetric(rho: float) -> np.ndarray:
    """Eqs. (11) and (13), by the estimator."""
    own = SquaredExponential(1.0 - rho**2, 1.0) if rho < 1 else None
    model = borrow.FocusedGPRegressor(
        primary="P",
        kernel=KP,
        specific_kernel={"S": own},
        rho=rho,
        noise=NOISE,
        inducing=np.vstack([XP, XS]),
        optimizer=None,
        normalize_y=False,
    ).fit({"P": (XP, np.zeros(2)), "S": (XS, np.zeros(3))})
    return model.predict(GRID, tasks="P", return_std=True)[1] ** 2


def main() -> None:
    curves = {r2: (symmetric(np.sqrt(r2)), asymmetric(np.sqrt(r2))) for r2 in RHO2}
    at = {x: int(np.argmin(np.abs(GRID[:, 0] - x))) for x in (0.2, 0.5, 0.8)}
    rows = [
        {
            "rho2": r2,
            "symmetric at 1/5, 1/2, 4/5": [round(float(s[i]), 4) for i in at.values()],
            "asymmetric at 1/5, 1/2, 4/5": [round(float(a[i]), 4) for i in at.values()],
            "mean symmetric": round(float(s.mean()), 4),
            "mean asymmetric": round(float(a.mean()), 4),
            "share of x* with asymmetric <= symmetric": round(float(np.mean(a <= s + 1e-12)), 3),
            "largest excess of asymmetric": round(float(np.max(a - s)), 5),
        }
        for r2, (s, a) in curves.items()
    ]
    settings = {"symmetric": "equations (10) and (12)", "asymmetric": "the estimator, optimizer=None"}
    settings = {k: f"{v}; k^p {KP}, k^s (1 - rho^2) {KS}, noise {NOISE}" for k, v in settings.items()}
    write_result("leen2011_variance", {"seed": None, "settings": settings, "rows": rows})
    with matplotlib.rc_context(figures.STYLE):
        figure = Figure(figsize=(9.5, 3.6), layout="constrained")
        shades = matplotlib.colormaps["viridis_r"](np.linspace(0.08, 0.95, len(RHO2)))
        for ax, which, name in zip(
            figure.subplots(1, 2, sharey=True), (0, 1), ("Symmetric", "Asymmetric"), strict=True
        ):
            for (r2, pair), colour in zip(curves.items(), shades, strict=True):
                ax.plot(GRID[:, 0], pair[which], color=colour, lw=1.6, label=f"ρ² = {r2:g}")
            ax.axhline(NOISE, color=figures.MUTED, lw=0.8, ls="--")
            ax.scatter(XP[:, 0], [0.0, 0.0], marker="D", s=26, color=figures.INK, zorder=3, clip_on=False)
            ax.scatter(
                XS[:, 0],
                np.zeros(3),
                marker="o",
                s=26,
                facecolor="white",
                edgecolor=figures.INK,
                zorder=3,
                clip_on=False,
            )
            middle = pair_at_half(curves, which)
            ax.set(
                title=f"{name}: variance at x = 1/2 falls to {middle:.2f} at ρ² = 3/4",
                xlabel="x",
                xlim=(0, 1),
                ylim=(0, 1.05),
            )
        figure.axes[0].set_ylabel("posterior variance of the primary")
        figure.axes[1].legend(fontsize=7.5, frameon=False, ncols=2, loc="upper center")
    FIGURES.mkdir(parents=True, exist_ok=True)
    figures.save(figure, FIGURES / "leen2011_variance")
    for row in rows:
        sys.stdout.write(f"{row}\n")


def pair_at_half(curves: dict, which: int) -> float:
    """Variance at x = 1/2, between the primary's points, for rho^2 = 3/4."""
    return float(curves[3 / 4][which][100])


if __name__ == "__main__":
    main()
