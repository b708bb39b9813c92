"""What a comparison found: records of single fits, and tables made of them."""

from __future__ import annotations

import os
from collections.abc import Hashable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from borrow.data.labels import list_labels
from borrow.data.table import Table
from borrow.transfer import ledger
from borrow.transfer.methods import LABELS
from borrow.transfer.resampled import Interval, differences, interval

LEVEL = 0.95
#: The candidate that the question was built for.
DESIGNATED = "focused"


@dataclass(frozen=True)
class Comparison:
    """Methods compared on the same folds of the task that matters. Everything is data that JSON keeps.

    Attributes
    ----------
    kind : "regression" or "classification".
    target, task, features : columns of the table.
    tasks, rows : labels of the tasks, and a dict by label of rows with a target.
    primaries : labels of the tasks that were compared for.
    methods : keys of the methods, in the order of `borrow.transfer.methods.LABELS`.
    scoring : name of the error.
    cv, seed : folds and repeats, and the seed of everything.
    digest, versions : SHA-256 of the data as read, and versions of what the figures depend on.
    records : one dict a fit: primary, method, repeat, fold, error, log density, predictions, warnings and more.
    classes : of a classification.
    skipped : dict by method of why it does not apply.
    relations : how the focused model on all rows relates the tasks, one dict a primary.
    """

    kind: str
    target: str
    task: str
    features: list[str]
    tasks: list[Any]
    rows: dict[Any, int]
    primaries: list[Any]
    methods: list[str]
    scoring: str
    cv: dict[str, Any]
    seed: int
    digest: str
    versions: dict[str, str]
    records: list[dict[str, Any]]
    classes: list[Any] = field(default_factory=list)
    skipped: dict[str, str] = field(default_factory=dict)
    relations: list[dict[str, Any]] = field(default_factory=list)

    def folds(self, primary: Any, method: str, left_out: Any = None) -> list[dict[str, Any]]:
        """Records of one method, in the order of repeats and folds."""
        return [
            r for r in self.records if r["primary"] == primary and r["method"] == method and r["left_out"] == left_out
        ]

    def complete(self, primary: Any, method: str) -> bool:
        """Whether every fold of the method was fitted."""
        mine = self.folds(primary, method)
        return (
            bool(mine) and all(r["failure"] is None for r in mine) and len(mine) == len(self.folds(primary, "single"))
        )

    def failures(self, primary: Any) -> dict[str, str]:
        """Methods that failed in some fold: how many, and the first reason."""
        out = {}
        for method in self.methods:
            bad = [r for r in self.folds(primary, method) if r["failure"] is not None]
            if bad:
                out[method] = f"failed in {len(bad)} of {len(self.folds(primary, method))} folds ({bad[0]['failure']})"
        return out

    def candidates(self, primary: Any) -> list[str]:
        """Transfer methods that can be judged: every fold was fitted, and so was no transfer."""
        if not self.complete(primary, "single"):
            return []
        return [m for m in self.methods if m != "single" and self.complete(primary, m)]

    def levels(self, primary: Any) -> dict[str, float]:
        """Level of each candidate's interval.

        The focused GP, which the question was built for, has 95 %; all others together have 95 % too (Bonferroni), so
        that it makes no difference how many were tried. That some candidate seems to help by chance, its interval below
        zero, has then a probability of at most 2.5 % + 2.5 %.
        """
        found = self.candidates(primary)
        others = sum(m != DESIGNATED for m in found)
        return {m: LEVEL if m == DESIGNATED else 1.0 - (1.0 - LEVEL) / others for m in found}

    def difference(self, primary: Any, method: str, what: str = "error", level: float | None = None) -> Interval:
        """Of a method from no transfer over the folds: negative errors and positive densities are better."""
        pairs = [
            (a, b)
            for a, b in paired(self.folds(primary, method), self.folds(primary, "single"))
            if a["failure"] is None and b["failure"] is None
        ]
        if level is None:
            level = self.levels(primary).get(method, LEVEL)
        d = differences([a[what] for a, _ in pairs], [b[what] for _, b in pairs])
        return interval(d, test_to_train([a for a, _ in pairs]), level)

    def table(self, primary: Any = None) -> Table:
        """One row a method: mean over folds of the error, its difference from no transfer with an interval, and more.

        The intervals are those that the verdict judges by: 95 % for the focused GP, 95 % for all others together.
        """
        if primary is None and len(self.primaries) > 1:
            parts = [Table({"primary": [p] * len(self.methods), **self.table(p)}) for p in self.primaries]
            return Table({name: [v for part in parts for v in part[name]] for name in parts[0]})
        primary = self._primary(primary)
        extra = "coverage" if self.kind == "regression" else "calibration"
        rows = []
        for method in self.methods:
            mine = [r for r in self.folds(primary, method) if r["failure"] is None]
            error = interval([r["error"] for r in mine], test_to_train(mine), LEVEL)
            gap = self.difference(primary, method)
            gap = gap if method != "single" else Interval(0.0, 0.0, 0.0, 0.0)
            sizes = np.array([r["n_test"] for r in mine], dtype=float)

            def mean(name: str, mine: list[dict[str, Any]] = mine, sizes: Any = sizes) -> float:
                return float(np.average([r[name] for r in mine], weights=sizes)) if mine else float("nan")

            seconds = float(sum(r["seconds"] for r in self.folds(primary, method)))
            rows.append(
                {
                    "method": method,
                    "error": error.mean,
                    "std_error": error.std_error,
                    "difference": gap.mean,
                    "low": gap.low,
                    "high": gap.high,
                    "log_density": mean("log_density"),
                    extra: mean(extra),
                    "seconds": seconds,
                }
            )
        return Table({name: [r[name] for r in rows] for name in rows[0]})

    def verdict(self, primary: Any = None) -> Any:
        """Helps, hurts or cannot tell, with the evidence."""
        from borrow.transfer.verdict import judge

        return judge(self, self._primary(primary))

    def verdicts(self) -> dict[Any, Any]:
        """One verdict a primary."""
        return {p: self.verdict(p) for p in self.primaries}

    def _primary(self, primary: Any) -> Hashable:
        if primary is None:
            if len(self.primaries) > 1:
                raise ValueError(
                    f"every task was compared in turn; give primary=, one of {list_labels(self.primaries)}"
                )
            return self.primaries[0]
        if primary not in self.primaries:
            raise ValueError(f"primary={primary!r} was not compared; primaries are {list_labels(self.primaries)}")
        return primary

    def to_dict(self) -> dict[str, Any]:
        """Everything, as JSON keeps it (labels may be numbers, so rows are pairs)."""
        return {**asdict(self), "rows": [[k, v] for k, v in self.rows.items()]}

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> Comparison:
        """What `to_dict` wrote."""
        return cls(**{**content, "rows": dict(content["rows"])})

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> Comparison:
        """The comparison in a store file, finished or not."""
        header, lines = ledger.read(path)
        return cls.of_lines(header["about"], lines)

    @classmethod
    def of_lines(cls, about: Mapping[str, Any], lines: list[dict[str, Any]]) -> Comparison:
        """From the header's part and the lines of a ledger, in whatever order these came."""
        records = list({record_key(r): r for r in lines if "method" in r}.values())
        place = {(p, m): i for i, (p, m) in enumerate((p, m) for p in about["primaries"] for m in LABELS)}
        tasks = {t: i for i, t in enumerate(about["tasks"])}

        def order(r: Mapping[str, Any]) -> tuple[int, int, int, int]:
            return tasks.get(r["left_out"], -1), place[r["primary"], r["method"]], r["repeat"], r["fold"]

        relations = sorted((r for r in lines if "relations" in r), key=lambda r: tasks[r["primary"]])
        return cls.from_dict({**about, "records": sorted(records, key=order), "relations": relations})

    def __str__(self) -> str:
        words = [f"{self.scoring}, lower is better; difference from no transfer"]
        return "\n".join([*words, repr(self.table())])


def record_key(record: Mapping[str, Any]) -> tuple[Any, ...]:
    """What tells records apart."""
    return tuple(record[k] for k in ("primary", "method", "repeat", "fold", "left_out"))


def paired(one: list[dict[str, Any]], other: list[dict[str, Any]]) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """Records of the same folds."""
    by_fold = {(r["repeat"], r["fold"]): r for r in other}
    return [(r, by_fold[at]) for r in one if (at := (r["repeat"], r["fold"])) in by_fold]


def test_to_train(records: list[dict[str, Any]]) -> float:
    """n_test/n_train, averaged over folds."""
    return float(np.mean([r["n_test"] / r["n_train"] for r in records])) if records else float("nan")
