"""What a comparison found: records of single fits, tables made of them, and the verdict on them."""

from __future__ import annotations

import html
import os
from collections.abc import Hashable, Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from borrow.data.labels import list_labels
from borrow.data.table import Table
from borrow.numerics.stored import stored
from borrow.transfer import ledger
from borrow.transfer.attribute import Set, Worth, attribute, coalitions, near_copies, relations_to, secondary_table
from borrow.transfer.decide import (
    CANNOT_TELL,
    LEVEL,
    NO_DIFFERENCE,
    ROPE,
    SAME,
    TIE,
    Design,
    Interval,
    by_row,
    decide,
    densities_of,
    difference_of,
    error_of,
    log_odds,
    of_rows,
    ratio_of,
    related,
    stack,
)
from borrow.transfer.folds import record_key
from borrow.transfer.methods import LINES, NO_TRANSFER, REFERENCES, drops, label_of
from borrow.transfer.problem import TASK, VALUE, Fits
from borrow.transfer.unseen import in_words
from borrow.transfer.verdict import Verdict, advice_of, judged_together, sentence_of, weights_in_words

Records = list[dict[str, Any]]
#: Verdicts that a notebook shows where every task was compared in turn.
MOST_VERDICTS = 8


@stored("Comparison")
@dataclass(frozen=True)
class Comparison:
    """Methods compared on the same folds of the task that matters. Everything is data that JSON keeps.

    Attributes
    ----------
    kind : "regression" or "classification".
    target, task, features : columns of the table.
    tasks, rows : labels of the tasks, and a dict by label of rows with a target.
    primaries : labels of the tasks that were compared for.
    methods : keys of the methods, in the order of every table.
    scoring : name of the error.
    cv, seed : folds and repeats, and the seed of everything.
    digest, versions : SHA-256 of the data as read, and versions of what the figures depend on.
    records : one dict per fit: primary, method, repeat, fold, error, log density, predictions, warnings and more.
    classes : of a classification.
    skipped : dict by method of why it does not apply.
    relations : how the focused model on all rows relates the tasks, one dict per primary.
    alone, own : keys of the methods that do without the other data, and names of those that the user gave.
    row_weights, clusters : pairs of a row and its weight (`wanted=`), or what it was held out together with (`group=`,
        `time=`); rows that are not named count as one each.
    notes : what is to be said of the data, in sentences, by primary.
    encoding : what became of columns that were no plain numbers, one line each.
    unseen : "population" where every task was held out whole in turn, for a primary that stands for a task never seen.
    rope : half the width of the region of practical equivalence, as a part of the error without the other data.
    group, time : columns that said which rows belong together, and what came when; None where none did.
    targets : columns that were a task each, in their order; of a wide table.

    Examples
    --------
    >>> import borrow
    >>> x = [0.1 * i for i in range(24)]
    >>> table = {"x": x, "site": ["here"] * 8 + ["there"] * 16, "level": [v * (2 - v) for v in x]}
    >>> found = borrow.compare(table, target="level", task="site", primary="here", methods=["pooled"], cv=2)
    >>> found
    <Comparison of 5 methods for 'here' on 2 folds: mean absolute error>
    >>> len(found.folds("here", "pooled")), found.candidates("here")
    (2, ['pooled'])
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
    records: Records
    classes: list[Any] = field(default_factory=list)
    skipped: dict[str, str] = field(default_factory=dict)
    relations: list[dict[str, Any]] = field(default_factory=list)
    encoding: list[str] = field(default_factory=list)
    alone: list[str] = field(default_factory=lambda: [NO_TRANSFER])
    own: list[str] = field(default_factory=list)
    row_weights: list[list[Any]] = field(default_factory=list)
    clusters: list[list[Any]] = field(default_factory=list)
    notes: list[list[Any]] = field(default_factory=list)
    unseen: str = "error"
    rope: float = ROPE
    group: str | None = None
    time: str | None = None
    targets: list[Any] = field(default_factory=list)

    @cached_property
    def fits(self) -> Fits:
        """What was fitted to all rows in this process, for the model to use and the report; else still empty."""
        return Fits()

    @cached_property
    def _design(self) -> Design:
        return Design(dict(self.row_weights), dict(self.clusters))

    @property
    def beside(self) -> str:
        """What the methods that are there to be beaten do, in words."""
        return "that takes all tasks for one" if self.unseen == "population" else "without the other data"

    @property
    def wide(self) -> list[Any]:
        """The columns that were a task each; none where the table had a row per observation."""
        return list(self.targets or self.tasks) if (self.target, self.task) == (VALUE, TASK) else []

    @property
    def _root(self) -> bool:
        """Whether losses are squares of which the error is the root."""
        return self.scoring.startswith("root")

    @cached_property
    def repeats(self) -> int:
        """How often rows were dealt into folds: those planned, or one where the fits to all rows made more needless."""
        return self.cv["repeats"] if any(r["repeat"] > 0 for r in self.records) else 1

    @cached_property
    def _by_method(self) -> dict[tuple[Any, str, Any], Records]:
        """The records by primary, method and the secondaries that were left out."""
        found: dict[tuple[Any, str, Any], Records] = {}
        for r in self.records:
            left = r["left_out"]
            found.setdefault((r["primary"], r["method"], left if left is None else tuple(left)), []).append(r)
        return found

    def folds(self, primary: Any, method: str, left_out: tuple[Any, ...] | None = None) -> Records:
        """Records of one method, in the order of repeats and folds."""
        return list(self._by_method.get((primary, method, left_out), []))

    def failures(self, primary: Any) -> dict[str, str]:
        """Methods that failed in some fold: how many, and the first reason."""
        out = {}
        for method in self.methods:
            mine = self.folds(primary, method)
            if bad := [r["failure"] for r in mine if r["failure"] is not None]:
                out[method] = f"failed in {len(bad)} of {len(mine)} folds ({bad[0]})"
        return out

    def progress(self, primary: Any) -> tuple[int, int]:
        """Fits that are there, and those that were planned; methods that left the race have one round of folds."""
        fits = {m: self.folds(primary, m) for m in self.methods}
        folds, repeats = self.cv["folds"], self.repeats
        if len(self.primaries) > 1:  # of the first primary; others may have had fewer rows
            folds = max((1 + r["fold"] for records in fits.values() for r in records), default=folds)
            repeats = max((1 + r["repeat"] for records in fits.values() for r in records), default=repeats)
        going_on = {m for m, records in fits.items() if any(r["repeat"] > 0 for r in records)}
        return sum(map(len, fits.values())), sum(folds * (repeats if m in going_on else 1) for m in fits)

    def complete(self, primary: Any) -> list[str]:
        """Methods that can be judged: all folds of the first repeat were fitted, and so was no transfer."""
        bad, n = self.failures(primary), len(self._first(primary, self.alone[0]))
        found = [m for m in self.methods if m not in bad and len(self._first(primary, m)) == n > 0]
        return found if self.alone[0] in found else []

    def _first(self, primary: Any, method: str, left_out: tuple[Any, ...] | None = None) -> Records:
        return [r for r in self.folds(primary, method, left_out) if r["repeat"] == 0]

    def candidates(self, primary: Any) -> list[str]:
        """Methods that borrow and can be judged; the references are there to be looked at."""
        return [m for m in self.complete(primary) if m not in self.alone and m not in REFERENCES]

    def error(self, primary: Any, method: str) -> Interval:
        """Mean error over the held-out rows."""
        return error_of(self.folds(primary, method), self._design, self._root)

    def best_alone(self, primary: Any) -> str:
        """Of the methods without the other data, the one of lowest error: what borrowing has to beat."""
        found = [m for m in self.complete(primary) if m in self.alone]
        return min(found, key=lambda m: self.error(primary, m).mean, default=self.alone[0])

    def difference(self, primary: Any, method: str, what: str = "losses", from_: str | None = None) -> Interval:
        """Of a method from the best without the other data: negative errors and positive `log_densities` are better.

        Fits to all rows judge errors where there are such, unless rows held out in folds show at 95 % that the error
        rises: of the weaker hints in simulated tables one in nine was right (benchmarks/studies/power.py).
        """
        other = self.best_alone(primary) if from_ is None else from_
        if what != "losses":
            return difference_of(self.folds(primary, method), self.folds(primary, other), what, self._design)
        mine, theirs = (self._closed(primary, m) for m in (method, other))
        alone, held_out = self.error(primary, other), self._by_folds(primary, method, other)
        if mine is None or theirs is None or self._gains(primary, method) is None or not alone.mean > 0.0:
            return held_out
        if held_out.below(0.0) <= 1.0 - LEVEL:
            return held_out
        power = 1 if self.scoring == "mean absolute error" else 2
        gains = [found for m in self.methods if (found := self._gains(primary, m)) is not None]
        odds = log_odds(gains, len(self.others(primary)))
        return related(mine, theirs, odds, alone, self._design, power, self._root)

    def _by_folds(self, primary: Any, method: str, other: str) -> Interval:
        """Difference of errors in the folds that both methods ran."""
        return ratio_of(self.folds(primary, method), self.folds(primary, other), self._design, self._root)

    def seen(self, primary: Any, method: str) -> float:
        """Error on held-out rows beside that of the best alone, also of a method that ran on the first repeat only.

        Of a method that did not come to the end of its folds, the error in those that it ran.
        """
        alone, error = self.best_alone(primary), self.error(primary, method).mean
        if method == alone or method not in self.complete(primary):
            return error
        gap = self._by_folds(primary, method, alone).mean
        return error if np.isnan(gap) else self.error(primary, alone).mean + gap

    def _closed(self, primary: Any, method: str) -> dict[str, Any] | None:
        """The fit to all rows in which each row of the primary is left out in closed form, where there is one."""
        return next((r for r in self.folds(primary, method, ()) if r["failure"] is None), None)

    def evidence(self, primary: Any, method: str) -> float:
        """Nats by which a method that relates tasks explains the primary's rows better than its own GP; else NaN."""
        return min(self._gains(primary, method) or (np.nan,))

    def _gains(self, primary: Any, method: str) -> tuple[float, float] | None:
        """Nats of all rows over a GP per task, and of the primary's given the others over the same function alone.

        The first counts also what the other tasks have to do with each other, and what a method with more parts than
        a GP explains without any relation; the second does not. None where it is not known.
        """
        fit = self._closed(primary, method) or {}
        mine, alone = fit.get("evidence"), (self._closed(primary, NO_TRANSFER) or {}).get("evidence")
        if not drops(self.kind, method) or mine is None or alone is None:
            return None
        given = fit.get("evidence of relations")
        return mine - alone, mine - alone if given is None else given

    def weights(self, primary: Any) -> dict[str, float]:
        """Weight of every method in what `AutoRegressor` predicts, by stacking on the folds of the first repeat."""
        return self._weights[primary]

    @cached_property
    def _weights(self) -> dict[Any, dict[str, float]]:
        return {p: self._stack(p) for p in self.primaries}

    def _stack(self, primary: Any) -> dict[str, float]:
        by_row = {m: densities_of(self._first(primary, m)) for m in self.complete(primary) if m not in REFERENCES}
        if not by_row:
            return {self.alone[0]: 1.0}
        rows = list(by_row[self.alone[0]])
        weights = np.array([self._design.weights.get(row, 1.0) for row in rows]) if self.row_weights else None
        densities = {m: np.array([found[row] for row in rows]) for m, found in by_row.items()}
        return stack(densities, self.seed, weights)

    def table(self, primary: Any = None) -> Table:
        """One row per method: its error on held-out rows, difference from the best without the other data, and more.

        The difference is that of the errors where folds judge. Where fits to all rows do, it is the one to be expected.
        Intervals are of 95 %, those that the verdict judges by. `weight` is the part that a method has in what
        `AutoRegressor` predicts.
        """
        if primary is None and len(self.primaries) > 1:
            parts = [Table({"primary": [p] * len(self.methods), **self.table(p)}) for p in self.primaries]
            return Table({name: [v for part in parts for v in part[name]] for name in parts[0]})
        primary = self._primary(primary)
        rows = [self._row(primary, method) for method in self.methods]
        return Table({name: [r[name] for r in rows] for name in rows[0]})

    def _row(self, primary: Any, method: str) -> dict[str, Any]:
        every = self.folds(primary, method)
        mine = [r for r in every if r["failure"] is None]
        alone = method == self.best_alone(primary)
        gap = NO_DIFFERENCE if alone else self.difference(primary, method)
        per_row = ("log_density", "coverage" if self.kind == "regression" else "calibration")
        means = dict.fromkeys(per_row, float("nan"))
        if mine:
            weights = [r["n_test"] for r in mine]
            means = {name: float(np.average([r[name] for r in mine], weights=weights)) for name in per_row}
        return {
            "method": method,
            "error": self.seen(primary, method),
            "std_error": self.error(primary, method).std_error,
            "difference": gap.mean,
            "low": gap.low,
            "high": gap.high,
            "weight": self.weights(primary).get(method, 0.0),
            **means,
            "seconds": float(sum(r["seconds"] for r in every)),
        }

    @cached_property
    def _verdicts(self) -> dict[Any, Verdict]:
        """The verdict on each primary, reached once; of several, what one alone would claim is held to Holm's rule."""
        found = judged_together({p: self._judge(p) for p in self.primaries})
        return {p: self._in_words(v) for p, v in found.items()}

    def _judge(self, primary: Any) -> Verdict:
        """The figures of the verdict."""
        weights, borrowing = self.weights(primary), self.candidates(primary)
        alone = self.best_alone(primary)
        found = {m: self.difference(primary, m) for m in borrowing}
        rope, density = self.rope * abs(self.error(primary, alone).mean), Interval()
        relating = [m for m in borrowing if not np.isnan(self.evidence(primary, m))]
        best = max(relating or borrowing, key=lambda m: (weights[m], -found[m].mean), default=None)
        gap, answer = Interval(), CANNOT_TELL
        worths, copies = self._worths(primary, best)
        if best is not None:
            gap, density = found[best], self.difference(primary, best, "log_densities")
            answer = decide(found, best, rope, [m for m in borrowing if drops(self.kind, m)])
            as_alone = self.difference(primary, best, from_=NO_TRANSFER)
            if as_alone.mean == as_alone.std_error == 0.0:  # it borrowed nothing, and is no transfer
                gap, answer = as_alone, SAME
        return Verdict(
            answer,
            primary,
            best,
            gap.mean,
            gap.low,
            gap.high,
            LEVEL,
            len(self.folds(primary, best or NO_TRANSFER)),
            secondaries=secondary_table(
                {t: self.rows[t] for t in self.others(primary)}, relations_to(primary, self.relations), worths
            ),
            copies=copies,
            log_density={"difference": density.mean, "low": density.low, "high": density.high},
            probability=gap.below(0.0) if best is not None else float("nan"),
            rope=rope,
            alone=alone,
            weights=weights,
            borrows=sum(weights.get(m, 0.0) for m in borrowing),
            evidence=self.evidence(primary, best or NO_TRANSFER),
            error=float("nan") if best is None else self.seen(primary, best),
            by_all_rows=gap.law is not None,
        )

    def _in_words(self, v: Verdict) -> Verdict:
        failed = [f"The {label_of(m)} {why} and was not judged." for m, why in self.failures(v.primary).items()]
        notes = [str(text) for p, text in self.notes if p == v.primary]
        if self.unseen == "population":
            held = sum(n > 0 for n in self.rows.values())
            v = in_words(v, self.kind, self.task, self.scoring, self.table(), held)
        else:
            sentence = sentence_of(v, self.scoring, self.error(v.primary, v.alone).mean)
            advice = [*advice_of(v, self.kind, self.task, self.rope), *self._besides(v)]
            v = replace(v, sentence=sentence, advice=advice)
        return replace(v, because=weights_in_words(v.weights), advice=[*v.advice, *notes, *failed])

    def _besides(self, v: Verdict) -> list[str]:
        """What the advice does not say: a plain method did better on held-out rows; the table had to be encoded."""
        said, lines = [], LINES
        if v.best is not None and lines in self.complete(v.primary):
            error = self.seen(v.primary, lines)
            if error < v.error - v.rope and error < self.error(v.primary, v.alone).mean:
                said.append(
                    f"On the rows held out the {label_of(lines)} had a lower error, {error:.3g}: straight lines may be "
                    "enough here."
                )
        if self.encoding and v.best is not None:
            said.append(
                f"The table has columns that are no plain numbers: put borrow.TableEncoder(task={self.task!r}) before "
                "an estimator. Auto* does that by itself."
            )
        return said

    def others(self, primary: Any) -> list[Any]:
        """The secondaries of a primary."""
        return [t for t in self.tasks if t != primary]

    def fit_of(self, primary: Any, best: str, S: Set, closed: bool) -> tuple[str, tuple[Any, ...] | None]:
        """Method and what is left out in the fit to a set of the secondaries; with none of them that is no transfer.

        Rows left out in closed form have fits of their own also with all secondaries; in folds these are there already.
        """
        left = tuple(t for t in self.others(primary) if t not in S) if S else ()
        return best if S else NO_TRANSFER, left if left or closed else None

    def losses(self, primary: Any, best: str) -> dict[Set, np.ndarray[Any, Any]]:
        """Losses of the primary's rows by the set of secondaries that the method was fitted to, where it was."""
        every, closed = frozenset(self.others(primary)), (primary, best, ()) in self._by_method
        fitted = [left for p, m, left in self._by_method if (p, m) == (primary, best) and left]
        sets = {frozenset(), every, *(every - {*left} for left in fitted)}
        found = {}
        for S in sets:
            records = self._first(primary, *self.fit_of(primary, best, S, closed))
            if records and all(r["failure"] is None for r in records):
                values = dict(zip(*by_row(records, "losses"), strict=True))
                found[S] = np.array([values[row] for row in sorted(values)])
        return found

    def _worths(self, primary: Any, best: str | None) -> tuple[dict[Any, Worth], list[list[Any]]]:
        """What each secondary is worth to the method that is judged, and near-copies; empty where it was not asked."""
        others = self.others(primary)
        if best is not None and len(others) == 1:  # the whole gain is its own
            d = self.difference(primary, best, from_=NO_TRANSFER)
            own = Interval(-d.mean, d.std_error, -d.high, -d.low, d.df)
            return {others[0]: Worth(own.mean, own.mean, own, 1.0 - d.below(0.0))}, []
        losses = {} if best is None else self.losses(primary, best)
        if best is None or not losses.keys() >= {*coalitions(others, self.seed)}:
            return {}, []
        closed = (primary, best, ()) in self._by_method
        records = self._first(primary, *self.fit_of(primary, best, frozenset(others), closed))
        rows = sorted(by_row(records, "losses")[0])
        ends = frozenset[Any](), frozenset(others)
        none, every = (of_rows(rows, losses[S], records, self._design).mean for S in ends)
        scale = 1.0 / (np.sqrt(none) + np.sqrt(every)) if self._root and none + every > 0 else 1.0

        def judge(values: np.ndarray[Any, Any]) -> Interval:
            found = of_rows(rows, scale * values, records, self._design)
            return NO_DIFFERENCE if abs(found.mean) <= TIE * scale * none else found

        return attribute(others, losses, judge, self.seed), near_copies(others, losses)

    def verdict(self, primary: Any = None) -> Verdict:
        """What borrowing does for the primary, with its probability and the evidence."""
        return self._verdicts[self._primary(primary)]

    def verdicts(self) -> dict[Any, Verdict]:
        """One verdict per primary."""
        return dict(self._verdicts)

    def _primary(self, primary: Any) -> Hashable:
        if primary is None and len(self.primaries) > 1:
            raise ValueError(f"every task was compared in turn; give primary=, one of {list_labels(self.primaries)}")
        primary = self.primaries[0] if primary is None else primary
        if primary not in self.primaries:
            raise ValueError(f"primary={primary!r} was not compared; primaries are {list_labels(self.primaries)}")
        return primary

    def to_dict(self) -> dict[str, Any]:
        """Everything, as JSON keeps it (labels may be numbers, so rows are pairs)."""
        return {**asdict(self), "rows": [[k, v] for k, v in self.rows.items()]}

    def about(self) -> dict[str, Any]:
        """What is compared, and how, without what was found: the header's part of a ledger."""
        return {name: value for name, value in self.to_dict().items() if name not in ("records", "relations")}

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> Comparison:
        """What `to_dict` wrote."""
        return cls(**{**content, "rows": dict(content["rows"])})

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> Comparison:
        """The comparison in a store file, finished or not."""
        return cls.of_lines(*ledger.read(path))

    @classmethod
    def of_lines(cls, about: Mapping[str, Any], lines: Records) -> Comparison:
        """From the header's part and the lines of a ledger, in whatever order these came."""
        tasks, methods = ({v: i for i, v in enumerate(names)} for names in (about["tasks"], about["methods"]))

        def order(r: Mapping[str, Any]) -> tuple[Any, ...]:
            left = [] if r["left_out"] is None else [-1, *(tasks[t] for t in r["left_out"])]
            return left, tasks[r["primary"]], methods[r["method"]], r["repeat"], r["fold"]

        records = sorted({record_key(r): r for r in lines if "method" in r}.values(), key=order)
        names = ("primary", "relations", "failure", "warnings")
        told = [{k: r[k] for k in names if k in r} for r in lines if "relations" in r]
        relations = sorted(told, key=lambda r: tasks[r["primary"]])
        return cls.from_dict({**about, "records": records, "relations": relations})

    def plot(self, primary: Any = None, ax: Any = None) -> Any:
        """Draw the difference of every method that borrows, with intervals; returns the Axes. Needs `borrow[plot]`.

        Parameters
        ----------
        primary : the task to draw for, where every task was compared in turn.
        ax : the matplotlib Axes to draw on; None makes one.
        """
        found = self.table(self._primary(primary))
        borrowing = [i for i, m in enumerate(found["method"]) if m not in self.alone]
        shown = Table({name: [values[i] for i in borrowing] for name, values in found.items()})
        shown["method"] = [label_of(m) for m in shown["method"]]
        ax = shown.plot("difference", ax)
        best = "the best for all tasks as one" if self.unseen == "population" else "the best alone"
        ax.set_xlabel(f"difference in {self.scoring} from {best}\n(left of the line is better)")
        return ax

    def report(self, path: str | os.PathLike[str], table: Any = None, model: Any = None) -> Path:
        """Write the report, one HTML page, and return where it is; see `borrow.report.summary`. Needs `borrow[app]`.

        Parameters
        ----------
        path : the file to write.
        table : the data that were compared, for predictions and what to measure next.
        model : a fitted estimator to show; None fits the one that the verdict advises, where there is a table.
        """
        import borrow  # the page lies to the right of this file: asked for by its public name, when it is wanted

        return borrow.report.write(path, borrow.report.summary(self, model, table))

    def _line(self) -> str:
        """What was compared, in a line."""
        who = repr(self.primaries[0]) if len(self.primaries) == 1 else f"{len(self.primaries)} tasks in turn"
        folds = self.cv["folds"] * self.repeats
        return f"{len(self.methods)} methods for {who} on {folds} folds: {self.scoring}"

    def __repr__(self) -> str:
        return f"<Comparison of {self._line()}>"

    def _repr_html_(self) -> str:
        parts = [f"<p>Comparison of {html.escape(self._line())}, lower is better</p>", self.table().to_html()]
        return "".join([*parts, *(v.to_html() for v in list(self._verdicts.values())[:MOST_VERDICTS])])

    def __str__(self) -> str:
        return f"{self.scoring}, lower is better; difference from the best {self.beside}\n{self.table()!r}"
