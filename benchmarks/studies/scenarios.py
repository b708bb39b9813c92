"""The scenarios on which defaults are judged, written down before any default was changed.

Each draws a training table and test rows from real data, or from a generator, by a seed. In a *focused* scenario one
task is the primary, with few rows, and the test rows are its own; in a *many tasks* scenario all tasks count alike and
the test rows are of all of them. `shuffled` permutes the targets within each secondary: a gain that is left then does
not come from what tasks have in common.

No default may be chosen on a scenario that confirms it: `CHOICE` names those that may choose, all others confirm.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from borrow.datasets import load_compiler, load_eeg, load_jura, load_polybench, load_school, load_spear
from borrow.datasets.shared_data import read_columns

REPETITIONS = 10


@dataclass(frozen=True)
class Draw:
    """A table to learn from, and rows to be asked for."""

    kind: str  # "regression" or "classification"
    X: Any
    y: Any
    task: Any
    primary: Any  # None where all tasks count alike
    X_test: Any
    y_test: Any
    task_test: Any

    def shuffled(self, seed: int) -> Draw:
        """The same with the targets of every secondary in another order."""
        rng, y = np.random.default_rng([seed, 991]), self.y.copy()
        for t in sorted(set(self.task.tolist()) - {self.primary}):
            at = np.flatnonzero(self.task == t)
            y[at] = y[rng.permutation(at)]
        return replace(self, y=y)


def smooth(
    rng: np.random.Generator, columns: list[int], lengthscale: float = 1.5, waves: int = 60
) -> Callable[[Any], Any]:
    """A smooth random function of some columns: a sum of cosines with Gaussian frequencies."""
    W = rng.normal(size=(waves, len(columns))) / lengthscale
    phase, size = rng.uniform(0, 2 * np.pi, waves), rng.normal(size=waves) * np.sqrt(2.0 / waves)
    return lambda X: np.cos(X[:, columns] @ W.T + phase) @ size


def hijack(mix: float) -> Callable[[int], Draw]:
    """Twelve columns; the primary needs three, each secondary a pair of others and `mix` of the primary's function."""

    def draw(seed: int) -> Draw:
        rng = np.random.default_rng([seed, 12])
        f = smooth(rng, [0, 1, 2])
        X, y, task = [rng.normal(size=(30, 12))], [], ["primary"] * 30
        y.append(f(X[0]) + 0.05 * rng.normal(size=30))
        for k in range(4):
            own = smooth(rng, [3 + 2 * k, 4 + 2 * k])
            X.append(rng.normal(size=(80, 12)))
            y.append(own(X[-1]) + mix * f(X[-1]) + 0.05 * rng.normal(size=80))
            task += [f"s{k}"] * 80
        new = rng.normal(size=(1000, 12))
        return focused("regression", np.vstack(X), np.concatenate(y), np.array(task), "primary", new, f(new))

    return draw


def focused(kind: str, X: Any, y: Any, task: Any, primary: Any, X_test: Any, y_test: Any) -> Draw:
    """A draw whose test rows are the primary's."""
    return Draw(kind, X, y, task, primary, X_test, y_test, np.array([primary] * len(X_test)))


def responses(load: Callable[[], Any], rows: int, others: int, log: bool) -> Callable[[int], Draw]:
    """One program or environment with few settings measured, the others with more; each in turn is the primary."""

    def draw(seed: int) -> Draw:
        data, rng = load(), np.random.default_rng([seed, 7])
        X, Y = np.asarray(data.X, dtype=float), np.log(np.maximum(data.Y, 1e-3)) if log else np.asarray(data.Y)
        tasks = list(data.tasks)
        p = seed % len(tasks)
        secondaries = rng.permutation(np.delete(np.arange(len(tasks)), p))[:10]
        chosen = [(p, rng.choice(len(X), rows, replace=False))]
        chosen += [(t, rng.choice(len(X), others, replace=False)) for t in secondaries]
        test = rng.permutation(np.setdiff1d(np.arange(len(X)), chosen[0][1]))[:1000]
        return focused(
            "regression",
            np.vstack([X[at] for _, at in chosen]),
            np.concatenate([Y[at, t] for t, at in chosen]),
            np.concatenate([[tasks[t]] * len(at) for t, at in chosen]),
            tasks[p],
            X[test],
            Y[test, p],
        )

    return draw


@dataclass(frozen=True)
class _Speedups:
    X: Any
    Y: Any
    tasks: Any


def compiler() -> Any:
    """The compiler data as settings by programs."""
    data = load_compiler()
    return _Speedups(data.X, data.speedup, data.programs)


def jura(metal: str, rows: int) -> Callable[[int], Draw]:
    """A metal at few places, two others at all 259; the literature's 100 places are asked for."""

    def draw(seed: int) -> Draw:
        data, rng = load_jura(), np.random.default_rng([seed, 5])
        known = np.flatnonzero(~data.validation)
        few = rng.choice(known, rows, replace=False)
        parts = [(metal, few), *((m, known) for m in ("Ni", "Zn") if m != metal)]
        return focused(
            "regression",
            np.vstack([data.X[at] for _, at in parts]),
            np.concatenate([np.log(data.metals[m][at]) for m, at in parts]),
            np.concatenate([[m] * len(at) for m, at in parts]),
            metal,
            data.X[data.validation],
            np.log(data.metals[metal][data.validation]),
        )

    return draw


def school(rows: int, schools: int) -> Callable[[int], Draw]:
    """A school of which few students are known, and others of which thirty are."""

    def draw(seed: int) -> Draw:
        data, rng = load_school(), np.random.default_rng([seed, 139])
        large = [s for s in np.unique(data.school) if np.sum(data.school == s) >= 100]
        primary, *others = rng.choice(large, schools + 1, replace=False).tolist()
        mine = rng.permutation(np.flatnonzero(data.school == primary))
        at = [mine[:rows], *(rng.permutation(np.flatnonzero(data.school == s))[:30] for s in others)]
        at = np.concatenate(at)
        label = np.char.add("school ", data.school.astype(str))
        test = mine[rows:]
        return focused(
            "regression", data.X[at], data.score[at], label[at], label[mine[0]], data.X[test], data.score[test]
        )

    return draw


def eeg(rows: int, others: int) -> Callable[[int], Draw]:
    """Which of two pictures was seen; few early trials of the primary, early ones of others; late ones asked for."""

    def draw(seed: int) -> Draw:
        data, rng = load_eeg(), np.random.default_rng([seed, 61])
        label = (data.condition == "S1_obj").astype(int)
        subjects = np.unique(data.subject)
        primary = subjects[seed % len(subjects)]
        at = []
        for s in subjects:
            early = rng.permutation(np.flatnonzero((data.subject == s) & data.early))
            at.append(early[: rows if s == primary else others])
        at = np.concatenate(at)
        test = np.flatnonzero((data.subject == primary) & ~data.early)
        return focused("classification", data.X[at], label[at], data.subject[at], primary, data.X[test], label[test])

    return draw


def air(gap: bool, rows: int = 30, hours: int = 240) -> Callable[[int], Draw]:
    """A dear analyser with few hours, five cheap sensors with all; inputs are time, hour of day and weather.

    Ten days from a random start; with a gap the analyser's known hours lie in the first half, the second is asked for.
    """

    def draw(seed: int) -> Draw:
        table, rng = read_columns("air_quality/air_quality.csv.gz"), np.random.default_rng([seed, 2004])
        column = {
            n: np.where(table[n].astype(float) == -200.0, np.nan, table[n].astype(float)) for n in list(table)[2:]
        }
        names = ["CO(GT)", "NOx(GT)", "NO2(GT)"]
        primary, sensors = names[seed % 3], [n for n in column if n.startswith("PT08")]
        weather = np.column_stack([column["T"], column["RH"], column["AH"]])
        good = np.isfinite(column[primary]) & np.isfinite(weather).all(axis=1)
        while True:
            start = int(rng.integers(0, len(good) - hours))
            here = np.arange(start, start + hours)[good[start : start + hours]]
            if len(here) >= 0.8 * hours:
                break
        hour = np.array([int(t[:2]) for t in table["Time"]])
        day = np.arange(len(good)) / 24.0
        X = np.column_stack([day - day[start], np.sin(hour * np.pi / 12), np.cos(hour * np.pi / 12), weather])
        pool = here[: len(here) // 2] if gap else here
        known = rng.choice(pool, rows, replace=False)
        test = np.setdiff1d(here[len(here) // 2 :] if gap else here, known)
        parts = [(primary, known), *((s, here[np.isfinite(column[s][here])]) for s in sensors)]
        return focused(
            "regression",
            np.vstack([X[at] for _, at in parts]),
            np.concatenate([np.log1p(column[n][at]) for n, at in parts]),
            np.concatenate([[n] * len(at) for n, at in parts]),
            primary,
            X[test],
            np.log1p(column[primary][test]),
        )

    return draw


def landmine(rows: int) -> Callable[[int], Draw]:
    """Nineteen fields of two kinds of ground, so many rows of each; the other rows of all fields are asked for."""

    def draw(seed: int) -> Draw:
        table, rng = read_columns("landmine/landmine.csv.gz"), np.random.default_rng([seed, 19])
        X = np.column_stack([table[f"x{j}"].astype(float) for j in range(9)])
        fields = [f"f{k:02d}" for k in (*range(1, 11), *range(16, 25))]
        train, test = [], []
        for f in fields:
            at = rng.permutation(np.flatnonzero(table["field"] == f))
            train.append(at[:rows])
            test.append(at[rows:])
        a, b = np.concatenate(train), np.concatenate(test)
        y = table["y"].astype(int)
        return Draw("classification", X[a], y[a], table["field"][a], None, X[b], y[b], table["field"][b])

    return draw


def computers(ratings: int) -> Callable[[int], Draw]:
    """So many ratings of each of 190 persons; their other ratings are asked for."""

    def draw(seed: int) -> Draw:
        table, rng = read_columns("computers/ratings.csv.gz"), np.random.default_rng([seed, 190])
        X = np.column_stack([table[n].astype(float) for n in list(table)[1:-1]])
        y, person = table["rating"].astype(float), table["person"]
        known = np.zeros(len(y), dtype=bool)
        for p in np.unique(person):
            known[rng.choice(np.flatnonzero(person == p), ratings, replace=False)] = True
        return Draw("regression", X[known], y[known], person[known], None, X[~known], y[~known], person[~known])

    return draw


Maker = Callable[[np.random.Generator], Callable[[Any], Any]]


def bends(rng: np.random.Generator) -> Callable[[Any], Any]:
    """A smooth function of two columns."""
    return smooth(rng, [0, 1])


def line(rng: np.random.Generator) -> Callable[[Any], Any]:
    """A linear function of eight columns."""
    w = rng.normal(size=8) / np.sqrt(8.0)
    return lambda X: X[:, :8] @ w


def steps(rng: np.random.Generator) -> Callable[[Any], Any]:
    """Two steps, one of them in a corner of two columns."""
    c = 0.5 * rng.normal(size=3)
    return lambda X: (X[:, 0] > c[0]) + 1.5 * (X[:, 1] > c[1]) * (X[:, 2] > c[2])


def stress(function: Maker, rows: int, others: int, columns: int = 8, outliers: float = 0.0) -> Callable[[int], Draw]:
    """A drawn function; three secondaries have 0.8 of it and 0.4 of another of its kind, in units of their own.

    Noise has the deviation 0.2, and in a share of the rows of all tasks 5.
    """

    def draw(seed: int) -> Draw:
        rng = np.random.default_rng([seed, 3])
        f, X, y, task = function(rng), [], [], []
        for t, n in enumerate([rows, others, others, others]):
            own, x = function(rng), rng.normal(size=(n, columns))
            value = f(x) if t == 0 else 0.8 * f(x) + 0.4 * own(x)
            noise = np.where(rng.random(n) < outliers, 5.0, 0.2) * rng.normal(size=n)
            X.append(x)
            y.append(10.0 * t + (1.0 + t) * (value + noise))
            task += [f"s{t}" if t else "primary"] * n
        new = rng.normal(size=(600, columns))
        return focused("regression", np.vstack(X), np.concatenate(y), np.array(task), "primary", new, f(new))

    return draw


#: By name; each takes a seed and returns a `Draw`.
SCENARIOS: dict[str, Callable[[int], Draw]] = {
    "hijack, mix 0": hijack(0.0),
    "hijack, mix 0.6": hijack(0.6),
    "SPEAR, 16 rows": responses(load_spear, 16, 64, log=True),
    "SPEAR, 32 rows": responses(load_spear, 32, 64, log=True),
    "PolyBench, 16 rows": responses(load_polybench, 16, 64, log=False),
    "compiler, 16 rows": responses(compiler, 16, 64, log=False),
    "compiler, 64 rows": responses(compiler, 64, 64, log=False),
    "jura, Cd at 30 places": jura("Cd", 30),
    "jura, Cd at 100 places": jura("Cd", 100),
    "school, 10 students": school(10, 8),
    "school, 30 students": school(30, 8),
    "air quality, random hours": air(gap=False),
    "air quality, gap": air(gap=True),
    "EEG, 14 trials": eeg(14, 20),
    "EEG, all trials": eeg(40, 40),
    "landmine, 19 x 20": landmine(20),
    "landmine, 19 x 80": landmine(80),
    "computers, 8 ratings": computers(8),
}
#: Scenarios on which a default may be chosen; the others confirm it.
CHOICE = {
    "hijack, mix 0",
    "hijack, mix 0.6",
    "compiler, 16 rows",
    "jura, Cd at 30 places",
    "EEG, 14 trials",
    "landmine, 19 x 20",
}
#: Functions drawn to find out where a method breaks; they choose nothing, and stand apart from the scenarios.
STRESS: dict[str, Callable[[int], Draw]] = {
    "drawn, smooth": stress(bends, 20, 60),
    "drawn, linear": stress(line, 15, 60),
    "drawn, steps": stress(steps, 25, 80),
    "drawn, outliers": stress(bends, 20, 60, outliers=0.05),
    "drawn, 30 columns": stress(bends, 20, 60, columns=30),
    "drawn, 8 rows beside 900": stress(bends, 8, 300),
}
