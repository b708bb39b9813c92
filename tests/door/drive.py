"""Drive five tables as people have them through every command and through Python; print what passed.

    make door                          in an environment of its own that holds `borrow[app]` and nothing else
    python tests/door/drive.py [NAME]  in this one; a name runs one table

Small draws: a few minutes on a slow core. What is checked of each step: it ends well, says what it should, and its
predictions are finite and better than the mean, or than the most frequent class.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

import borrow

PROGRAM = [sys.executable, "-c", "from borrow.cli import main; main(prog_name='borrow')"]


@dataclass(frozen=True)
class Door:
    """A table, and how it is asked about."""

    name: str
    make: Callable[[np.random.Generator], pl.DataFrame]
    target: str
    primary: str
    task: str | None = None  # None for a wide table, whose targets stand in `target` with commas between
    options: tuple[str, ...] = ()  # of compare and fit
    methods: tuple[str, ...] = ("pooled", "focused")
    encoded: tuple[str, ...] = field(default=())  # columns that must be announced

    @property
    def roles(self) -> list[str]:
        """The options that say what is predicted."""
        return ["--targets", self.target] if self.task is None else ["--target", self.target, "--task", self.task]


def hospitals(rng: np.random.Generator) -> pl.DataFrame:
    """Stays in four hospitals: text, dates, gaps, an identifier."""
    n = 96
    ward, age = rng.choice(["heart", "lung", "bone"], n), rng.normal(60.0, 12.0, n).round()
    day = np.datetime64("2021-01-04") + rng.integers(0, 900, n)
    season = np.cos(2 * np.pi * (day - np.datetime64("2021-01-01")).astype(int) / 365.25)
    hospital = np.array(["North", "South", "East", "West"])[np.arange(n) % 4]
    shift = {"North": 0.0, "South": 0.5, "East": -0.5, "West": 1.0}
    y = 4 + 2 * (ward == "bone") + season + age / 30 + [shift[h] for h in hospital] + 0.3 * rng.normal(size=n)
    gap = rng.random(n) < 0.12
    return pl.DataFrame(
        {
            "patient": [f"P{i:04d}" for i in range(n)],
            "hospital": hospital,
            "ward": [None if g else w for g, w in zip(rng.random(n) < 0.05, ward.tolist(), strict=True)],
            "sex": rng.choice(["f", "m"], n),
            "age": [None if g else a for g, a in zip(gap, age.tolist(), strict=True)],
            "admitted": [str(d) for d in day],
            "days": y.round(2),
        }
    )


def shops(rng: np.random.Generator) -> pl.DataFrame:
    """Forty shops, ten weeks each out of two years."""
    shop, week = np.repeat(np.arange(40), 10), np.concatenate([rng.permutation(104)[:10] for _ in range(40)])
    offer = rng.choice(["yes", "no"], 400, p=[0.3, 0.7])
    level = rng.normal(0.0, 0.3, 40)[shop]
    sales = 3 + level + 0.8 * np.sin(2 * np.pi * week / 52) + 0.5 * (offer == "yes") + 0.15 * rng.normal(size=400)
    day = [str(np.datetime64("2022-01-03") + 7 * int(w)) for w in week]
    return pl.DataFrame({"shop": [f"shop {k:02d}" for k in shop], "week": day, "offer": offer, "sales": sales.round(3)})


def answers(rng: np.random.Generator) -> pl.DataFrame:
    """Yes or no in five groups."""
    group, x = np.arange(120) % 5, rng.normal(size=(120, 2))
    score = 2.5 * x[:, 0] - x[:, 1] + 0.3 * group - 0.5
    said = np.where(score + rng.logistic(size=120) * 0.4 > 0, "yes", "no")
    columns = {
        "dose": x[:, 0].round(3),
        "weight": (70 + 10 * x[:, 1]).round(1),
        "clinic": [f"clinic {g}" for g in group],
    }
    return pl.DataFrame({**columns, "cured": said})


def sensors(rng: np.random.Generator) -> pl.DataFrame:
    """Four sensors side by side, the first of them broken for the second half."""
    hour = np.linspace(0.0, 12.0, 40)
    true = np.column_stack([np.sin(hour), np.sin(hour) + 0.3, 0.8 * np.sin(hour) + 0.1 * hour, np.cos(2 * hour)])
    seen = (true + 0.1 * rng.normal(size=true.shape)).round(3)
    table = pl.DataFrame({"hour": hour.round(2), **{f"s{k + 1}": seen[:, k] for k in range(4)}})
    return table.with_columns(s1=pl.when(pl.col("hour") < 6.0).then("s1"))


def classes(rng: np.random.Generator) -> pl.DataFrame:
    """Three classes that are written 1, 2 and 3, in three vineyards."""
    grade, where = rng.integers(1, 4, 75), np.arange(75) % 3
    sugar, acid = grade + 0.4 * rng.normal(size=75) + 0.2 * where, rng.normal(size=75)
    names = ["hill", "lake", "road"]
    columns = {"sugar": sugar.round(2), "acid": acid.round(2), "vineyard": [names[w] for w in where]}
    return pl.DataFrame({**columns, "grade": grade})


DOORS = [
    Door("hospitals", hospitals, "days", "North", "hospital", encoded=("ward", "sex", "age", "admitted")),
    Door("shops", shops, "sales", "shop 07", "shop", methods=("pooled", "ivm"), encoded=("week", "offer")),
    Door("answers", answers, "cured", "clinic 0", "clinic"),
    Door("sensors", sensors, "s1,s2,s3,s4", "s1"),
    Door("classes", classes, "grade", "hill", "vineyard", ("--labels",), ("pooled",)),
]


def run(folder: Path, *words: str, code: int = 0) -> subprocess.CompletedProcess[str]:
    """A command; it must end with this exit code."""
    done = subprocess.run([*PROGRAM, *words], cwd=folder, capture_output=True, text=True, timeout=900)
    assert done.returncode == code, (
        f"borrow {' '.join(words)}: exit code {done.returncode}\n{done.stderr or done.stdout}"
    )
    assert "Traceback" not in done.stderr, done.stderr
    return done


def check(door: Door, folder: Path, step: Callable[[str], None]) -> None:
    """Every command, then Python."""
    table = door.make(np.random.default_rng(0))
    table.write_csv(folder / "table.csv")
    targets = door.target.split(",")
    new = table.drop(targets).head(12)
    new.write_csv(folder / "new.csv")
    labels = door.name in ("answers", "classes")
    step("info")
    about = json.loads(run(folder, "info", "table.csv", "--json").stdout)
    assert about["rows"] == table.height
    assert [c["name"] for c in about["columns"]] == table.columns
    step("compare")
    asked = [*door.roles, "--primary", door.primary, *door.options]
    small = ["--methods", ",".join(door.methods), "--folds", "3"]
    told = json.loads(run(folder, "compare", "table.csv", *asked, *small, "--report", "page.html", "--json").stdout)
    assert told["verdicts"][0]["sentence"]
    page = (folder / "page.html").read_text()
    assert len(page) > 20_000
    assert door.primary in page
    if door.name == "classes":
        without = [w for w in asked if w != "--labels"]
        assert "--labels or --numbers" in run(folder, "compare", "table.csv", *without, code=2).stderr
    step("fit")
    words = run(folder, "fit", "table.csv", *asked, "--method", door.methods[-1], "--save", "model.borrow").stdout
    for column in door.encoded:
        assert f"Column {column!r}:" in words, words
    assert "Column" in run(folder, "info", "model.borrow").stdout or not door.encoded
    step("predict")
    chosen = [] if door.task is not None else ["--as", door.primary]
    run(folder, "predict", "model.borrow", "table.csv", "--output", "said.csv", "--prefix", "said_", *chosen)
    said = pl.read_csv(folder / "said.csv")
    assert said.height == table.height
    truth = said[targets[0]]
    if labels:
        right = (said["said_class"] == truth).mean()
        assert right > max(truth.value_counts()["count"]) / len(truth), f"{right:.2f} of the classes are right"
    else:
        known = said.filter(truth.is_not_null())
        errors = known["said_mean"] - known[targets[0]]
        assert errors.std() < 0.8 * known[targets[0]].std(), "the predictions are no better than the mean"
        assert said["said_mean"].null_count() == 0
        assert (said["said_std_measurement"] > said["said_std_function"]).all()
    step("suggest")
    if labels:
        assert "regressors of this package can" in run(folder, "suggest", "model.borrow", "new.csv", code=2).stderr
    else:
        given = ["--primary", door.primary, *chosen]
        rows = json.loads(run(folder, "suggest", "model.borrow", "new.csv", "-n", "2", "--json", *given).stdout)["rows"]
        assert len(rows) == 2
    if door.name == "hospitals":
        step("unseen")
        whole = [
            *door.roles,
            "--unseen",
            "population",
            "--methods",
            "ivm",
            "--save",
            "new.borrow",
            "--report",
            "new.html",
        ]
        answer = json.loads(run(folder, "compare", "table.csv", *whole, "--json").stdout)
        assert answer["primaries"] == ["a new hospital"]
        assert "over 4 tasks, each held out whole" in answer["verdicts"][0]["sentence"]
        new.with_columns(pl.lit("Centre").alias("hospital")).write_csv(folder / "elsewhere.csv")
        run(folder, "predict", "new.borrow", "elsewhere.csv", "--output", "there.csv")
        assert pl.read_csv(folder / "there.csv")["mean"].null_count() == 0
    step("Python")
    python(door, folder, table, told)


def python(door: Door, folder: Path, table: pl.DataFrame, told: dict[str, Any]) -> None:
    """The same by the library: the comparison of the command line, a model that chooses, stored and read again."""
    targets = door.target.split(",")
    kind = {"kind": "classification"} if "--labels" in door.options else {}
    roles: dict[str, Any] = {"targets": targets} if door.task is None else {"target": door.target, "task": door.task}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = borrow.compare(table, primary=door.primary, methods=list(door.methods), cv=(3, 1), **roles, **kind)
        assert found.table()["error"] == [r["error"] for r in told["table"]], "the library and the command disagree"
        classifier = found.kind == "classification"
        automatic = borrow.AutoClassifier if classifier else borrow.AutoRegressor
        model = automatic(door.task, door.primary, [door.methods[0]], cv=2)
        y = table.select(targets) if door.task is None else table[door.target]
        model.fit(table.drop(targets), y)
        borrow.store.save(model, folder / "auto.borrow")
        loaded = borrow.store.load(folder / "auto.borrow")
        rows = table.drop(targets)
        mine = rows if door.task is None else rows.filter(pl.col(door.task) == door.primary)
        ask = {"tasks": door.primary} if door.task is None else {}
        answer = model.predict(mine, **ask)
        assert np.array_equal(answer, loaded.predict(mine.select(reversed(mine.columns)), **ask))
        assert classifier or np.isfinite(np.asarray(answer, dtype=float)).all()


def main(names: list[str]) -> int:
    """Each door, one line per table; how many failed."""
    failed = 0
    for door in DOORS:
        if names and door.name not in names:
            continue
        started, steps = time.perf_counter(), []
        sys.stdout.write(f"{door.name:10}")
        try:
            with tempfile.TemporaryDirectory() as folder:

                def step(name: str, steps: list[str] = steps) -> None:
                    steps.append(name)
                    sys.stdout.write(f" {name}")
                    sys.stdout.flush()

                check(door, Path(folder), step)
            sys.stdout.write(f"  passed, {time.perf_counter() - started:.0f} s\n")
        except Exception:
            failed += 1
            sys.stdout.write(f"  FAILED at {steps[-1] if steps else 'the table'}\n{traceback.format_exc()}\n")
        sys.stdout.flush()
    sys.stdout.write("all doors are open\n" if not failed else f"{failed} of {len(DOORS)} doors are shut\n")
    return min(failed, 1)


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
