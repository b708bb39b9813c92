"""Estimators that weigh what borrows against what does not, and predict with the mixture."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import KW_ONLY, dataclass, field, replace
from typing import Any

import numpy as np
from scipy.special import ndtr, ndtri
from sklearn.base import is_classifier

from borrow.data.cells import Rows
from borrow.data.encoder import encode_frame
from borrow.data.labels import sort_labels
from borrow.data.read import Schema, as_frame, lacks_task, read_training
from borrow.estimators.base import Fitted, LabelEstimator, NumberEstimator, TaskEstimator, as_labels, with_encoder
from borrow.estimators.registry import register
from borrow.estimators.settings import expect
from borrow.models.focused.settings import primary_code
from borrow.numerics.linalg import Array
from borrow.numerics.warned import warn
from borrow.transfer.compare import compare, only_target, read_seed
from borrow.transfer.comparison import Comparison
from borrow.transfer.decide import HELPS
from borrow.transfer.folds import LEAST_ROWS
from borrow.transfer.methods import MOST_ROWS_ALONE, NO_TRANSFER, build, choose
from borrow.transfer.problem import Problem, json_label
from borrow.transfer.verdict import Verdict, weights_in_words

#: Members of less weight are left out.
LEAST_WEIGHT = 0.02


@dataclass(eq=False, repr=False)
class _Auto(TaskEstimator):
    """Abstract. Compare, weigh, fit every method that has weight to all rows, and predict by the mixture of them."""

    primary: Any = field(default=None, kw_only=False)
    methods: Any = field(default="auto", kw_only=False)
    cv: Any = field(default=None, kw_only=False)
    _: KW_ONLY
    cautious: bool = False
    max_minutes: float | None = None
    n_jobs: int | None = None

    def _learn(self, X: Any, y: Any, tasks: Any) -> Fitted:
        """Compare on the primary's rows, then fit the methods that have weight to all rows."""
        X, encoder = encode_frame(X, self.task)
        rows, schema = read_training(self, X, y, tasks, classes=is_classifier(self))
        name, seed = getattr(y, "name", None), read_seed(self.random_state)
        target = name if isinstance(name, str) and name else "y"  # what is compared is known by its name
        problem = as_problem(rows, replace(schema, encoder=encoder), target)
        _, _, own = choose(problem.kind, int(problem.seen.sum()), self.methods)
        primary = schema.labels[primary_code(self.primary, schema.labels)]
        comparison = self._compare(problem, primary, seed)
        verdict = None if comparison is None else comparison.verdict()
        weights, because = self._weigh(verdict)
        large = max((k for t, k in problem.counts().items() if t != json_label(primary)), default=0) > MOST_ROWS_ALONE
        members = {}
        for key in weights:
            member = build(problem.kind, key, self.task, primary, seed, large, self.unseen, own)
            members[key] = with_encoder(member.fit(X, y, tasks=tasks), encoder)
        schema = replace(schema, encoder=encoder)
        chosen = max(weights, key=lambda key: weights[key])
        attributes = {
            **self._read_attributes(),
            "tasks_": as_labels(schema.tasks),
            "primary_": primary,
            "comparison_": comparison,
            "verdict_": verdict,
            "weights_": weights,
            "members_": members,
            "chosen_": chosen,
            "method_": chosen,
            "model_": members[chosen],
            "because_": because,
            "encoder_": encoder,
        }
        classes = {"classes_": schema.classes} if schema.classes is not None else {}
        return Fitted(schema, members[chosen], {**attributes, **classes})

    def _primary_code(self, labels: tuple[Hashable, ...]) -> int:
        return primary_code(self.primary, labels)

    def _compare(self, problem: Problem, primary: Any, seed: int) -> Comparison | None:
        """The comparison; None where there is nothing to compare with, or too little to do it on."""
        if len(problem.labels) == 1 or len(problem.classes) == 1:
            return None
        count, remedy = problem.counts()[json_label(primary)], "choose FocusedGPRegressor outright"
        reason = only_target(problem, json_label(primary))
        if count < LEAST_ROWS:
            reason = f"{count} row(s) with a target: too few to hold some out"
            remedy = f"give at least {LEAST_ROWS}, or {remedy}"
        if not reason:
            about = problem, problem.target, problem.task, json_label(primary), self.methods
            how = {"cv": self.cv, "n_jobs": self.n_jobs, "max_minutes": self.max_minutes}
            found = compare(*about, leave_out=False, random_state=seed, **how)
            found.fits.clear()  # the members are fitted to the table as it was given
            return found
        warn(
            f"primary={primary!r} has {reason}, so nothing says whether the other tasks help, and they are not used; "
            f"{remedy}"
        )
        return None

    def _weigh(self, verdict: Verdict | None) -> tuple[dict[str, float], str]:
        """Weight of every member, the largest first, and why."""
        if verdict is None:
            return {NO_TRANSFER: 1.0}, "No transfer: there was nothing to compare with, or too little to compare on."
        if self.cautious and verdict.answer != HELPS:
            return {NO_TRANSFER: 1.0}, f"No transfer, being cautious: the answer is {verdict.answer!r}."
        kept = sorted((item for item in verdict.weights.items() if item[1] >= LEAST_WEIGHT), key=lambda item: -item[1])
        total = sum(w for _, w in kept)
        weights = {key: w / total for key, w in kept}
        return weights, weights_in_words(weights)

    def _ask(self, method: str, X: Any, tasks: Any, *more: Any) -> list[tuple[float, Any]]:
        """What every member answers, with its weight; where nothing names a task, the primary is meant.

        Fitted to a wide y it answers in columns then, a task each, also by members that would for the primary alone.
        """
        schema = self._fit_of().schema
        if tasks is None and schema.wide is not None and True not in more[1:2]:  # no covariance
            each = [self._ask(method, X, schema.labels[t], *more) for t in schema.wide]
            return [(w, side_by_side([found[k][1] for found in each])) for k, (w, _) in enumerate(each[0])]
        if tasks is None and len(schema.labels) > 1 and schema.wide is None:
            meant = schema.task is None or (as_frame(X) is not None and lacks_task(X, schema))
            tasks = self.primary_ if meant else None
        return [(w, getattr(self.members_[key], method)(X, tasks, *more)) for key, w in self.weights_.items()]


@register()
class AutoRegressor(NumberEstimator, _Auto):
    """Predict with what is expected to be best: methods that borrow and no transfer, weighed by how well each did.

    Every method predicts held-out rows of the primary. The weights are those of the mixture that gives these rows the
    highest probability (stacking); no transfer is always among the methods, so that where the other data are of no use
    they get little weight.

    Parameters
    ----------
    task : column of X that names the task (name or position); None with `tasks=` in `fit`, wide y, or a single task.
    primary : label of the task that matters; may be left out only when there is a single task.
    methods, cv, n_jobs, max_minutes : as in `borrow.compare`.
    cautious : True does without the other data unless the verdict is "helps", a probability of 85 %.
    random_state : seeds the folds and the methods.
    unseen : what to do about a task that `fit` never saw: "error" refuses it, "population" answers as for a task drawn
        from those seen, with a wider band, and warns.

    Attributes
    ----------
    comparison_, verdict_ : a `Comparison` and its `Verdict`; None with a single task, and where the
        primary has too few rows, or the same target in all of them.
    weights_, members_ : dicts by method, the largest weight first: its weight, and the estimator fitted to all rows.
    because_ : the weights in a line of words.
    chosen_, model_ : key and estimator of the largest weight; "single" is no transfer.
    method_ : another name of `chosen_`.
    encoder_ : the `TableEncoder` that made numbers of text, dates and gaps; None where X had none.
    primary_ : label of the task that matters.
    tasks_ : labels of the tasks, sorted.
    fitted_ : everything that the fit found, in one frozen object.
    n_features_in_, feature_names_in_ : columns of X in `fit`, the task column included; names only for frames.

    Examples
    --------
    >>> import borrow
    >>> x = [0.1 * i for i in range(24)]
    >>> table = {"x": x, "site": ["here"] * 8 + ["there"] * 16, "level": [v * (2 - v) for v in x]}
    >>> X = [[v] for v in x]
    >>> model = borrow.AutoRegressor(primary="here", methods=["pooled"], cv=2)
    >>> model.fit(X, table["level"], tasks=table["site"]).comparison_.verdict().primary
    'here'
    """

    def predict(
        self,
        X: Any,
        tasks: Any = None,
        return_std: bool = False,
        return_cov: bool = False,
        include_noise: bool = False,
    ) -> Any:
        """Mean of the mixture, with its standard deviation or covariance if asked; for the primary without a task.

        Members N(m_k, C_k) of weight w_k have the mean m = sum w_k m_k and the covariance
        sum w_k (C_k + (m_k - m)(m_k - m)').
        """
        if return_std and return_cov:
            raise ValueError("return_std and return_cov are both True; ask for one of them")
        if not (return_std or return_cov):
            return sum(w * mean for w, mean in self._ask("predict", X, tasks))
        found = self._ask("predict", X, tasks, return_std, return_cov, include_noise)
        m = sum(w * mean for w, (mean, _) in found)
        if return_cov:
            return m, sum(w * (C + np.multiply.outer(mean - m, mean - m)) for w, (mean, C) in found)
        return m, np.sqrt(sum(w * (std**2 + (mean - m) ** 2) for w, (mean, std) in found))

    def predict_quantiles(self, X: Any, levels: Any = (0.05, 0.5, 0.95), tasks: Any = None) -> Array:
        """Quantiles of a new observation, one column per level: those of the mixture, which need not be normal.

        The quantile of a mixture lies between the least and the largest of its members', and is found by halving.
        """
        p = np.asarray(levels, dtype=float)
        expect(p.ndim == 1 and bool(np.all((p > 0) & (p < 1))), "levels", levels, "numbers between 0 and 1")
        found = self._ask("predict", X, tasks, True, False, True)
        each = np.stack([mean[..., None] + std[..., None] * ndtri(p) for _, (mean, std) in found])
        low, high = each.min(axis=0), each.max(axis=0)
        for _ in range(60):
            middle = (low + high) / 2.0
            reached = sum(w * ndtr((middle - mean[..., None]) / std[..., None]) for w, (mean, std) in found) >= p
            low, high = np.where(reached, low, middle), np.where(reached, middle, high)
        return (low + high) / 2.0

    def noise_at(self, X: Any, tasks: Any = None) -> Array:
        """Noise variance of a new observation at each row, in squared units of y: the members' by their weights."""
        return sum(w * noise for w, noise in self._ask("noise_at", X, tasks))


@register()
class AutoClassifier(LabelEstimator, _Auto):
    """`AutoRegressor` for labels: probabilities are those of the mixture.

    Parameters
    ----------
    task, primary, methods, cv, cautious, max_minutes, n_jobs, random_state, unseen : as in `AutoRegressor`.

    Attributes
    ----------
    classes_ : the classes, sorted.
    comparison_, verdict_, weights_, members_, because_, chosen_, method_, model_ : as in `AutoRegressor`.
    encoder_, primary_, tasks_, fitted_, n_features_in_, feature_names_in_ : as there.

    Examples
    --------
    >>> import borrow
    >>> X = [[0.1 * i] for i in range(24)]
    >>> y = ["low" if i % 8 < 4 else "high" for i in range(24)]
    >>> tasks = ["here"] * 8 + ["there"] * 16
    >>> model = borrow.AutoClassifier(primary="here", methods=["pooled"], cv=2).fit(X, y, tasks=tasks)
    >>> model.predict_proba([[0.1]], tasks=["here"]).shape
    (1, 2)
    """

    def predict_proba(self, X: Any, tasks: Any = None) -> Array:
        """Probability of each class."""
        return sum(w * p for w, p in self._ask("predict_proba", X, tasks))

    def decision_function(self, X: Any, tasks: Any = None) -> Array:
        """Log odds, positive for `classes_[1]`; log probabilities, one column each, where there are more than two."""
        p = np.log(np.maximum(self.predict_proba(X, tasks), np.finfo(float).tiny))
        return p[..., 1] - p[..., 0] if p.shape[-1] == 2 else p


def side_by_side(answers: list[Any]) -> Any:
    """Answers for one task each, with their deviations if there are such, as a column per task."""
    if isinstance(answers[0], tuple):
        return tuple(np.stack(parts, axis=1) for parts in zip(*answers, strict=True))
    return np.stack(answers, axis=1)


def as_problem(rows: Rows, schema: Schema, target: str = "y") -> Problem:
    """Rows that were read for `fit`, as a problem to compare on; they hold labels where the schema has classes."""
    names = schema.names if schema.names is not None else [f"column {j}" for j in range(rows.X.shape[1])]
    kind, y, classes, labels = "regression", rows.y, (), [json_label(v) for v in rows.labels]
    if schema.classes is not None:
        kind, classes = "classification", tuple(json_label(c) for c in schema.classes)
        y = np.array([classes[int(v) % len(classes)] if np.isfinite(v) else None for v in rows.y], dtype=object)
    about = kind, target, "task" if schema.task is None else str(schema.task), tuple(map(str, names))
    of_rows = rows.X, y, tuple(labels[t] for t in rows.task)
    return Problem(*about, *of_rows, sort_labels(labels), classes, encoder=schema.encoder)
