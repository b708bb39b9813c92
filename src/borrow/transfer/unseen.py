"""How well is a task predicted that was never seen? Every task in turn is held out whole.

A comparison as any other, for a primary of which there is no row, such as "a new site". Every row of the table is its
own in turn: folds are tasks, and the rows of a task count as one in the interval. No method can do without the other
data here; what has to be beaten takes all tasks for one, the pooled GP and, without the task column, the mean, ridge
(logistic) regression and the user's own estimators. Methods that tell the tasks apart answer for the population of
those that they were fitted to (`unseen="population"`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
from sklearn.dummy import DummyClassifier, DummyRegressor
from sklearn.linear_model import LogisticRegression, RidgeCV
from sklearn.model_selection import LeaveOneGroupOut
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from borrow.data.labels import list_labels
from borrow.transfer.decide import CANNOT_TELL, HELPS, HURTS, PROBABLY_HELPS, PROBABLY_HURTS, SAME
from borrow.transfer.methods import REFERENCES, build, call_of, choose, declared, label_of, method_for
from borrow.transfer.problem import Problem
from borrow.transfer.references import PENALTIES
from borrow.transfer.verdict import Verdict, probability

#: A task held out leaves two, the least that a population can be.
LEAST_TASKS = 3
#: Up to so many tasks each is held out by itself; of more, a tenth at once.
ONE_BY_ONE = 20
#: The answers in few words, for a task never seen.
HEADLINES = {
    HELPS: "Telling tasks apart helps to predict {}",
    PROBABLY_HELPS: "Telling tasks apart probably helps to predict {}",
    SAME: "Telling tasks apart makes no practical difference for {}",
    CANNOT_TELL: "Cannot tell whether telling tasks apart helps to predict {}",
    PROBABLY_HURTS: "Telling tasks apart probably hurts where {} is predicted",
    HURTS: "Telling tasks apart hurts where {} is predicted",
}
#: References that know no tasks: what is fitted to the inputs of all rows, and a line on each for readers.
SHARES, LINES = "the same for every row, whatever the inputs", "straight lines through all rows, tasks as one"
WITHOUT_TASKS: dict[str, dict[str, tuple[Any, str]]] = {
    "regression": {
        "mean of all rows": (make_pipeline(DummyRegressor()), SHARES),  # by itself it says that it is certain
        "ridge on all rows": (make_pipeline(StandardScaler(), RidgeCV(PENALTIES)), LINES),
    },
    "classification": {
        "shares of all rows": (DummyClassifier(), SHARES),
        "logistic regression on all rows": (make_pipeline(StandardScaler(), LogisticRegression(max_iter=2000)), LINES),
    },
}
WORDS = {name: words for found in WITHOUT_TASKS.values() for name, (_, words) in found.items()}


@dataclass(frozen=True)
class UnseenProblem(Problem):
    """The rows of a problem as those of a task never seen, each row when its own task is held out whole."""

    @classmethod
    def of(cls, problem: Problem, primary: Any) -> UnseenProblem:
        """Refuses what has no meaning for a task without rows."""
        known = {"primary": primary, "group": problem.groups, "time": problem.times}
        if odd := [name for name, value in known.items() if value is not None]:
            raise ValueError(f"unseen='population' holds out every task in turn, whole; leave out {' and '.join(odd)}")
        tasks = [label for label, n in problem.counts().items() if n]
        if len(tasks) < LEAST_TASKS:
            raise ValueError(
                f"unseen='population' holds out every task in turn and needs {LEAST_TASKS} with a target at least; "
                f"there are {list_labels(tasks)}"
            )
        given = {f.name: getattr(problem, f.name) for f in fields(problem)}
        return cls(**{**given, "groups": problem.tasks, "fits": None})

    @property
    def new(self) -> str:
        """What stands for the task never seen."""
        return f"a new {self.task}"

    def all_of(self, label: Any) -> Any:
        """Which rows are of a task, as a mask; all are the new one's, in turn."""
        return np.ones(len(self.tasks), dtype=bool) if label == self.new else super().all_of(label)

    def counts(self) -> dict[Any, int]:
        """How many rows of each task have a target; the new one has none."""
        return {**super().counts(), self.new: 0}

    def take(self, rows: Any) -> Problem:
        """Some of the rows, less those without a target: what a model is fitted to knows no task by its name alone."""
        return super().take(np.asarray(rows)[self.seen[rows]])

    def fit(self, key: str, primary: Any, seed: int = 0, alone: bool = True) -> Any:
        """A method fitted to all rows, that answers for tasks it never saw."""
        if key in self.more:  # given the inputs and no task
            model = build(self.kind, key, None, primary, seed, own=self.more)
            return model.fit(self.X, self.y, tasks=[primary] * len(self.y))
        return self.fitted(self.build(key, None, seed, unseen="population"))

    def folds(self, cv: Any) -> Any:
        """What the folds are made of: one per task, or ten of very many tasks, unless it is said."""
        few = sum(n > 0 for n in super().counts().values()) <= ONE_BY_ONE
        return cv if cv is not None else LeaveOneGroupOut() if few else (10, 1)


def choose_unseen(kind: str, rows: int, methods: Any) -> tuple[list[str], dict[str, str], dict[str, Any], list[str]]:
    """As `methods.choose`, and the methods that take all tasks for one, which come first."""
    keys, skipped, own = choose(kind, rows, methods)
    cannot = {key: found.no_new_task for key in keys if (found := declared(kind, key)) and found.no_new_task}
    if not (isinstance(methods, str) and methods == "auto") and (odd := [m for m in methods if m in cannot]):
        raise ValueError(f"method {odd[0]!r} cannot answer for a task never seen: {cannot[odd[0]]}")
    own = {name: (estimator, "primary") for name, (estimator, _) in {**WITHOUT_TASKS[kind], **own}.items()}
    pooled = method_for("as one")
    skipped = {key: why for key, why in skipped.items() if key not in (pooled, *REFERENCES)} | cannot
    apart = [key for key in keys if key not in (pooled, *cannot, *REFERENCES, *own)]
    alone = [pooled, *own]
    return [*alone, *apart], skipped, own, alone


def headline_of(v: Verdict) -> str:
    """The answer in few words."""
    return HEADLINES[v.answer].format(v.primary)


def in_words(v: Verdict, kind: str, task: str, scoring: str, table: Mapping[str, Any], tasks: int) -> Verdict:
    """The verdict with its sentence and what to do; `table` are the errors, `tasks` how many were held out."""
    if v.best is None:
        return replace(v, sentence=f"{headline_of(v)}: no method that tells them apart could be judged.")
    errors = dict(zip(table["method"], table["error"], strict=True))
    sentence = (
        f"{headline_of(v)}: {scoring} {v.error:.3g} by the {label_of(v.best)} against {errors[v.alone]:.3g} by the "
        f"best that takes all tasks for one ({label_of(v.alone)}), difference {v.difference:.3g} "
        f"({100 * v.level:.3g} % interval {v.low:.3g} to {v.high:.3g} over {tasks} tasks, each held out whole). "
        f"P(telling them apart lowers the error) = {probability(v.probability)}."
    )
    call = (call_of(kind, v.method, task, None) or "").removesuffix(")") + ", unseen='population')"
    use = f"Use {call}: it answers for labels that it never saw."
    if v.answer not in (HELPS, PROBABLY_HELPS):
        use = f"To predict {v.primary}, take {call}; that it is better than others is not shown."
    band = []
    if kind == "regression":
        held = table["coverage"][table["method"].index(v.method)]
        band = [f"Of rows of tasks held out, {100 * held:.0f} % lay inside its 90 % band."]
    more = f"A few rows of {v.primary} itself tell more than all others: fit again with them, or use adapt."
    return replace(v, sentence=sentence, advice=[use, *band, more])
