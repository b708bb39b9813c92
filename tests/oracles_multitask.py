"""Slow and literal: the symmetric multi-task GP of Bonilla, Chai & Williams (2008), every pair of rows written out."""

import numpy as np
from scipy.stats import multivariate_normal


def prior_covariance(X, task, X2, task2, kernel, B, intercept=0.0, specific=None):
    """Eq. (1), entry by entry: K^f[l, k] k^x(x, x'), an intercept and a function of its own for every task."""
    Kx = kernel(X, X2)
    K = np.empty((len(X), len(X2)))
    for i, l in enumerate(task):
        for j, k in enumerate(task2):
            K[i, j] = B[l, k] * Kx[i, j]
            if l == k:
                K[i, j] += intercept
                if specific is not None and specific[l] is not None:
                    K[i, j] += specific[l](X[i : i + 1], X2[j : j + 1])[0, 0]
    return K


def ppca(B, P):
    """Section 3 with [12]: U (Lambda - s^2 I) U' + s^2 I, s^2 the mean of the eigenvalues of B beyond the first P."""
    e, U = np.linalg.eigh(B)
    order = np.argsort(e)[::-1]
    e, U = e[order], U[:, order]
    s2 = e[P:].mean()
    return sum((e[p] - s2) * np.outer(U[:, p], U[:, p]) for p in range(P)) + s2 * np.eye(len(B))


def nystrom_covariance(X, task, X2, task2, kernel, Z, R, intercept=0.0, same=False):
    """K^f = R R' of rank P and k^x by Nystrom's formula, what it loses kept on the diagonal (`same`: X2 is X)."""
    L = np.linalg.cholesky(kernel(Z))
    V, V2 = np.linalg.solve(L, kernel(Z, X)).T, np.linalg.solve(L, kernel(Z, X2)).T
    B = R @ R.T
    K = B[np.ix_(task, task2)] * (V @ V2.T) + intercept * np.equal.outer(task, task2)
    if same:
        K += np.diag(np.diag(B)[task] * (kernel.diag(X) - np.sum(V * V, axis=1)))
    return K


def evidence(K, y, noise):
    """log N(y; 0, K + noise), one noise variance a row."""
    return multivariate_normal(np.zeros(len(y)), K + np.diag(noise)).logpdf(y)


def predict(K, K_cross, K_new, y, noise):
    """Eq. (2) and its covariance."""
    S = K + np.diag(noise)
    return K_cross @ np.linalg.solve(S, y), K_new - K_cross @ np.linalg.solve(S, K_cross.T)


def em_updates(Kx, B, noise, Y, rank=None):
    """Section 2.2 on N inputs x M tasks, NaN where not observed: K^f and noise after one step, from all moments of F.

    vec F stacks the tasks; <F'(K^x)^-1 F> / N and <|y_l - f_l|^2> / N_l with expectations under p(f | y_o). Section 3:
    of a K^x with this `rank` the inverse is the pseudo-inverse, and N is the rank.
    """
    N, M = Y.shape
    K = np.kron(B, Kx)
    y = Y.T.ravel()
    seen = np.isfinite(y)
    S = K[np.ix_(seen, seen)] + np.diag(np.repeat(noise, N)[seen])
    gain = K[:, seen] @ np.linalg.inv(S)
    mean, cov = gain @ y[seen], K - gain @ K[seen]
    second = cov + np.outer(mean, mean)
    inverse = np.linalg.inv(Kx) if rank is None else np.linalg.pinv(Kx, rcond=1e-10)
    new_B, new_noise = np.empty((M, M)), np.empty(M)
    for l in range(M):
        for k in range(M):
            new_B[l, k] = np.trace(inverse @ second[l * N : (l + 1) * N, k * N : (k + 1) * N]) / (rank or N)
        at = np.arange(l * N, (l + 1) * N)[seen[l * N : (l + 1) * N]]
        new_noise[l] = np.mean((y[at] - mean[at]) ** 2 + np.diag(cov)[at])
    return new_B, new_noise
