"""The cases of benchmarks/golden.py: small problems, every public estimator and command on them, and what they answer.

Public names only, looked up when a case runs, so that the cases outlive any rearrangement of the modules. Every case
is a function without arguments that returns plain values; `scale` beside it says how its numbers are compared.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

#: Differ from run to run, machine or version; never recorded.
VOLATILE = {"seconds", "versions", "python", "numpy", "borrow", "written", "bytes", "arrays", "n_iter"}

#: What a fitted estimator says of itself, where it has it.
ATTRIBUTES = [
    "tasks_", "classes_", "n_features_in_", "feature_names_in_", "log_marginal_likelihood_", "noise_", "converged_",
    "jitter_", "kernel_", "kernels_", "specific_kernels_", "rho_", "background_", "bias_", "inducing_",
    "task_covariance_", "task_kernel_", "path_", "intercept_variance_", "active_", "active_counts_",
    "entropy_gain_", "rounds_", "covariance_strength_", "mean_", "centers_", "widths_", "shared_centers_", "coef_",
    "intercept_", "structure_", "method_",
]  # fmt: skip

#: Depend on the last digit of a search; recorded where nothing is searched for.
FIXED_ONLY = ("n_iter_", "objective_trace_")


@dataclass(frozen=True)
class Case:
    """One thing to run. `fixed`: nothing is learnt by a search, so that answers agree to rounding."""

    name: str
    run: Callable[[], dict[str, Any]]
    fixed: bool = False
    quick: bool = False
    scale: dict[str, float] = field(default_factory=lambda: {"sd": 1.0, "rows": 1.0})


# --- data ---------------------------------------------------------------------------------------------------------


def draw(sizes: tuple[int, ...], d: int, seed: int) -> tuple[Any, Any, Any]:
    """X, task codes and y: tasks that carry a common function in various measure, and one of their own."""
    rng = np.random.default_rng(seed)
    task = np.repeat(np.arange(len(sizes)), sizes)
    X = rng.uniform(-2.0, 2.0, (len(task), d))
    common = np.sin(1.5 * X[:, 0]) + 0.5 * X[:, -1]
    share = np.array([1.0, 0.8, -0.6, 0.3])[task % 4]
    own = 0.3 * np.cos(X[:, 0] + task)
    return X, task, 2.0 + share * common + own + 0.1 * rng.normal(size=len(task))


def asked(d: int) -> Any:
    """Inputs to predict at: inside the data, and one beyond it."""
    return np.linspace(-1.6, 3.0, 4)[:, None] * np.linspace(1.0, 0.4, d)


@dataclass(frozen=True)
class Problem:
    """What `fit` gets, what `predict` gets, and the scale of the targets."""

    fit: dict[str, Any]
    ask: list[dict[str, Any]]
    sd: float
    rows: int
    settings: dict[str, Any] = field(default_factory=dict)


def each_task(d: int, labels: list[Any]) -> list[dict[str, Any]]:
    X = asked(d)
    return [{"X": np.tile(X, (len(labels), 1)), "tasks": np.repeat(np.array(labels), len(X))}]


def problem(name: str) -> Problem:
    """The regression problems by name."""
    if name == "one task":
        X, _, y = draw((12,), 1, 1)
        return Problem({"X": X, "y": y}, [{"X": asked(1)}], float(y.std()), len(y))
    if name == "weights":
        X, task, y = draw((8, 7), 1, 3)
        weight, means = 1.0 + np.arange(15) % 3, 1.0 + np.arange(15) % 4
        fit = {"X": X, "y": y, "tasks": task, "sample_weight": weight, "replicates": means}
        return Problem(fit, each_task(1, [0, 1]), float(y.std()), int(weight.sum()), {"primary": 0})
    if name == "wide":
        X, _, _ = draw((10,), 2, 4)
        columns = [draw((10,), 2, 4)[2] * a + b * X[:, 0] for a, b in ((1.0, 0.0), (0.7, 0.3), (-0.5, 0.1))]
        Y = np.column_stack(columns)
        Y[[1, 4], 0], Y[7, 1], Y[3:8, 2] = np.nan, np.nan, np.nan
        ask: list[dict[str, Any]] = [{"X": asked(2)}, {"X": asked(2), "tasks": 1}]
        return Problem({"X": X, "y": Y}, ask, float(np.nanstd(Y)), int(np.isfinite(Y).sum()), {"primary": 0})
    d, sizes = (3, (18, 12, 6, 3)) if name == "larger" else (2, (12, 8, 2))
    X, task, y = draw(sizes, d, 2)
    if name == "missing":
        y = y.copy()
        y[[2, 3, 13, 20]] = np.nan
    if name == "frame":
        import pandas

        names = np.array(["north", "east", "far west"])
        frame = pandas.DataFrame({"a": X[:, 0], "b": X[:, 1], "where": names[task]})
        new = pandas.DataFrame({"a": asked(2)[:, 0], "b": asked(2)[:, 1], "where": ["north", "east"] * 2})
        settings = {"task": "where", "primary": "north"}
        return Problem({"X": frame, "y": pandas.Series(y)}, [{"X": new}], float(y.std()), len(y), settings)
    fit = {"X": X, "y": y, "tasks": task}
    rows, labels = int(np.isfinite(y).sum()), list(range(len(sizes)))
    return Problem(fit, each_task(d, labels), float(np.nanstd(y)), rows, {"primary": 0})


def labelled(name: str) -> Problem:
    """The classification problems by name; `ask` names one task at a time, as a wide fit wants."""
    if name == "one task":
        X, _, y = draw((14,), 1, 11)
        return Problem({"X": X, "y": np.where(y > 2, "yes", "no")}, [{"X": asked(1)}], 1.0, len(y))
    if name == "wide":
        X, _, y = draw((12,), 2, 14)
        Y = np.column_stack([(y > 2), (y + 0.6 * X[:, 0] > 2)]).astype(float)
        Y[[1, 5], 0], Y[[2, 8, 9], 1] = np.nan, np.nan
        return Problem({"X": X, "y": Y}, [{"X": asked(2), "tasks": t} for t in (0, 1)], 1.0, 19, {"primary": 0})
    d, sizes = (3, (16, 12, 8)) if name == "larger" else (2, (12, 9, 4))
    X, task, y = draw(sizes, d, 12)
    cuts = [1.6, 2.4] if name == "three classes" else [2.0]
    kinds = np.array(["low", "middle", "high"] if len(cuts) == 2 else ["no", "yes"], dtype=object)
    labels = kinds[np.digitize(y, cuts)]
    if name == "missing":
        labels[[0, 7, 15]] = None
    rows = sum(v is not None for v in labels)
    return Problem({"X": X, "y": labels, "tasks": task}, each_task(d, [0, 1, 2]), 1.0, rows, {"primary": 0})


# --- what a case records ------------------------------------------------------------------------------------------


def plain(value: Any) -> Any:
    """A value as JSON has it. Kernels are their class and parameters; keys that differ from run to run are left out."""
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, (float, np.floating)):
        return float(value) if np.isfinite(value) else repr(float(value))
    if isinstance(value, np.generic):
        return plain(value.item())
    if isinstance(value, dict):
        return {str(k): plain(v) for k, v in value.items() if k not in VOLATILE}
    if hasattr(value, "toarray"):
        value = value.toarray()
    if hasattr(value, "theta"):
        return [type(value).__name__, *np.asarray(value.theta).ravel().tolist()]
    if isinstance(value, np.ndarray):
        return [plain(v) for v in value.tolist()]
    if isinstance(value, (list, tuple)):
        return [plain(v) for v in value]
    return repr(value)


@contextlib.contextmanager
def warned(out: dict[str, Any]) -> Iterator[None]:
    """Every distinct warning under `out["warnings"]`, in the order they came."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield
    out["warnings"] = list(dict.fromkeys(f"{w.category.__name__}: {w.message}" for w in caught))


def attempt(out: dict[str, Any], name: str, call: Callable[[], Any]) -> Any:
    """Keep what a call answers, or what it says when it refuses."""
    try:
        found = call()
    except (ValueError, TypeError, NotImplementedError) as refusal:
        found = f"{type(refusal).__name__}: {refusal}"
    out[name] = plain(found)
    return found


def refusal_of(call: Callable[[], Any]) -> str | None:
    """Words of a refusal, None where the call goes through."""
    try:
        call()
    except (ValueError, TypeError) as refusal:
        return f"{type(refusal).__name__}: {refusal}"
    return None


def answers(model: Any, ask: list[dict[str, Any]]) -> dict[str, Any]:
    """Everything a fitted estimator predicts."""
    out: dict[str, Any] = {}
    for k, where in enumerate(ask):
        tail = "" if k == 0 else f" {k + 1}"
        if hasattr(model, "predict_proba"):
            attempt(out, f"class{tail}", lambda w=where: model.predict(**w))
            attempt(out, f"proba{tail}", lambda w=where: model.predict_proba(**w))
            attempt(out, f"decision{tail}", lambda w=where: model.decision_function(**w))
            continue
        attempt(out, f"mean{tail}", lambda w=where: model.predict(**w))
        attempt(out, f"std{tail}", lambda w=where: model.predict(**w, return_std=True)[1])
        attempt(out, f"std noise{tail}", lambda w=where: model.predict(**w, return_std=True, include_noise=True)[1])

        def covariance(w: dict[str, Any] = where) -> Any:
            found = np.asarray(model.predict(**w, return_cov=True)[1])
            return [np.diagonal(found), found[0], found[1]] if found.ndim == 2 else found[:2]

        attempt(out, f"cov{tail}", covariance)
    return out


def about(model: Any, fixed: bool) -> dict[str, Any]:
    """Fitted attributes and tables."""
    names = [*ATTRIBUTES, *(FIXED_ONLY if fixed else ())]
    out = {name: plain(getattr(model, name)) for name in sorted(names) if hasattr(model, name)}
    for name in ("relatedness", "leave_one_out"):
        if hasattr(model, name):
            attempt(out, name, getattr(model, name))
    return out


def fitted(estimator: str, given: Problem, fixed: bool, **settings: Any) -> dict[str, Any]:
    """Fit and record."""
    import borrow

    kind = getattr(borrow, estimator)
    known = kind().get_params()
    wanted = {k: v for k, v in given.settings.items() if k in known} | settings
    if fixed and "optimizer" in known:
        wanted["optimizer"] = None
    out: dict[str, Any] = {}
    with warned(out):
        try:
            model = kind(**wanted).fit(**given.fit)
        except (ValueError, TypeError) as refusal:
            out["refused"] = f"{type(refusal).__name__}: {refusal}"
        else:
            out |= answers(model, given.ask) | about(model, fixed)
    return out


# --- the cases ----------------------------------------------------------------------------------------------------

REGRESSORS = [
    "SingleTaskGPRegressor", "PooledGPRegressor", "FocusedGPRegressor", "MultiTaskGPRegressor",
    "HierarchicalGPRegressor", "MultiTaskIVMRegressor", "MultiTaskRBFRegressor",
]  # fmt: skip
CLASSIFIERS = [
    "SingleTaskGPClassifier", "PooledGPClassifier", "FocusedGPClassifier", "MultiTaskGPClassifier",
    "HierarchicalGPClassifier", "MultiTaskIVMClassifier", "SharedStructureClassifier", "DirichletProcessClassifier",
    "RegularizedMultiTaskClassifier",
]  # fmt: skip
UNSEARCHED = {"SharedStructureClassifier", "DirichletProcessClassifier", "RegularizedMultiTaskClassifier"}
#: So few rows are in a case that all would be active by default.
SMALL = {"MultiTaskIVMRegressor": {"n_active": 10}, "MultiTaskIVMClassifier": {"n_active": 10}}


def model_cases() -> Iterator[Case]:
    """Every estimator on every problem, held and learnt."""
    for kinds, problems, make in (
        (REGRESSORS, ("one task", "unequal", "weights", "wide", "missing", "frame", "larger"), problem),
        (CLASSIFIERS, ("one task", "two classes", "three classes", "wide", "missing", "larger"), labelled),
    ):
        for estimator in kinds:
            searched = estimator not in UNSEARCHED and estimator != "MultiTaskRBFRegressor"
            for name in problems:
                yield model_case(estimator, name, make, searched, **SMALL.get(estimator, {}))
                if searched:
                    yield model_case(estimator, name, make, False, **SMALL.get(estimator, {}))


def model_case(
    estimator: str, name: str, make: Callable[[str], Problem], learnt: bool, tag: str = "", **settings: Any
) -> Case:
    given = make(name)
    fixed = not learnt and estimator not in UNSEARCHED
    how = "learnt" if learnt else "fixed"
    if estimator in UNSEARCHED:
        how = "learnt"
    title = f"{estimator}/{name}/{how}" + (f"/{tag}" if tag else "")
    scale = {"sd": given.sd, "rows": float(given.rows)}
    quick = (fixed and name != "missing") or (not tag and name in ("unequal", "two classes"))
    return Case(title, lambda: fitted(estimator, given, fixed, **settings), fixed, quick, scale)


def variant_cases() -> Iterator[Case]:
    """Settings that take another path through the code."""

    def regressor(estimator: str, tag: str, name: str = "unequal", learnt: bool = False, **settings: Any) -> Case:
        return model_case(estimator, name, problem, learnt, tag, **settings)

    yield regressor("FocusedGPRegressor", "background", background=1)
    yield regressor("FocusedGPRegressor", "background", learnt=True, background=1)
    yield regressor("FocusedGPRegressor", "inducing at the primary", inducing="primary")
    yield regressor("FocusedGPRegressor", "five inducing inputs, rho given", inducing=5, rho=0.7, noise=0.02)
    yield regressor("FocusedGPRegressor", "no priors", learnt=True, prior=None, rho_prior=None, n_restarts=0)
    yield regressor("FocusedGPRegressor", "common units", normalize_y="common", device="cpu")
    many = "MultiTaskGPRegressor"
    variants: dict[str, dict[str, Any]] = {
        "rank 1": {"rank": 1},
        "rank 1, isotropic": {"rank": 1, "diagonal": "isotropic"},
        "rank 2, free diagonal": {"rank": 2, "diagonal": "free"},
        "intercept": {"intercept": True},
        "diagonal": {"task_covariance": "diagonal"},
        "uniform": {"task_covariance": "uniform"},
        "one noise": {"share_noise": True},
        "own functions": {"specific_kernel": "auto"},
        "low rank": {"rank": 2, "inducing": 6},
        "task features": {"task_features": {0: [0.0], 1: [1.0], 2: [0.5], 3: [2.0]}},
    }
    for tag, settings in variants.items():
        yield regressor(many, tag, **settings)
        if tag in ("rank 2, free diagonal", "intercept", "low rank", "task features", "uniform"):
            yield regressor(many, tag, learnt=True, **settings)
    yield regressor(many, "em", learnt=True, solver="em", max_iter=5)
    yield Case(f"{many}/complete design/fixed", lambda: complete(None), True, True)
    yield Case(f"{many}/complete design/learnt", lambda: complete("lbfgs"))
    yield regressor("MultiTaskIVMRegressor", "rounds", learnt=True, n_active=8, n_rounds=2, share_noise=False)
    yield regressor("MultiTaskIVMRegressor", "random", n_active=8, selection="random", noise_from="active")
    for design in ("two-level", "multi-task", "independent", "one"):
        yield regressor("MultiTaskRBFRegressor", f"{design}, tuned", design=design, n_basis=4, tune_width=True)
    yield regressor("MultiTaskRBFRegressor", "unsupervised", basis="unsupervised", n_basis=4)
    yield regressor("HierarchicalGPRegressor", "given", covariance_strength=1.0, noise=0.05, max_iter=10)
    yield regressor("HierarchicalGPRegressor", "plain EM", covariance_strength=1.0, accelerate=False, max_iter=10)
    yield Case("HierarchicalGPRegressor/sparse/fixed", lambda: sparse("HierarchicalGPRegressor"), True, True)
    yield Case("HierarchicalGPClassifier/sparse/fixed", lambda: sparse("HierarchicalGPClassifier"), True, True)
    for estimator in ("FocusedGPClassifier", "MultiTaskGPClassifier", "SingleTaskGPClassifier", "PooledGPClassifier"):
        yield model_case(estimator, "two classes", labelled, False, "logistic", likelihood="logistic")
    yield model_case("FocusedGPClassifier", "two classes", labelled, False, "background", background=1)
    yield model_case("MultiTaskIVMClassifier", "two classes", labelled, False, "EP", n_active=10, ep_sweeps=3)
    spread: dict[str, dict[str, Any]] = {
        "FocusedGPRegressor": {},
        "MultiTaskGPRegressor": {"rank": 2, "inducing": 6},
        "HierarchicalGPRegressor": {"covariance_strength": 1.0, "noise": 0.05, "max_iter": 5},
        "MultiTaskIVMRegressor": {"n_active": 8},
    }
    for estimator, settings in spread.items():
        case = regressor(estimator, "workers", workers=2, **settings)
        yield replace(case, quick=False)
    for estimator in ("FocusedGPClassifier", "MultiTaskIVMClassifier", "HierarchicalGPClassifier"):
        settings = SMALL.get(estimator, {})
        yield replace(
            model_case(estimator, "two classes", labelled, False, "workers", workers=2, **settings), quick=False
        )
    for estimator, name in (("MultiTaskIVMRegressor", "unequal"), ("HierarchicalGPRegressor", "unequal")):
        yield Case(f"{estimator}/adapt/fixed", lambda e=estimator, n=name: adapted(e, problem(n)), True, True)
    for estimator in ("MultiTaskIVMClassifier", "HierarchicalGPClassifier"):
        yield Case(f"{estimator}/adapt/fixed", lambda e=estimator: adapted(e, labelled("two classes")), True, True)
    yield Case("MultiTaskRBFRegressor/select/fixed", selected, True, True)
    for name in ("SquaredExponential", "Matern", "RationalQuadratic", "Periodic", "Linear", "NeuralNetwork"):
        yield Case(f"kernels/{name}/fixed", lambda n=name: with_kernel(n), True, True)
    yield Case("kernels/composed/fixed", lambda: with_kernel("composed"), True, True)


def complete(optimizer: str | None) -> dict[str, Any]:
    """Every input seen in every task."""
    X, _, y = draw((9,), 2, 6)
    Y = np.column_stack([y, 0.5 * y + 0.3 * X[:, 0]])
    given = Problem({"X": X, "y": Y}, [{"X": asked(2)}, {"X": asked(2), "tasks": 1}], float(Y.std()), Y.size)
    return fitted("MultiTaskGPRegressor", given, optimizer is None, optimizer=optimizer)


def sparse(estimator: str) -> dict[str, Any]:
    """A sparse table with a linear kernel."""
    from scipy.sparse import csr_array

    import borrow

    rng = np.random.default_rng(7)
    X = np.where(rng.random((14, 6)) < 0.4, rng.normal(size=(14, 6)), 0.0)
    y = X[:, 0] - X[:, 1] + 0.1 * rng.normal(size=14)
    task = np.arange(14) % 2
    y = y if estimator.endswith("Regressor") else np.where(y > 0, "yes", "no")
    given = Problem({"X": csr_array(X), "y": y, "tasks": task}, [{"X": csr_array(X[:4]), "tasks": 1}], 1.0, 14)
    held = {"base_kernel": borrow.kernels.Linear(), "covariance_strength": 1.0, "noise": 0.1, "max_iter": 10}
    return fitted(estimator, given, True, **held)


def adapted(estimator: str, given: Problem) -> dict[str, Any]:
    """A task never seen, on the prior learnt from the others."""
    import borrow

    out: dict[str, Any] = {}
    X, y, task = given.fit["X"], given.fit["y"], given.fit["tasks"]
    old = task != 1
    with warned(out):
        model = getattr(borrow, estimator)(optimizer=None, **SMALL.get(estimator, {}))
        new = model.fit(X[old], y[old], tasks=task[old]).adapt(X[~old], y[~old])
        out |= answers(new, [{"X": asked(2)}])
    return out


def selected() -> dict[str, Any]:
    """Rows that the network would have measured next."""
    import borrow

    out: dict[str, Any] = {}
    given = problem("unequal")
    with warned(out):
        model = borrow.MultiTaskRBFRegressor(n_basis=4).fit(**given.fit)
        attempt(out, "select", lambda: model.select(given.ask[0]["X"], 3, tasks=given.ask[0]["tasks"]))
    return out


def with_kernel(name: str) -> dict[str, Any]:
    """A kernel by itself, and in two models."""
    import borrow

    k = borrow.kernels
    kernel = k.SquaredExponential(0.8, (0.7, 1.3)) * k.Linear() + k.Constant(0.2) + k.Matern(0.5)
    kernel = kernel if name == "composed" else getattr(k, name)()
    X = draw((5,), 2, 8)[0]
    out: dict[str, Any] = {"repr": repr(kernel), "theta": plain(kernel.theta)}
    out["matrix"] = plain(np.asarray(kernel(X)))
    given = problem("unequal")
    for estimator in ("SingleTaskGPRegressor", "PooledGPRegressor"):
        found = fitted(estimator, given, True, kernel=kernel)
        out[estimator] = {n: found.get(n) for n in ("mean", "std", "log_marginal_likelihood_", "warnings", "refused")}
    return out


def refusals() -> dict[str, Any]:
    """What wrong calls are told."""
    import borrow

    given = problem("unequal")
    X, y, tasks = given.fit["X"], given.fit["y"], given.fit["tasks"]
    hole = X.copy()
    hole[3, 1] = np.nan
    model = borrow.FocusedGPRegressor(primary=0, optimizer=None).fit(X, y, tasks=tasks)
    labels = borrow.PooledGPClassifier(optimizer=None)
    calls: dict[str, Callable[[], Any]] = {
        "no primary": lambda: borrow.FocusedGPRegressor().fit(X, y, tasks=tasks),
        "wrong primary": lambda: borrow.FocusedGPRegressor(primary="x").fit(X, y, tasks=tasks),
        "input missing": lambda: borrow.SingleTaskGPRegressor().fit(hole, y, tasks=tasks),
        "target infinite": lambda: borrow.SingleTaskGPRegressor().fit(X, np.where(y > 2, np.inf, y), tasks=tasks),
        "all targets missing": lambda: borrow.PooledGPRegressor().fit(X, np.full(len(y), np.nan), tasks=tasks),
        "lengths": lambda: borrow.MultiTaskGPRegressor().fit(X, y[:-1], tasks=tasks),
        "no such optimizer": lambda: borrow.MultiTaskGPRegressor(optimizer="adam").fit(X, y, tasks=tasks),
        "rank": lambda: borrow.MultiTaskGPRegressor(rank=0).fit(X, y, tasks=tasks),
        "kernel": lambda: borrow.PooledGPRegressor(kernel="rbf").fit(X, y, tasks=tasks),
        "noise": lambda: borrow.PooledGPRegressor(noise=-1.0).fit(X, y, tasks=tasks),
        "device": lambda: borrow.PooledGPRegressor(device="tpu").fit(X, y, tasks=tasks),
        "n_active": lambda: borrow.MultiTaskIVMRegressor(n_active=0).fit(X, y, tasks=tasks),
        "design": lambda: borrow.MultiTaskRBFRegressor(design="three").fit(X, y, tasks=tasks),
        "strength": lambda: borrow.HierarchicalGPRegressor(covariance_strength=-1.0).fit(X, y, tasks=tasks),
        "weights": lambda: borrow.PooledGPRegressor().fit(X, y, tasks=tasks, sample_weight=-np.ones(len(y))),
        "unknown task": lambda: model.predict(X, tasks=9),
        "columns": lambda: model.predict(X[:, :1], tasks=0),
        "std and cov": lambda: model.predict(X, tasks=0, return_std=True, return_cov=True),
        "not fitted": lambda: borrow.FocusedGPRegressor().predict(X),
        "numbers as labels": lambda: labels.fit(X, y, tasks=tasks),
        "compare target": lambda: borrow.compare(frame(), "z", "task", "alpha"),
        "compare primary": lambda: borrow.compare(frame(), "y", "task", "alpa"),
        "compare methods": lambda: borrow.compare(frame(), "y", "task", "alpha", ["focussed"]),
        "suggest": lambda: borrow.suggest(model, X, 0, tasks=0),
        "store": lambda: borrow.store.load(__file__),
    }
    out: dict[str, Any] = {}
    with warned(out):
        for name, call in calls.items():
            out[name] = refusal_of(call)
    out["store"] = str(out["store"]).replace(__file__, "FILE")
    return out


# --- transfer, storage, report, command line ------------------------------------------------------------------------


def frame(kind: str = "regression") -> dict[str, Any]:
    """A table of three tasks, as a dict of columns."""
    X, task, y = draw((12, 10, 6), 2, 21)
    names = np.array(["alpha", "beta", "gamma"])
    target = y if kind == "regression" else np.where(y > 2, "yes", "no")
    return {"a": X[:, 0].tolist(), "b": X[:, 1].tolist(), "task": names[task].tolist(), "y": target.tolist()}


def compared(kind: str, methods: list[str], **more: Any) -> dict[str, Any]:
    import borrow

    out: dict[str, Any] = {}
    with warned(out):
        found = borrow.compare(frame(kind), "y", "task", "alpha", methods, progress=False, **more)
    verdict = found.verdict()
    out |= {"table": plain(found.table()), "verdict": plain(verdict.to_dict()), "method": verdict.method}
    return out | {"all": plain(found.to_dict())}


def looked() -> dict[str, Any]:
    import borrow

    out: dict[str, Any] = {}
    with warned(out):
        out["table"] = plain(borrow.quick_look(frame(), "y", "task", "alpha"))
    return out


def suggested(estimator: str, settings: dict[str, Any], more: dict[str, Any]) -> dict[str, Any]:
    import borrow

    out: dict[str, Any] = {}
    given = problem("unequal")
    with warned(out):
        model = getattr(borrow, estimator)(**settings).fit(**given.fit)
        X, tasks = given.ask[0]["X"], given.ask[0]["tasks"]
        if estimator == "PooledGPRegressor":  # to which all tasks are one: candidates of one, or there are ties
            X, tasks = X[:4], tasks[:4]
        attempt(out, "table", lambda: borrow.suggest(model, X, 3, tasks=tasks, **more))
    return out


def automatic(estimator: str, given: Problem, methods: list[str]) -> dict[str, Any]:
    import borrow

    out: dict[str, Any] = {}
    with warned(out):
        model = getattr(borrow, estimator)(**given.settings, methods=methods, cv=2).fit(**given.fit)
        out |= answers(model, given.ask) | about(model, False)
        verdict = model.verdict_
        out["verdict"] = None if verdict is None else plain(verdict.to_dict())
    return out


def stored(estimator: str, given: Problem, **settings: Any) -> dict[str, Any]:
    """Whether a loaded estimator answers in the same bits, and what the file says of itself."""
    import borrow

    kind = getattr(borrow, estimator)
    known = kind().get_params()
    held = {k: v for k, v in given.settings.items() if k in known} | settings
    if "optimizer" in known:
        held["optimizer"] = None
    out: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder, warned(out):
        model = kind(**held).fit(**given.fit)
        path = borrow.store.save(model, Path(folder) / "model", {"note": "golden"})
        again = borrow.store.load(path)
        out["described"] = plain(borrow.store.describe(path))
        out["described"].pop("arrays", None)
        out["same bits"] = json.dumps(answers(model, given.ask)) == json.dumps(answers(again, given.ask))
    return out


def reported(kind: str) -> dict[str, Any]:
    """What a report says, and whether a page gives it back."""
    import borrow

    out: dict[str, Any] = {}
    methods = ["focused"] if kind == "regression" else ["pooled"]
    with warned(out), tempfile.TemporaryDirectory() as folder:
        found = borrow.compare(frame(kind), "y", "task", "alpha", methods, cv=2, leave_out=False, progress=False)
        summary = borrow.report.summary(found, table=frame(kind), command="borrow compare")
        page = Path(folder) / "page.html"
        borrow.report.write(page, summary)
        out["read back"] = borrow.report.read(page) == summary
    out["summary"] = plain(summary)
    return out


def shown_model() -> dict[str, Any]:
    """A report of a model alone."""
    import borrow

    given, out = problem("frame"), {}
    with warned(out):
        model = borrow.FocusedGPRegressor("where", "north", optimizer=None).fit(**given.fit)
        table = given.fit["X"].assign(y=given.fit["y"])
        attempt(out, "summary", lambda: borrow.report.summary(model=model, table=table, target="y"))
    return out


def command(folder: str, *words: str) -> dict[str, Any]:
    """`borrow` with these words: exit status, what is printed, and what is told beside it."""
    from borrow.cli import main

    out, err, code = io.StringIO(), io.StringIO(), 0
    before, here, columns = sys.argv, os.getcwd(), os.environ.get("COLUMNS")
    sys.argv, os.environ["COLUMNS"] = ["borrow", *words], "100"
    os.chdir(folder)
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            main()
    except SystemExit as left:
        code = left.code if isinstance(left.code, int) else int(left.code is not None)
    finally:
        sys.argv = before
        os.chdir(here)
        os.environ.pop("COLUMNS") if columns is None else os.environ.update(COLUMNS=columns)
    text, told = (masked(s.getvalue(), folder) for s in (out, err))
    shown: Any = text.splitlines()
    if "--only" in words:  # predictions as CSV: figures, compared as such
        shown = [[v if k == 0 else float(v) for v in line.split(",")] for k, line in enumerate(shown)]
    if "--json" in words and code == 0:
        shown = plain(json.loads(out.getvalue().replace(folder, "FOLDER")))
    return {"code": code, "out": shown, "err": told.splitlines()}


def masked(text: str, folder: str) -> str:
    """Text without times, sizes and places that differ from run to run."""
    text = text.replace(folder, "FOLDER")
    return re.sub(r" *\d[\d,.]* (s|min|ms|kB|KB|MB|bytes)\b", r" # \1", text)


def command_line() -> dict[str, Any]:
    """Every command, in the order of a session, with what it answers as JSON; a few in words."""
    X = [[f"{v!r}" for v in row] for row in asked(2).tolist()]
    common = ("data.csv", "--target", "y", "--task", "task", "--primary", "alpha")
    calls: dict[str, tuple[str, ...]] = {
        "version": ("--version",),
        "info table": ("info", "data.csv", "--json"),
        "info table, words": ("info", "data.csv"),
        "compare": ("compare", *common, "-m", "focused", "--folds", "2", "--store", "run.jsonl", "--json"),
        "compare, words": ("compare", *common, "-m", "focused", "--folds", "2", "--store", "run.jsonl"),
        "compare quick": ("compare", *common, "-m", "pooled", "--quick", "--json"),
        "fit": ("fit", *common, "-m", "focused", "--save", "model.borrow", "--json"),
        "fit labels": ("fit", "labels.csv", *common[1:], "-m", "pooled", "--save", "labels.borrow", "--json"),
        "info model": ("info", "model.borrow", "--json"),
        "info model, words": ("info", "model.borrow"),
        "info run": ("info", "run.jsonl", "--json"),
        "predict": ("predict", "model.borrow", "new.csv", "--json"),
        "predict, CSV": ("predict", "model.borrow", "new.csv", "--only", "--function", "--level", "0.5"),
        "predict labels": ("predict", "labels.borrow", "new.csv", "--json"),
        "suggest": ("suggest", "model.borrow", "new.csv", "--n", "2", "--json"),
        "suggest, cost": ("suggest", "model.borrow", "new.csv", "-n", "2", "--cost", "alpha=2", "--cost", "beta=1"),
        "report": ("report", "run.jsonl", "--output", "page.html", "--json"),
        "wrong target": ("compare", "data.csv", "--target", "yy", "--task", "task"),
        "wrong task": ("fit", *common[:-1], "alpa"),
        "no file": ("info", "nothing.csv"),
    }
    with tempfile.TemporaryDirectory() as folder:
        for name, kind in (("data", "regression"), ("labels", "classification")):
            table = frame(kind)
            lines = [",".join(table), *(",".join(map(str, row)) for row in zip(*table.values(), strict=True))]
            (Path(folder) / f"{name}.csv").write_text("\n".join(lines) + "\n")
        lines = ["a,b,task", *(",".join([*x, t]) for x in X for t in ("alpha", "beta"))]
        (Path(folder) / "new.csv").write_text("\n".join(lines) + "\n")
        return {name: command(folder, *words) for name, words in calls.items()}


def transfer_cases() -> Iterator[Case]:
    """Comparisons, suggestions, storage, reports and commands."""
    plan = ["pooled", "symmetric", "focused"]
    yield Case("compare/regression", lambda: compared("regression", plan, cv=3))
    yield Case(
        "compare/classification", lambda: compared("classification", ["pooled", "focused"], cv=2, leave_out=False)
    )
    yield Case("compare/left out", lambda: compared("regression", ["ivm"], cv=2, leave_out=True, scoring="rmse"))
    yield Case("quick_look", looked)
    costs = {0: 2.0, 1: 1.0, 2: 0.5}
    for estimator, settings, more in (
        ("FocusedGPRegressor", {"primary": 0, "optimizer": None}, {"cost": costs}),
        ("MultiTaskGPRegressor", {"optimizer": None}, {"primary": 0}),
        ("HierarchicalGPRegressor", {"optimizer": None, "covariance_strength": 1.0, "noise": 0.05}, {"primary": 1}),
        ("PooledGPRegressor", {"optimizer": None}, {"primary": 0}),
        ("MultiTaskIVMRegressor", {"optimizer": None, "n_active": 10}, {"primary": 0}),
        ("MultiTaskRBFRegressor", {"n_basis": 4}, {}),
    ):
        call = lambda e=estimator, s=settings, m=more: suggested(e, s, m)  # noqa: E731
        yield Case(f"suggest/{estimator}/fixed", call, True, True, {"sd": problem("unequal").sd, "rows": 22.0})
    yield Case("AutoRegressor", lambda: automatic("AutoRegressor", problem("unequal"), ["focused", "pooled"]))
    yield Case("AutoRegressor/one task", lambda: automatic("AutoRegressor", problem("one task"), ["focused"]))
    yield Case("AutoClassifier", lambda: automatic("AutoClassifier", labelled("two classes"), ["pooled"]))
    for estimator in REGRESSORS:
        name = "frame" if estimator == "FocusedGPRegressor" else "unequal"
        given, small = problem(name), SMALL.get(estimator, {})
        yield Case(f"store/{estimator}/fixed", lambda e=estimator, g=given, s=small: stored(e, g, **s), True, True)
    for estimator in CLASSIFIERS:
        given, small = labelled("two classes"), SMALL.get(estimator, {})
        fixed = estimator not in UNSEARCHED
        yield Case(f"store/{estimator}", lambda e=estimator, g=given, s=small: stored(e, g, **s), fixed, fixed)
    yield Case("report/regression", lambda: reported("regression"))
    yield Case("report/classification", lambda: reported("classification"))
    yield Case("report/model/fixed", shown_model, True, True)
    yield Case("refusals", refusals, True, True)
    yield Case("command line", command_line, quick=True)


def all_cases() -> list[Case]:
    """In the order of the record."""
    return [*model_cases(), *variant_cases(), *transfer_cases()]
