"""Where the focused model's search starts. The evidence has many modes; these starts lie in the ones that matter.

1. No transfer: every task fitted by itself, rho = 0.
2. The regression of each secondary on the primary's own posterior.
3. The same with the shared function as rough as the secondaries are by themselves: six primary rows suggest a
   lengthscale that is too long, and at that lengthscale the others cannot help.
4. Where the kernel has several parts, as a season and a trend: the same with the kernel as it was given. Few primary
   rows are explained by one part as well as by another, and the secondaries' own kernels do not tell which it was.
5. As 3 with random signs, `n_restarts` times; and the rho that was given, if one was.
"""

from __future__ import annotations

from copy import deepcopy

import numpy as np
from sklearn.utils import gen_batches

from borrow.data.cells import Codes, spaced
from borrow.inference import EPInference, Result
from borrow.models.focused.alone import Alone
from borrow.models.focused.model import Setup
from borrow.models.gp.model import condition_single
from borrow.numerics.linalg import Array, to_host
from borrow.numerics.optimise import Values

#: So many rows of a task tell at most how it is related at the start; so many rows of all tasks are
#: predicted at once.
START_ROWS, ROWS_AT_ONCE = 100, 10_000


def starts(
    setup: Setup, alone: Alone, random: np.random.RandomState, n_restarts: int, given: Values | None
) -> list[Values]:
    """The starts listed above."""
    if len(setup.secondaries) == 0:
        return [alone.values]
    rough, targets = {**alone.values, **alone.typical(setup)}, targets_of(setup, alone)
    if "loadings" in rough:
        rough = background_start(rough, setup, alone)
    if alone.primary is None:
        return [regression_start(rough, setup, targets, None)] + ([given] if given else [])
    own = {n: v[[setup.primary]] for n, v in alone.values.items() if n == "noise"}

    def regressed_at(values: Values) -> Values:
        kernel = setup.kernel.with_theta(values["kernel"])
        primary = condition_single(setup.tasks.only(setup.primary), kernel, own, setup.infer)
        return regression_start(values, setup, targets, primary)

    regressed = regressed_at(rough)
    out = [alone.values, regression_start(alone.values, setup, targets, alone.primary), regressed]
    if len(list(setup.kernel.leaves())) > 1:
        out.append(regressed_at({**rough, "kernel": setup.kernel.theta}))
    for _ in range(n_restarts):
        signs = random.choice([-1.0, 1.0], size=len(setup.secondaries))
        out.append({**regressed, "rho": regressed["rho"] * signs})
    return out + ([given] if given else [])


def targets_of(setup: Setup, alone: Alone) -> list[Array]:
    """What each secondary is regressed by: its targets; for labels, what its own posterior makes of them."""
    labels = isinstance(setup.infer, EPInference)
    return [
        to_host(alone.secondary(setup, int(t)).marginals()[0])
        if labels and t in alone.found
        else setup.cells.y[setup.cells.of(int(t))]
        for t in setup.secondaries
    ]


def regression_start(values: Values, setup: Setup, targets: list[Array], primary: Result | None) -> Values:
    """rho_t from the regression of task t on the primary's posterior; the specific part keeps what that leaves.

    rho = sum m y / sum (m^2 + v) with m, v the primary's posterior mean and variance at the task's rows. Without a
    labelled primary row there is nothing to regress on: every task starts at w = 0.7, positively related.
    """
    start = deepcopy(values)
    variance = float(setup.kernel.with_theta(values["kernel"]).diag(setup.Z).mean())
    rows = [spaced(setup.cells.of(t), START_ROWS) for t in setup.secondaries.tolist()]
    told = [None] * len(rows) if primary is None else primary_at(primary, setup.cells.X, rows)
    for i, (t, at, p) in enumerate(zip(setup.secondaries.tolist(), rows, told, strict=True)):
        y, count = targets[i][at - setup.cells.starts[t]], setup.cells.count[at]
        if len(y) == 0:
            start["rho"][i] = 0.0
            continue
        if p is None:
            start["rho"][i], left = 0.7 / np.sqrt(variance), 0.5
        else:
            energy = float(count @ (p[0] ** 2 + p[1]))
            start["rho"][i] = rho = float(count @ (p[0] * y)) / energy if energy > 0 else 0.0
            left = float(count @ (y - rho * p[0]) ** 2) / max(float(count @ y**2), 1e-12)
        keep_own_share(start, setup, t, left)
    return start


def primary_at(primary: Result, X: Array, rows: list[Codes]) -> list[Array]:
    """Mean and variance (2, k) of the primary's own posterior at these rows of each task, many predicted at once."""
    at = np.concatenate(rows)
    told = [primary.posterior.predict(X[at[b]], np.zeros_like(at[b])) for b in gen_batches(len(at), ROWS_AT_ONCE)]
    moments = np.hstack([np.zeros((2, 0)), *([p.mean, p.variance] for p in told)])
    return np.split(moments, np.cumsum([len(r) for r in rows])[:-1], axis=1)


def keep_own_share(start: Values, setup: Setup, t: int, share: float) -> None:
    """A task's own kernel keeps this share of its variance, no less than a tenth."""
    kernel = setup.specific[t]
    if kernel is not None:
        start["specific"][setup.specific_parts[t]] += np.log(np.clip(share, 0.1, 1.0)) * kernel.marks("variance")


def background_start(values: Values, setup: Setup, alone: Alone) -> Values:
    """Loadings from the leading singular vectors of what the secondaries are alone, the primary's mean removed."""
    Z = setup.background_Z
    assert Z is not None  # there are loadings
    start, at_Z = deepcopy(values), np.zeros(len(Z), dtype=np.intp)
    F = np.zeros((len(setup.secondaries), len(Z)))
    shared = alone.primary.posterior.predict(Z, at_Z).mean if alone.primary is not None else np.zeros(len(Z))
    for i, t in enumerate(setup.secondaries.tolist()):
        if t in alone.found:
            f = alone.secondary(setup, t).predict(Z, at_Z).mean
            f = f - f.mean()
            F[i] = f - shared * (f @ shared) / max(float(shared @ shared), 1e-12)
    U, S, _ = np.linalg.svd(F, full_matrices=False)
    k = min(values["loadings"].shape[1], len(S))
    start["loadings"][:, :k] = U[:, :k] * S[:k] / np.sqrt(len(Z))
    explained = (start["loadings"] ** 2).sum(axis=1) / np.maximum((F**2).mean(axis=1), 1e-12)
    for t, share in zip(setup.secondaries.tolist(), explained, strict=True):
        keep_own_share(start, setup, t, 1.0 - share)
    return start
