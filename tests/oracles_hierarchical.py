"""Yu, Tresp & Schwaighofer (2005), equations (5)-(9) and (12)-(19), as printed. Nothing here is shared with src."""

from __future__ import annotations

import numpy as np

from oracles import gaussian_log_density


def alpha_iteration(kappa, rows, y, mu, C, noise, pi, tau):
    """One EM iteration of Model 3: E-step (12), (13), M-step (14)-(16). Returns alpha, and the new mu, C, noise."""
    m, n = len(rows), len(kappa)
    inverse = np.linalg.inv(C)
    alphas, covariances, squares, total = [], [], 0.0, 0
    for own, target in zip(rows, y, strict=True):
        kl = kappa[own]
        Cl = np.linalg.inv(kl.T @ kl / noise + inverse)  # (13)
        al = Cl @ (kl.T @ target / noise + inverse @ mu)  # (12)
        alphas.append(al)
        covariances.append(Cl)
        squares += np.sum((target - kl @ al) ** 2) + np.trace(kl @ Cl @ kl.T)
        total += len(own)
    new_mu = np.sum(alphas, axis=0) / (pi + m)  # (14)
    new_C = pi * np.outer(new_mu, new_mu) + tau * np.linalg.inv(kappa)
    for al, Cl in zip(alphas, covariances, strict=True):
        new_C = new_C + Cl + np.outer(al - new_mu, al - new_mu)
    assert new_C.shape == (n, n)
    return np.array(alphas).T, new_mu, new_C / (tau + m), squares / total  # (15), (16)


def weight_iteration(X, rows, y, mu, C, noise, pi, tau):
    """One EM iteration of Model 1: E-step (5), (6), M-step (7)-(9)."""
    m, d = len(rows), X.shape[1]
    inverse = np.linalg.inv(C)
    weights, covariances, squares, total = [], [], 0.0, 0
    for own, target in zip(rows, y, strict=True):
        Xl = X[own]
        Cl = np.linalg.inv(Xl.T @ Xl / noise + inverse)  # (6)
        wl = Cl @ (Xl.T @ target / noise + inverse @ mu)  # (5)
        weights.append(wl)
        covariances.append(Cl)
        squares += np.sum((target - Xl @ wl) ** 2) + np.trace(Xl @ Cl @ Xl.T)
        total += len(own)
    new_mu = np.sum(weights, axis=0) / (pi + m)  # (7)
    new_C = pi * np.outer(new_mu, new_mu) + tau * np.eye(d)
    for wl, Cl in zip(weights, covariances, strict=True):
        new_C = new_C + Cl + np.outer(wl - new_mu, wl - new_mu)
    return np.array(weights).T, new_mu, new_C / (tau + m), squares / total  # (8), (9)


def penalised_likelihood(kappa, rows, y, mu_f, K, noise, pi, tau):
    """log p(y given mu, K, noise) + log of the normal-inverse-Wishart prior (10), up to a constant."""
    value = 0.0
    for own, target in zip(rows, y, strict=True):
        value += gaussian_log_density(target - mu_f[own], K[np.ix_(own, own)] + noise * np.eye(len(own)))
    logdet = np.linalg.slogdet(K)[1] - np.linalg.slogdet(kappa)[1]
    value -= 0.5 * tau * (logdet + np.trace(np.linalg.solve(K, kappa)) - len(K))
    return value - 0.5 * pi * mu_f @ np.linalg.solve(K, mu_f)
