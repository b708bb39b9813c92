"""The average information of the symmetric model's hyper-parameters, for scoring steps (seed 001, section 2.2).

With beta = (K + noise)^-1 y the information is 1/2 D'(K + noise)^-1 D, the columns of D being derivatives of K + noise
times beta (`DensePosterior.information`). They are

    entry (s, r) of L, K^f = L L':   [t_i = s] (V L)_ir + L[t_i, r] V_is,   V = k^x E,  E_jt = beta_j [t_j = t],
    theta_j of k^x:                  (K^f[t_i, t_k] dk^x/dtheta_j) beta,   `tangents` of the kernel,
    log noise of task t:             sigma_t^2 beta, at the rows of t.

Where the data determine the parameters a dozen such steps do what a hundred of L-BFGS do.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from borrow.models.multitask.task_covariance import FreeForm, lower_entries
from borrow.numerics.linalg import Array, as_type_of, to_host
from borrow.numerics.optimise import Values

#: Above this many parameters a step would cost more than it saves.
MOST = 300


def can_score(setup: Any, values: Values) -> bool:
    """Scoring is written for the plain likelihood: dense path, free-form K^f without a prior, Gaussian noise.

    With priors L-BFGS needs few steps, and the curvature of the priors would cost as much as it saves.
    """
    small = sum(v.size for v in values.values()) <= min(MOST, len(setup.cells.y))
    free = isinstance(setup.form, FreeForm) and setup.form.strength is None
    plain = free and not setup.intercept and not setup.specific
    return setup.path == "dense" and plain and small and "noise" in values


def average_information(values: Values, setup: Any, posterior: Any) -> Array:
    """The information of all of `values`, in their order; the posterior is that of these values."""
    prior, there = posterior.prior, posterior.coefficients
    beta = to_host(there)
    n, M, task = len(beta), setup.M, prior.task
    E = np.zeros((n, M))
    E[np.arange(n), task] = beta
    V = to_host(prior.at_rows(prior.Kx) @ as_type_of(there, E))
    columns = []
    for name, value in values.items():
        if name == "kernel":
            # The posterior has w K^f w, and beta = w alpha: no further matrix of all pairs of rows is made.
            scaled = setup.kernel.with_theta(value).tangents(prior.X, posterior.wBw, posterior.alpha)
            columns.append(to_host(scaled / posterior.w[:, None]))
        elif name == "noise":
            by_row = np.exp(np.broadcast_to(value, M))[task] * beta / setup.design.count
            columns.append(by_row[:, None] if setup.share_noise else by_row[:, None] * (task[:, None] == np.arange(M)))
        else:
            L = setup.form.parts(values).R
            assert L is not None  # a free form has its factor
            s, r = lower_entries(M)
            columns.append((task[:, None] == s) * (V @ L)[:, r] + L[task][:, r] * V[:, s])
    return posterior.information(as_type_of(there, np.hstack(columns)))
