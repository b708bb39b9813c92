"""Scoring steps for the symmetric model where all pairs of rows are written out (seed 001, section 2.2).

With beta = (K + noise)^-1 y the information is 1/2 D'(K + noise)^-1 D, the columns of D being derivatives of K + noise
times beta (`DensePosterior.information`). They are

    phi_p of K^f:                    (dK^f/dphi_p)[t_i, :] V_i,   V = k^x E,  E_jt = beta_j [t_j = t],
    theta_j of k^x:                  (K^f[t_i, t_k] dk^x/dtheta_j) beta,   `tangents` of the kernel,
    theta of k_t:                    (dk_t/dtheta) beta, at the rows of t,
    log noise of task t:             sigma_t^2 beta, at the rows of t.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np

from borrow.inference.priors import independent_priors
from borrow.models.gp.ascent import Ascent
from borrow.models.multitask.model import Setup, log_prior_of, multitask_objective
from borrow.models.multitask.task_covariance import FormPrior
from borrow.numerics.linalg import Array, as_type_of, to_host
from borrow.numerics.optimise import Values

#: Above this many parameters a step would cost more than it saves; below so many rows, where there are priors, too.
MOST, LEAST_ROWS = 300, 500


def can_score(setup: Setup, values: Values) -> bool:
    """Scoring is written for the dense path, Gaussian noise and some forms of K^f; priors cost their curvature."""
    worth = setup.form.strength is None or len(setup.cells.y) >= LEAST_ROWS
    small = sum(v.size for v in values.values()) <= min(MOST, len(setup.cells.y))
    written = setup.form.scored is not None and not setup.intercept
    return setup.path == "dense" and written and small and worth and "noise" in values


def ascent_of(
    setup: Setup, scales: Array, prior: str | None, start: Values, options: Mapping[str, Any] | None = None
) -> Ascent:
    """What is maximised, and the way up from a start: by scoring steps where they can be taken; options of L-BFGS."""
    form, towards = setup.form, None
    log_priors: list[Any] = [form.log_prior]
    if can_score(setup, start):
        towards = partial(directions, setup=setup)
        log_priors = []
        if form.scored is not None and form.strength is not None:
            log_priors = [independent_priors({form.scored: FormPrior(form, form.strength, form.scored)})]
    if prior is not None:
        log_priors.append(log_prior_of(setup, scales))
    return Ascent(multitask_objective(setup), log_priors, towards, None, options)


def directions(values: Values, posterior: Any, setup: Setup) -> Array:
    """(n, P): derivatives of K + noise by all of `values`, in their order, times beta of the posterior at them."""
    prior, there = posterior.prior, posterior.coefficients
    beta = to_host(there)
    n, M, task = len(beta), setup.M, prior.task
    columns = []
    for name, value in values.items():
        if name == "kernel":
            # The posterior has w K^f w, and beta = w alpha: no further matrix of all pairs of rows is made.
            scaled = setup.kernel.with_theta(value).tangents(prior.X, posterior.wBw, posterior.alpha)
            columns.append(to_host(scaled / posterior.w[:, None]))
        elif name == "noise":
            by_row = np.exp(np.broadcast_to(value, M))[task] * beta / setup.design.count
            columns.append(by_row[:, None] if setup.share_noise else by_row[:, None] * (task[:, None] == np.arange(M)))
        elif name == "specific":
            by_own = np.zeros((n, value.size))
            for t, (kernel, part) in enumerate(zip(setup.specific_kernels(values), setup.specific_parts, strict=True)):
                at = prior.design.rows(t)
                if kernel is not None and at.stop > at.start:
                    one = as_type_of(there, np.ones(1))  # all pairs of rows count alike
                    by_own[at, part] = to_host(kernel.tangents(prior.X[at], one, there[at]))
            columns.append(by_own)
        else:
            E = np.zeros((n, M))
            E[np.arange(n), task] = beta
            V = to_host(prior.Kx_at_rows @ as_type_of(there, E))
            by_form, moves = np.zeros((n, value.size)), setup.form.changes(values)
            for t in range(M):
                at = prior.design.rows(t)
                by_form[at] = V[at] @ moves[:, t].T
            columns.append(by_form)
    return as_type_of(there, np.hstack(columns))
