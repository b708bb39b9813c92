"""Synthetic problems of the papers, and families that show when transfer helps and when it hurts."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from sklearn.utils import check_random_state

from borrow.estimators.settings import expect
from borrow.kernels import SquaredExponential
from borrow.numerics.linalg import Array


def two_tasks(kind: str = "numbers") -> tuple[list[list[float]], list[Any], list[str]]:
    """Inputs, targets and task labels of two tasks, four rows each: what the examples of the reference are made of.

    Parameters
    ----------
    kind : "numbers", or "labels" for targets that are "no" and "yes".

    Examples
    --------
    >>> import borrow
    >>> X, y, tasks = borrow.datasets.two_tasks()
    >>> tasks
    ['a', 'a', 'a', 'a', 'b', 'b', 'b', 'b']
    """
    expect(kind in ("numbers", "labels"), "kind", kind, "'numbers' or 'labels'")
    numbers = [0.1, 0.9, 0.8, 0.2, 1.2, 2.0, 1.9, 1.1]
    labels = ["no", "no", "yes", "yes", "no", "yes", "yes", "yes"]
    return [[0.0], [1.0], [2.0], [3.0]] * 2, numbers if kind == "numbers" else labels, list("aaaabbbb")


class FocusedProblem(NamedTuple):
    """Long table (X, y, tasks), where the primary is tested, and its true function there.

    Examples
    --------
    >>> import borrow
    >>> problem = borrow.datasets.focused_gap(n_secondaries=2)
    >>> problem.X.shape, problem.X_test.shape, problem.f_test.shape
    ((300, 1), (50, 1), (50,))
    """

    X: Array
    y: Array
    tasks: list[str]
    X_test: Array
    f_test: Array
    truth: Array  # the primary's function at `grid`
    grid: Array
    weights: Array  # alpha_m of the secondaries
    shares: Array  # beta_m of the secondaries
    hidden: Any  # mask of the grid where the primary is unlabelled


def _draw(kernel: SquaredExponential, X: Array, random: np.random.RandomState, n: int) -> Array:
    e, U = np.linalg.eigh(kernel(X))
    return random.normal(size=(n, len(X))) @ (U * np.sqrt(np.maximum(e, 0.0))).T


def focused_gap(
    n_secondaries: int = 24,
    gap: str = "contiguous",
    noise: float = 0.1,
    random_state: Any = 0,
    n_draws: int = 24,
) -> FocusedProblem:
    """Leen, Peltonen & Kaski (2011), section 5.1: 100 inputs on [-5, 5], 50 of the primary's removed.

    The primary is a draw from a GP with a squared exponential kernel of lengthscale 1, the secondaries are
    alpha_m f_p + sqrt(beta_m) g_m with alpha ~ N(0, 1), beta ~ U(0, 1). `gap="contiguous"` removes the middle 50
    inputs, `"random"` any 50. `noise` is a standard deviation; the paper does not give its own. `n_draws` secondaries
    are drawn and the first `n_secondaries` used, so that problems with fewer tasks are parts of those with more.

    Examples
    --------
    >>> import borrow
    >>> problem = borrow.datasets.focused_gap(2, random_state=0)
    >>> problem.X.shape, sorted(set(problem.tasks))
    ((300, 1), ['primary', 'secondary 01', 'secondary 02'])
    """
    expect(gap in ("contiguous", "random"), "gap", gap, "'contiguous' or 'random'")
    random = check_random_state(random_state)
    grid = np.linspace(-5.0, 5.0, 100)[:, None]
    n_draws = max(n_draws, n_secondaries)
    f = _draw(SquaredExponential(), grid, random, 1 + n_draws)
    alpha, beta = random.normal(size=n_draws), random.uniform(size=n_draws)
    secondary = alpha[:, None] * f[0] + np.sqrt(beta)[:, None] * f[1:]
    e = noise * random.normal(size=(1 + n_draws, 100))
    hidden = np.zeros(100, dtype=bool)
    hidden[25:75] = True
    if gap == "random":
        hidden = random.permutation(hidden)
    names = [f"secondary {m + 1:02d}" for m in range(n_secondaries)]
    y_primary = np.where(hidden, np.nan, f[0] + e[0])
    X = np.vstack([grid] * (1 + n_secondaries))
    y = np.concatenate([y_primary, *(secondary[m] + e[1 + m] for m in range(n_secondaries))])
    tasks = ["primary"] * 100 + [name for name in names for _ in range(100)]
    kept = slice(0, n_secondaries)
    return FocusedProblem(X, y, tasks, grid[hidden], f[0][hidden], f[0], grid, alpha[kept], beta[kept], hidden)


FAMILIES = ("same", "negated", "unrelated", "shifted", "noise")


def transfer_family(
    family: str,
    n_primary: int = 6,
    n_secondary: int = 40,
    noise: float = 0.1,
    shift: float = 0.3,
    random_state: Any = 0,
) -> FocusedProblem:
    """One primary of few rows and one secondary of many rows.

    The secondary is the same function, its negative, a rougher unrelated one, a copy moved along the input by `shift`
    lengthscales, or pure noise. Inputs are uniform on [-5, 5], the primary's lengthscale is 1.

    Examples
    --------
    >>> import borrow
    >>> problem = borrow.datasets.transfer_family("unrelated", random_state=0)
    >>> problem.X.shape[1], len(set(problem.tasks))
    (1, 2)
    """
    expect(family in FAMILIES, "family", family, f"one of {', '.join(FAMILIES)}")
    random = check_random_state(random_state)
    grid = np.linspace(-5.0, 5.0, 101)[:, None]
    Xp, Xs = random.uniform(-5, 5, (n_primary, 1)), random.uniform(-5, 5, (n_secondary, 1))
    moved = shift if family == "shifted" else 0.0
    f = _draw(SquaredExponential(), np.vstack([grid, Xp, Xs + moved]), random, 1)[0]
    truth, fp, fs = f[:101], f[101 : 101 + n_primary], f[101 + n_primary :]
    other = _draw(SquaredExponential(1.0, 0.4), Xs, random, 1)[0]
    secondary = {
        "same": fs,
        "shifted": fs,
        "negated": -fs,
        "unrelated": other,
        "noise": random.normal(size=n_secondary),
    }
    y = np.concatenate([fp, secondary[family]]) + noise * random.normal(size=n_primary + n_secondary)
    tasks = ["primary"] * n_primary + ["secondary"] * n_secondary
    weight = {"same": 1.0, "shifted": 1.0, "negated": -1.0}.get(family, 0.0)
    hidden = np.ones(101, dtype=bool)
    return FocusedProblem(
        np.vstack([Xp, Xs]), y, tasks, grid, truth, truth, grid, np.array([weight]), np.zeros(1), hidden
    )
