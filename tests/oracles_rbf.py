"""Liao & Carin (2006) written out: every candidate refitted from scratch, every matrix formed, one row at a time."""

import numpy as np


def gaussian(X, center, width):
    return np.array([np.exp(-0.5 * np.sum((x - center) ** 2) / width**2) for x in X])


def design(X, centers, widths):
    """Rows φ(x)' of (1), the constant first."""
    return np.column_stack([np.ones(len(X)), *(gaussian(X, c, s) for c, s in zip(centers, widths, strict=True))])


def ridge_fit(Phi, y, ridges):
    """Weights that minimise |y - Φw|² + Σ ρ_j w_j², by least squares on the augmented system, and the minimum."""
    A = np.vstack([Phi, np.diag(np.sqrt(ridges))])
    b = np.concatenate([y, np.zeros(Phi.shape[1])])
    q, r = np.linalg.qr(A)
    w = np.linalg.solve(r, q.T @ b)
    return w, float(np.sum((b - A @ w) ** 2))


def error(tasks, centers, widths, ridge):
    """Equation (2) minimised over the weights of every task; `tasks` are pairs (X, y)."""
    total = 0.0
    for X, y in tasks:
        Phi = design(X, centers, widths)
        total += ridge_fit(Phi, y, np.full(Phi.shape[1], ridge))[1]
    return total


def log_determinants(tasks, centers, widths, ridge):
    """Σ_k ln det A_k of (3)."""
    total = 0.0
    for X, _ in tasks:
        Phi = design(X, centers, widths)
        total += np.linalg.slogdet(Phi.T @ Phi + ridge * np.eye(Phi.shape[1]))[1]
    return total


def greedy(tasks, candidates, width, ridge, steps, unsupervised=False):
    """Table 1 without tuning, by brute force: indices of the chosen candidates and what each gained."""

    def score(chosen):
        centers, widths = [candidates[i] for i in chosen], [width] * len(chosen)
        if unsupervised:
            return -2.0 * log_determinants(tasks, centers, widths, ridge)
        return error(tasks, centers, widths, ridge)

    chosen, gains, current = [], [], score([])
    for _ in range(steps):
        rest = [i for i in range(len(candidates)) if i not in chosen]
        values = [score([*chosen, i]) for i in rest]
        best = int(np.argmin(values))
        gains.append(current - values[best])
        current = values[best]
        chosen.append(rest[best])
    return chosen, np.array(gains)


def leave_one_out(fit_and_predict, X, y, task):
    """Mean squared error of every row predicted by a fit to all others."""
    errors = []
    for i in range(len(y)):
        keep = np.arange(len(y)) != i
        errors.append(y[i] - fit_and_predict(X[keep], y[keep], task[keep], X[i : i + 1], task[i : i + 1])[0])
    return float(np.mean(np.square(errors)))


def two_level_design(X, task, n_tasks, shared, own):
    """One row of all weights: shared functions, then the functions of each task in its own columns."""
    Phi0, Phi = design(X, *shared), design(X, *own)
    out = np.zeros((len(X), Phi0.shape[1] + n_tasks * Phi.shape[1]))
    out[:, : Phi0.shape[1]] = Phi0
    for i, k in enumerate(task):
        start = Phi0.shape[1] + k * Phi.shape[1]
        out[i, start : start + Phi.shape[1]] = Phi[i]
    return out


def gamma(Phi_seen, phi, ridges):
    """(1 + φ'A^-1φ)² of Corollary 2, ρI outside the sum."""
    A = Phi_seen.T @ Phi_seen + np.diag(ridges)
    return (1.0 + phi @ np.linalg.solve(A, phi)) ** 2
