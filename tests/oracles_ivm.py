"""The informative vector machine written out densely, from Lawrence & Platt (2004). Slow on purpose."""

from __future__ import annotations

import numpy as np
from scipy.stats import norm


def gaussian_log_z(y, mean, variance, noise):
    """log int N(y; f, noise) N(f; mean, variance) df."""
    return float(norm.logpdf(y, mean, np.sqrt(variance + noise)))


def probit_log_z(y, mean, variance, bias):
    """log int Phi(y (f + bias)) N(f; mean, variance) df."""
    return float(norm.logcdf(y * (mean + bias) / np.sqrt(1.0 + variance)))


def gaussian_slopes(y, mean, variance, noise):
    """g = d log Z / d mean and nu = g^2 - 2 d log Z / d variance, the second derivative written out."""
    g = (y - mean) / (variance + noise)
    by_variance = 0.5 * (g**2 - 1.0 / (variance + noise))
    return g, g**2 - 2.0 * by_variance


def probit_slopes(y, mean, variance, bias):
    """The same for the probit: d log Phi(u) with u = y (mean + bias) (1 + variance)^-1/2."""
    u = y * (mean + bias) / np.sqrt(1.0 + variance)
    ratio = norm.pdf(u) / norm.cdf(u)
    g = ratio * y / np.sqrt(1.0 + variance)
    by_variance = -0.5 * ratio * u / (1.0 + variance)
    return g, g**2 - 2.0 * by_variance


def greedy(kernel, X, task, y, extra, d, slopes):
    """Algorithm 2 with the whole covariance of all tasks in memory, every candidate scored again at every step.

    `extra` is the noise variance or the bias of each row. Ties go to the smaller row number. Returns rows, entropy
    gains, site precisions and means, and the final mean and covariance of all rows.
    """
    n = len(y)
    Sigma = np.where(task[:, None] == task, kernel(X), 0.0)  # block diagonal: tasks are independent given the kernel
    mu = np.zeros(n)
    rows, gains, tau, z = [], [], [], []
    for _ in range(d):
        best, best_gain = None, -np.inf
        for i in range(n):
            if i in rows:
                continue
            _, nu = slopes(y[i], mu[i], Sigma[i, i], extra[i])
            gain = -0.5 * np.log(1.0 - nu * Sigma[i, i])
            if gain > best_gain:
                best, best_gain = i, gain
        i = best
        g, nu = slopes(y[i], mu[i], Sigma[i, i], extra[i])
        rows.append(i)
        gains.append(best_gain)
        tau.append(nu / (1.0 - nu * Sigma[i, i]))
        z.append(mu[i] + g / nu)
        s = Sigma[:, i].copy()
        mu = mu + g * s
        Sigma = Sigma - nu * np.outer(s, s)
    return np.array(rows), np.array(gains), np.array(tau), np.array(z), mu, Sigma


def evidence(kernel, X, task, tau, z):
    """log N(z; 0, K_I + B^-1) with the block-diagonal K_I written out."""
    C = np.where(task[:, None] == task, kernel(X), 0.0) + np.diag(1.0 / tau)
    sign, logdet = np.linalg.slogdet(C)
    assert sign > 0
    return float(-0.5 * (z @ np.linalg.solve(C, z) + logdet + len(z) * np.log(2.0 * np.pi)))


def mills_excess(t, terms=4000):
    """phi(t) / Phi(-t) - t for t > 0, by the continued fraction 1 / (t + 2 / (t + 3 / (t + ...)))."""
    value = t
    for k in range(terms, 1, -1):
        value = t + k / value
    return 1.0 / value
