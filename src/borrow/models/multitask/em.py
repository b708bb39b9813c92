"""EM for the symmetric multi-task GP (Bonilla et al. 2008, section 2.2), also with missing observations.

Printed, for F the functions of all M tasks at all N distinct inputs, expectations under p(F | y_o):

    K^f <- N^-1 <F'(K^x)^-1 F>,    sigma_l^2 <- N_l^-1 <|y_l - f_l|^2>,
    theta <- argmin N log|<F'(K^x)^-1 F>| + M log|K^x|.

No moment of F is formed. By Fisher's identity each expectation is the gradient of the evidence that is there already,
with bB, bK, g the adjoints of K^f, K^x and the log noise:

    <F'(K^x)^-1 F>               = N B + 2 B bB B
    <|y_l - f_l|^2>              = sigma_l^2 (N_l + 2 g_l)
    sum_lm (B^-1)_lm <f_l f_m'>  = M K + 2 K bK K =: S,

so that every path that has a gradient has EM, for any pattern of missing rows. Deviation: the parameters are updated in
two halves with an expectation before each (multi-cycle ECM, Meng & Rubin 1993): K^f and noise, then theta by
argmin M log|K^x| + tr((K^x)^-1 S) at that K^f. The printed theta update profiles K^f out and would need the moments
of F of all pairs of tasks, (M N)^2 numbers. Fixed points are the same, and no half can lower the evidence.

With the priors that are on, every update maximises its expected log posterior: (N G + strength I)/(N + strength) for
K^f under the inverse Wishart, Newton's method in one dimension for the noise, the kernel's prior beside S for theta.

Section 3. K^f = R R' + s^2 I (PPCA): the same moment, and from its eigenvalues R and s^2 in closed form
(`LowRank.of_matrix`). With s = 0 the printed update stands still: F is R times P functions, so <F'(K^x)^-1 F> has the
range of the R that it was found at, and no iteration leaves it; that K^f is for gradients. Nystrom's K^x = V V' from Q
inducing inputs: F = V W with W (Q, M) and cov W = K^f for each of its rows, the pseudo-inverse gives F'(K^x)^+ F = W'W,
and its expectation is

    <W'W> = Q B + 2 B bB B = R (Q I + R'bR) R',    B = R R',

the moment above with Q in place of N: the log determinant of K^f (x) K^x has Q log|K^f| in it, where the printed N^-1
would shrink K^f by Q/N in every iteration. The range of V moves with theta, and a pseudo-inverse does not see what
leaves it; so theta maximises the evidence itself in its half (ECME, Liu & Rubin 1994).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from borrow.inference import priors
from borrow.models.gp.model import bounds_of
from borrow.models.multitask.model import Setup, condition, objective_of
from borrow.models.multitask.search import starts_of
from borrow.numerics import linalg
from borrow.numerics import optimise as hyper
from borrow.numerics.linalg import Array, NotPositiveDefiniteError
from borrow.numerics.optimise import Optimum, Values

#: Added to the diagonal of K^x in the M-step of theta, as a share: smooth kernels on close inputs have no inverse in
#: double precision, and the step would stand still.
NUGGET = 1e-8


def update_task_covariance(B: Array, bB: Array, N: int, strength: float | None) -> Array:
    """K^f <- <F'(K^x)^-1 F> / N, shrunk to I where the prior is on (sec. 2.2)."""
    return shrunk(N * B + 2.0 * B @ (0.5 * (bB + bB.T)) @ B, N, strength)


def update_by_factor(R: Array, bR: Array, Q: int, strength: float | None) -> Array:
    """K^f <- <W'W> / Q for Q inducing inputs, from the adjoint of its factor; shrunk to I likewise (sec. 3)."""
    inner = R.T @ bR
    return shrunk(R @ (Q * np.eye(R.shape[1]) + 0.5 * (inner + inner.T)) @ R.T, Q, strength)


def shrunk(moment: Array, N: int, strength: float | None) -> Array:
    """The mode of K^f given the moment of N draws, under the inverse Wishart where it is on."""
    if strength is None:
        return moment / N
    return (moment + strength * np.eye(len(moment))) / (N + strength)


def update_noise(noise: Array, by_log: Array, rows: Array, least: Any, prior: bool) -> Array:
    """sigma^2 <- <|y - f|^2> / rows (sec. 2.2), no less than `least`; with the prior p, argmax
    -rows/2 u - SS/2 exp(-u) + log p(u)."""
    squares = noise * (rows + 2.0 * by_log)
    mode = squares / np.maximum(rows, 1.0)
    if not prior:
        return np.maximum(np.where(rows > 0, mode, noise), least)
    u, on_noise = np.log(noise), priors.noise_prior()
    for _ in range(1000):  # the log prior has a parabola below it: no step goes too far, nor further than 1
        slope = -0.5 * rows + 0.5 * squares * np.exp(-u) + on_noise.log_density(u)[1]
        bend = 0.5 * squares * np.exp(-u) + on_noise.steepest(u)
        step = np.maximum(u + np.clip(slope / bend, -1.0, 1.0), np.log(least)) - u
        u = u + step
        if np.max(np.abs(step)) < 1e-12:
            break
    return np.exp(u)


def update_kernel(values: Values, setup: Setup, S: Array, scales: Array, prior: str | None, max_iter: int) -> Array:
    """theta <- argmin M log|K^x| + tr((K^x)^-1 S), less twice the log prior (sec. 2.2, second half)."""
    log_prior = None if prior is None else priors.kernel_prior(setup.kernel, scales)

    def objective(at: Values) -> tuple[float, Values]:
        K, back = setup.kernel.with_theta(at["kernel"]).evaluate(setup.design.put(setup.design.inputs))
        L, _ = linalg.cholesky_jittered(K, NUGGET)
        inverse, log_determinant = linalg.inverse_from_factor(L), linalg.log_determinant(L)
        del K, L  # each is as large as all pairs of inputs
        bK = inverse @ S
        value = -0.5 * (setup.M * log_determinant + float(linalg.diagonal(bK).sum()))
        bK = bK @ inverse
        inverse *= setup.M
        bK -= inverse
        del inverse
        bK *= 0.5
        by = back(bK).theta
        if log_prior is not None:
            more, by_prior = log_prior.log_density(at["kernel"])
            value, by = value + more, by + by_prior
        return value, {"kernel": by}

    start = {"kernel": values["kernel"]}
    return hyper.maximise(objective, start, hyper.bounds_around(start), max_iter).values["kernel"]


def maximise_over_kernel(values: Values, setup: Setup, scales: Array, prior: str | None, max_iter: int) -> Array:
    """theta <- argmax of the objective itself, all else held: the second half with inducing inputs (sec. 3)."""
    whole, start = objective_of(setup, scales, prior), {"kernel": values["kernel"]}

    def objective(at: Values) -> tuple[float, Values]:
        value, by = whole({**values, **at})
        return value, {"kernel": by["kernel"]}

    return hyper.maximise(objective, start, hyper.bounds_around(start), max_iter).values["kernel"]


def em_step(values: Values, setup: Setup, scales: Array, prior: str | None) -> Values:
    """Both halves of one iteration."""
    form: Any = setup.form  # free, or of low rank with one s^2: checked by the estimator
    fit = condition(values, setup)
    adjoints: Any
    adjoints, by = fit.gradient()
    del fit  # its matrices make room for those of the next expectation
    rows = np.diff(setup.cells.starts) + setup.cells.dof
    by_noise, noise = by["noise"], np.exp(values["noise"])
    if setup.share_noise:
        by_noise, rows = np.array([by_noise.sum()]), np.array([rows.sum()])
    least = np.exp(bounds_of({"noise": values["noise"]}, setup.cells)["noise"][0])
    if setup.Z is None:
        B = update_task_covariance(form.parts(values).B, adjoints.B, len(setup.design.inputs), form.strength)
    else:
        B = update_by_factor(form.parts(values).R, adjoints.weights, len(setup.Z), form.strength)
    noise = update_noise(noise, by_noise, rows, least, prior is not None)
    values = {**values, **form.of_matrix(B), "noise": np.log(noise)}
    if not setup.kernel.n_theta:
        return values
    if setup.Z is not None:
        return {**values, "kernel": maximise_over_kernel(values, setup, scales, prior, 5)}
    posterior: Any = condition(values, setup).posterior
    bK = posterior.by_inputs()
    del posterior
    K = setup.kernel.with_theta(values["kernel"])(setup.design.put(setup.design.inputs))
    linalg.add_diagonal(K, NUGGET * linalg.diagonal(K).mean())
    S = K @ bK @ K
    S = S + S.T
    S += setup.M * K
    del K, bK
    return {**values, "kernel": update_kernel(values, setup, S, scales, prior, 5)}


def maximise_by_em(
    setup: Setup, values: Values, scales: Array, prior: str | None, max_iter: int, tol: float = 1e-6
) -> tuple[Optimum, list[float]]:
    """Iterate until a cycle gains less than `tol`; also the objective after every cycle, which never falls.

    A cycle is two EM steps x0 -> x1 -> x2 and an extrapolation of them (SQUAREM, Varadhan & Roland 2008):
    x0 - 2 a r + a^2 v with r = x1 - x0, v = x2 - x1 - r, a = -|r|/|v|, tried first and kept where it raises the
    objective over x2. The M-step of theta is for K^x with a nugget of 1e-8, without which smooth kernels on close
    inputs stand still; a step that lowers the objective, which has no nugget, keeps the old theta.
    """
    objective = objective_of(setup, scales, prior)

    def value_of(at: Values) -> float:
        try:
            return objective(at)[0]
        except NotPositiveDefiniteError:
            return -np.inf

    def step_from(at: Values, value: float) -> tuple[Values, float]:
        new = em_step(at, setup, scales, prior)
        for trial in (new, {**new, "kernel": at["kernel"]}):
            if (reached := value_of(trial)) >= value:
                return trial, reached
        return at, value

    values = max(starts_of(setup, values), key=value_of)
    trace, converged, n_iter = [value_of(values)], False, 0
    low = bounds_of(values, setup.cells)
    while not converged and n_iter < max_iter:
        n_iter += 2
        first, value = step_from(values, trace[-1])
        second, value = step_from(first, value)
        x0, x1, x2 = (hyper.pack(v) for v in (values, first, second))
        r, v = x1 - x0, x2 - 2.0 * x1 + x0
        values = second
        if np.linalg.norm(v) > 0:
            a = -max(float(np.linalg.norm(r) / np.linalg.norm(v)), 1.0)
            leap = hyper.unpack(x0 - 2.0 * a * r + a * a * v, values)
            leap = {n: np.clip(u, *low[n]) for n, u in leap.items()}
            if (reached := value_of(leap)) > value:
                values, value = leap, reached
        converged = value - trace[-1] < tol
        trace.append(value)
    message = "converged" if converged else "STOP: TOTAL NO. OF ITERATIONS REACHED LIMIT"
    stuck = [("noise", int(i)) for i in np.flatnonzero(values["noise"] <= low["noise"][0])]
    return Optimum(values, trace[-1], n_iter, 3 * n_iter, converged, message, stuck), trace
