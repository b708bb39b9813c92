"""Random tables for every estimator: what must hold of every answer, and what must not change with how a table is told.

A case is a number: the same number draws the same table, estimator and question. `Case.shrunk` looks for fewer rows
that fail too.
"""

import traceback
import warnings
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import pandas as pd
import polars as pl
from sklearn.exceptions import ConvergenceWarning, DataConversionWarning

import borrow
from borrow.estimators import registry

#: Warnings that a fit may give; a RuntimeWarning is a computation that went wrong.
MEANT = (ConvergenceWarning, DataConversionWarning)


def names():
    """Every estimator of the registry."""
    assert borrow.__all__  # loads them
    return sorted(entry.name for entry in registry.entries())


@dataclass(frozen=True)
class Drawn:
    """A table."""

    X: np.ndarray
    y: np.ndarray
    tasks: np.ndarray
    weight: np.ndarray | None = None

    def take(self, rows):
        weight = None if self.weight is None else self.weight[rows]
        return Drawn(self.X[rows], self.y[rows], self.tasks[rows], weight)


# Drawing. -------------------------------------------------------------------------------------------------------------

COLUMNS = {
    "uniform": lambda rng, n: rng.uniform(-2.0, 2.0, n),
    "heavy tails": lambda rng, n: rng.standard_t(2.0, n),
    "whole numbers": lambda rng, n: rng.integers(-3, 4, n).astype(float),
    "two values": lambda rng, n: rng.integers(0, 2, n).astype(float),
    "constant": lambda rng, n: np.full(n, rng.normal()),
    "far from zero": lambda rng, n: 1e7 + rng.uniform(0.0, 1.0, n),
    "tiny": lambda rng, n: 1e-9 * rng.normal(size=n),
    "huge": lambda rng, n: 1e12 * rng.normal(size=n),
    "orders of magnitude": lambda rng, n: 10.0 ** rng.uniform(-6.0, 6.0, n),
    "one far away": lambda rng, n: np.where(np.arange(n) == 0, 1e6, rng.normal(size=n)),
}
TARGETS = {
    "smooth": lambda rng, f: f + 0.1 * rng.normal(size=len(f)),
    "exact": lambda rng, f: f,
    "noise": lambda rng, f: rng.normal(size=len(f)),
    "constant": lambda rng, f: np.full(len(f), rng.choice([0.0, 3.0, -1e6])),
    "nearly constant": lambda rng, f: 1e6 + 1e-5 * rng.normal(size=len(f)),
    "one far away": lambda rng, f: f + 1e5 * (np.arange(len(f)) == 0),
    "huge": lambda rng, f: 1e12 * f,
    "tiny": lambda rng, f: 1e-12 * f,
    "few values": lambda rng, f: np.round(f),
}


def draw(rng, kind="any"):
    """A table of one to forty rows; `kind="plain"` has no strange columns and no missing targets."""
    plain = kind == "plain"
    n, d, M = (
        int(rng.integers(12, 30) if plain else rng.integers(1, 41)),
        int(rng.integers(1, 4)),
        int(rng.integers(1, 5)),
    )
    chosen = ["uniform"] * d if plain else rng.choice(list(COLUMNS), d, p=[0.4, *[0.6 / 9] * 9])
    X = np.column_stack([COLUMNS[c](rng, n) for c in chosen])
    if not plain and rng.random() < 0.2:
        X = X[rng.integers(0, n, n)]  # repeated rows
    if not plain and rng.random() < 0.1:
        X = np.column_stack([X, X[:, 0]])  # the same column twice
    tasks = rng.integers(0, M, n) if rng.random() < 0.5 else np.minimum(rng.geometric(0.5, n) - 1, M - 1)
    inside = np.sin(X[:, 0] / (np.std(X[:, 0]) or 1.0)) + 0.3 * tasks
    y = TARGETS["smooth" if plain else rng.choice(list(TARGETS))](rng, inside)
    if not plain and rng.random() < 0.2 and n > 3:
        y = np.where(rng.random(n) < 0.3, np.nan, y)
    weight = None
    if not plain and rng.random() < 0.15:
        weight = rng.integers(1, 4, n).astype(float) if rng.random() < 0.5 else 10.0 ** rng.uniform(-9.0, 9.0, n)
    return Drawn(X, y, np.array([f"t{k}" for k in tasks]), weight)


def make(name, table, max_iter=8):
    """An estimator for this table, with few iterations."""
    kind = getattr(borrow, name)
    seen = table.tasks[np.isfinite(table.y)]
    primary = seen[0] if len(seen) else table.tasks[0]
    given = {"primary": primary, "cv": 2, "methods": "pooled", "max_iter": max_iter, "n_restarts": 0}
    return kind(**{k: v for k, v in given.items() if k in kind._get_param_names() and v is not None})


def labels_of(table):
    """Targets as two classes, None where there is none."""
    middle = np.nanmedian(table.y) if np.isfinite(table.y).any() else 0.0
    return np.array([None if np.isnan(v) else "high" if v > middle else "low" for v in table.y], dtype=object)


def is_classifier(name):
    return name.endswith("Classifier")


def fit(name, table, max_iter=8):
    """The fitted estimator; None where the table is refused with a sentence."""
    model = make(name, table, max_iter)
    given = {"sample_weight": table.weight} if table.weight is not None and takes_weights(name) else {}
    y = labels_of(table) if is_classifier(name) else table.y
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            model.fit(table.X, y, tasks=table.tasks, **given)
        except (ValueError, TypeError, MemoryError) as refused:
            if is_sentence(refused):
                return None
            raise
    odd = [w for w in caught if not issubclass(w.category, MEANT) and w.category is not UserWarning]
    assert not odd, f"fit warned {odd[0].category.__name__}: {odd[0].message} at {odd[0].filename}:{odd[0].lineno}"
    return model


def takes_weights(name):
    return name.endswith("Regressor") and not name.startswith(("Auto", "Hierarchical"))


def is_sentence(error):
    """Raised on purpose: by this package or by scikit-learn's checks, and no failure of linear algebra."""
    last = traceback.extract_tb(error.__traceback__)[-1].filename
    text = str(error)
    meant = "/borrow/" in last.replace("\\", "/") or "validation" in last or "multiclass" in last
    return (
        meant and not isinstance(error, np.linalg.LinAlgError) and " " in text and "NaN or infinite entries" not in text
    )


def describe(error):
    last = traceback.extract_tb(error.__traceback__)[-1]
    return f"{type(error).__name__}: {error} at {last.filename.rpartition('/')[2]}:{last.lineno}"


def primary_of(model):
    return getattr(model, "primary_", None) if type(model).__name__.startswith("Auto") else None


def answer(name, model, X, tasks):
    """Means and deviations with noise, or probabilities; of the rows that the model can be asked for."""
    only = primary_of(model)
    if only is not None:
        tasks = np.full(len(X), only)
    if is_classifier(name):
        ask = getattr(model, "predict_proba", None) or model.decision_function
        return np.asarray(ask(X, tasks=tasks), dtype=float)
    return np.stack(model.predict(X, tasks=tasks, return_std=True, include_noise=True))


# What must hold. ------------------------------------------------------------------------------------------------------


def check_answers(name, table, rng):
    """A fit is refused in a sentence, or its answers are numbers: deviations positive, probabilities shares of one."""
    model = fit(name, table)
    if model is None:
        return
    spread = table.X.std(axis=0) + 1e-12 * np.abs(table.X).max(axis=0)
    new = table.X + spread * rng.normal(size=table.X.shape)
    for X in (table.X, new, table.X + 100.0 * spread):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            warnings.simplefilter("error", RuntimeWarning)
            found = answer(name, model, X, table.tasks)
        assert np.isfinite(found).all(), f"{(~np.isfinite(found)).sum()} answers are no numbers"
        if is_classifier(name) and hasattr(model, "predict_proba"):
            assert ((found >= 0.0) & (found <= 1.0)).all()
            np.testing.assert_allclose(found.sum(axis=1), 1.0, atol=1e-9)
        elif not is_classifier(name):
            assert (found[1] > 0.0).all(), f"a deviation with noise is {found[1].min()}"
    if not is_classifier(name):
        only = primary_of(model)
        tasks = table.tasks if only is None else np.full(len(new), only)
        std = model.predict(new, tasks=tasks, return_std=True)[1]
        constant = spread <= 1e-9 * np.abs(table.X).max(axis=0)
        assert (std >= 0.0).all()
        assert constant.all() or (std > 0.0).all(), "a deviation of the function away from the data is zero"


def check_again(name, table, rng):
    """The same call gives the same bits, and so does any order of the rows; data that come as frames too."""
    one, order = fit(name, table), rng.permutation(len(table.y))
    if one is None:
        return
    found = answer(name, one, table.X, table.tasks)
    again = fit(name, table)
    np.testing.assert_array_equal(answer(name, again, table.X, table.tasks), found)
    if make(name, table.take(order)).get_params().get("primary") == make(name, table).get_params().get("primary"):
        np.testing.assert_array_equal(answer(name, fit(name, table.take(order)), table.X, table.tasks), found)
    columns = [f"c{j}" for j in range(table.X.shape[1])]
    frame = rng.choice([pd.DataFrame, pl.DataFrame])
    X = frame(dict(zip(columns, table.X.T, strict=True)))
    told = replace(table, X=X)
    np.testing.assert_array_equal(answer(name, fit(name, told), X, table.tasks), found)


# What must not change. ------------------------------------------------------------------------------------------------


def same(found, expected, scale, what):
    gap = np.abs(found - expected).max() / scale
    assert gap < 2e-2, f"{what} changed the answer by {gap:.3g} of its spread"


def _means(name, model, X, tasks):
    only = primary_of(model)
    tasks = tasks if only is None else np.full(len(X), only)
    if is_classifier(name):
        return answer(name, model, X, tasks)
    return model.predict(X, tasks=tasks)


def check_retold(name, table, rng, way=None):
    """Other names of tasks, another order of columns, other units: the answers stay."""
    way = way or rng.choice(["units of y", "units of X", "names", "order of columns", "classes", "repeats"])
    model = fit(name, table, 200)
    if model is None:
        return
    X, told = table.X, table
    turn = partial(np.asarray)
    if way == "units of y" and not is_classifier(name):
        told, turn = replace(table, y=1e3 * table.y - 7.0), lambda m: (m + 7.0) / 1e3
    elif way == "units of X":
        X = X * 10.0 ** rng.integers(-3, 4, X.shape[1])
        told = replace(table, X=X)
    elif way == "names":
        told = replace(table, tasks=np.array([f"name of {t}" for t in table.tasks]))
    elif way == "order of columns":
        X = X[:, ::-1]
        told = replace(table, X=X)
    elif way == "repeats" and takes_weights(name):
        twice = np.repeat(np.arange(len(table.y)), 2)
        model = fit(name, replace(table, weight=np.full(len(table.y), 2.0)), 200)
        told = table.take(twice)
    other = fit(name, told, 200)
    assert other is not None, f"{way}: refused"
    tasks = np.array([f"name of {t}" for t in table.tasks]) if way == "names" else table.tasks
    expected = _means(name, model, table.X, table.tasks)
    scale = 1.0 if is_classifier(name) else np.nanstd(table.y) or 1.0
    same(turn(_means(name, other, X, tasks)), expected, scale, way)


# Labels and columns that look alike. ----------------------------------------------------------------------------------

ALIKE = (
    (1, "1"), (1.5, "1.5"), (-1, -2), (0, 2**61 - 1), ("é", "e\u0301"), ("a", "a\u200b"), ("nan", "NaN"), ("", "0"),
    ("a", "A"), (("a", 1), "('a', 1)"), (2**53, 2**53 + 1), (0, "False"), ("1", "1.0"), (10**20, str(10**20)),
)  # fmt: skip


def check_alike(name, table, rng):
    """Two tasks whose labels have one hash, one text or one look stay two, in the model, its file and a wide y."""
    one, other = ALIKE[rng.integers(len(ALIKE))]
    labels = [(one, other)[i % 2] for i in range(12)]
    x = np.repeat(np.linspace(0.0, 5.0, 6), 2)[:, None]
    level = np.array([5.0, -5.0] * 6) + 0.01 * np.sin(x[:, 0])
    kind = getattr(borrow, name)
    given = {"primary": one, "optimizer": None, "cv": 2, "methods": "pooled", "max_iter": 5}
    model = kind(**{k: v for k, v in given.items() if k in kind._get_param_names()})
    y = np.where(level > 0, "up", "down") if is_classifier(name) else level
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(x, y, tasks=labels)
    assert len(model.tasks_) == 2
    assert {type(v) for v in model.fitted_.schema.labels} == {type(one), type(other)}
    if primary_of(model) is None and not name.startswith("Pooled"):
        first, second = (np.asarray(_means(name, model, x[:2], [v, v]), dtype=float) for v in (one, other))
        assert np.abs(first - second).max() > 0.05, f"{one!r} and {other!r} have one answer"


QUESTIONS = {"answers": check_answers, "again": check_again, "retold": check_retold, "alike": check_alike}


@dataclass(frozen=True)
class Case:
    """One question to one estimator about one table, by a number."""

    question: str
    number: int
    rows: tuple[int, ...] | None = None  # of the table, all if None

    def drawn(self):
        rng = np.random.default_rng(self.number)
        every = [n for n in names() if not (self.question in ("retold", "again") and n.startswith("Auto"))]
        name = every[self.number % len(every)]
        table = draw(rng, "plain" if self.question == "retold" else "any")
        return name, table if self.rows is None else table.take(np.array(self.rows)), rng

    def failure(self):
        """What went wrong, if anything did."""
        name, table, rng = self.drawn()
        try:
            QUESTIONS[self.question](name, table, rng)
        except AssertionError as wrong:
            return f"{name}: {' '.join(str(wrong).split())[:400]}"
        except Exception as wrong:
            return f"{name}: {describe(wrong)[:400]}"
        return None

    def shrunk(self, tries=40):
        """The same with fewer rows, as long as something fails."""
        best, rows = self, list(range(len(self.drawn()[1].y)))
        size = len(rows) // 2
        while size >= 1 and tries > 0:
            for start in range(0, len(rows), size):
                fewer = rows[:start] + rows[start + size :]
                tries -= 1
                if fewer and replace(self, rows=tuple(fewer)).failure():
                    rows, best = fewer, replace(self, rows=tuple(fewer))
                    break
            else:
                size //= 2
        return best
