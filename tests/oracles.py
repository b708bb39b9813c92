"""Slow, literal, dense versions of the papers' equations. Nothing here is fast, and nothing here is shared with src."""

from __future__ import annotations

import numpy as np


def focused_exact_prior(X, task, rho, kernel, specific):
    """The same without inducing inputs, row by row: rho_t rho_s k^p(x, x') + [t = s] k_t(x, x')."""
    K = np.zeros((len(X), len(X)))
    for i in range(len(X)):
        for j in range(len(X)):
            xi, xj, own = X[i : i + 1], X[j : j + 1], specific[task[i]]
            K[i, j] = rho[task[i]] * rho[task[j]] * float(np.squeeze(kernel(xi, xj)))
            if task[i] == task[j] and own is not None:
                K[i, j] += float(np.squeeze(own(xi, xj)))
    return K


def focused_prior(X, task, rho, kernel, specific, Z, loadings=None, background=None, background_Z=None):
    """Joint covariance of all rows' function values, Leen et al. (2011) eqs. (5)-(9), row by row.

    rho[t] is 1 for the primary. Lambda is diagonal over function values: rows of one task at one input share theirs.
    """
    n = len(X)
    K = np.zeros((n, n))
    Kpp_inverse = np.linalg.inv(kernel(Z))
    inverse = None if background is None else np.linalg.inv(background(background_Z))
    for i in range(n):
        for j in range(n):
            same_task, same_value = task[i] == task[j], task[i] == task[j] and np.array_equal(X[i], X[j])
            xi, xj = X[i : i + 1], X[j : j + 1]
            # eq. (8): K_sp K_pp^-1 K_sp' + Lambda + K_spec, with k^t(t, t') = rho_t rho_t' of eq. (5)
            Q = float(np.squeeze(kernel(xi, Z) @ Kpp_inverse @ kernel(Z, xj)))
            K[i, j] = rho[task[i]] * rho[task[j]] * Q
            if same_value:
                K[i, j] += rho[task[i]] ** 2 * (float(np.squeeze(kernel(xi, xi))) - Q)
            if same_task and specific[task[i]] is not None:
                K[i, j] += float(np.squeeze(specific[task[i]](xi, xj)))
            if loadings is not None:  # section 3: functions shared among secondaries only
                Qb = float(np.squeeze(background(xi, background_Z) @ inverse @ background(background_Z, xj)))
                weight = float(loadings[task[i]] @ loadings[task[j]])
                K[i, j] += weight * Qb
                if same_value:
                    K[i, j] += weight * (float(np.squeeze(background(xi, xi))) - Qb)
    return K


def gaussian_log_density(y, C):
    """log N(y; 0, C)."""
    sign, logdet = np.linalg.slogdet(C)
    assert sign > 0
    return float(-0.5 * (y @ np.linalg.solve(C, y) + logdet + len(y) * np.log(2 * np.pi)))


def gaussian_posterior(K, train, test, y, noise):
    """Mean and covariance of the function at `test` given y = f + noise at `train`; both index rows of K."""
    C = K[np.ix_(train, train)] + np.diag(noise)
    Ks = K[np.ix_(test, train)]
    gain = np.linalg.solve(C, Ks.T).T
    return gain @ y, K[np.ix_(test, test)] - gain @ Ks.T


def two_task_covariance(XP, XS, rho, kernel, specific, noise):
    """C_sym and C_asym of eqs. (10), (11)."""
    KPP, KPS, KSS = kernel(XP), kernel(XP, XS), kernel(XS)
    symmetric = np.block([[KPP, rho * KPS], [rho * KPS.T, KSS]])
    asymmetric = np.block([[KPP, rho * KPS], [rho * KPS.T, rho**2 * KSS + (1 - rho**2) * specific(XS)]])
    return symmetric + noise * np.eye(len(symmetric)), asymmetric + noise * np.eye(len(symmetric))


def central_difference(f, x, step=1e-5):
    """Gradient of a scalar function, one entry at a time."""
    x = np.asarray(x, dtype=float)
    g = np.zeros_like(x)
    for i in np.ndindex(x.shape):
        up, down = x.copy(), x.copy()
        up[i] += step
        down[i] -= step
        g[i] = (f(up) - f(down)) / (2 * step)
    return g


def probit_site(y, m, v):
    """log Z and tilted mean and variance of Phi(y f) N(f; m, v), by the formulas of Rasmussen & Williams (3.9)."""
    from scipy.stats import norm

    z = y * m / np.sqrt(1 + v)
    ratio = norm.pdf(z) / norm.cdf(z)
    mean = m + y * v * ratio / np.sqrt(1 + v)
    variance = v - v**2 * ratio / (1 + v) * (z + ratio)
    return norm.logcdf(z), mean, variance


def sequential_ep(K, y, bias, sweeps=200, tol=1e-12):
    """Dense EP, one site after the other, posterior recomputed after each (Rasmussen & Williams, algorithm 3.5).

    Returns evidence, posterior mean and covariance. The posterior covariance comes from the inverse of I + S K S.
    """
    n = len(y)
    nu, tau = np.zeros(n), np.zeros(n)

    def posterior():
        S = np.diag(np.sqrt(tau))
        cov = K - K @ S @ np.linalg.solve(np.eye(n) + S @ K @ S, S @ K)
        return cov @ nu, cov

    mean, cov = posterior()
    for _ in range(sweeps):
        before = np.concatenate([nu, tau])
        for i in range(n):
            v = 1.0 / (1.0 / cov[i, i] - tau[i])
            m = v * (mean[i] / cov[i, i] - nu[i])
            _, tilted_m, tilted_v = probit_site(y[i], m + bias[i], v)
            tilted_m -= bias[i]
            tau[i] = 1.0 / tilted_v - 1.0 / v
            nu[i] = tilted_m / tilted_v - m / v
            mean, cov = posterior()
        if np.max(np.abs(np.concatenate([nu, tau]) - before)) < tol:
            break
    evidence = -0.5 * np.linalg.slogdet(np.eye(n) + np.sqrt(np.outer(tau, tau)) * K)[1] + 0.5 * nu @ mean
    for i in range(n):
        v = 1.0 / (1.0 / cov[i, i] - tau[i])
        m = v * (mean[i] / cov[i, i] - nu[i])
        log_z, _, _ = probit_site(y[i], m + bias[i], v)
        # The site is scaled so that it integrates the cavity to Z_i: int N(f; m, v) exp(nu f - tau f^2 / 2) df
        A, B = 1.0 / v + tau[i], m / v + nu[i]
        log_overlap = 0.5 * (B**2 / A - m**2 / v) - 0.5 * np.log(v * A)
        evidence += log_z - log_overlap
    return evidence, mean, cov
