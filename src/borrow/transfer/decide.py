"""From held-out rows to a decision and to a claim, which are apart: one minimises a loss, the other has to be right.

**The decision** is a mixture. Weights w of the methods maximise the mean over held-out rows of log sum_k w_k p_k(y_i)
(stacking: Y. Yao, A. Vehtari, D. Simpson, A. Gelman: Using stacking to average Bayesian predictive distributions.
Bayesian Analysis 13, 2018). With few rows the maximum jumps from one method to another when a row is left out; so it
is averaged over the Bayesian bootstrap, that is over random weights of the rows, and a Dirichlet prior worth a fraction
of a row keeps every method in.

**The claim** is about one method that borrows, against the best that does without the other data. There are two ways to
it, by fits to all rows and by folds.

*Fits to all rows* (`related`) tell where a method relates the tasks, and rows can be left out in closed form. Few
held-out rows hardly show which of two errors is lower: of simulated tables with 6 to 50 rows the signs of the
differences in folds and on fresh rows agreed little more often than not. All rows of all tasks together show much
better whether there is a relation: by the evidence, the probability of all rows under the joint model over that under a
GP per task. What one method says of it is the gain in nats, less COST for each of the other tasks; but no more than
what the primary's rows gain given the others over the same function alone, less COST: the others may be related among
themselves. As they are, these nats are too sure: they are of maxima, of kernels that are all somewhat wrong. A
fractional evidence, the power TEMPER of the odds (A. O'Hagan: Fractional Bayes factors for model comparison. JRSS B 57,
1995), is what the truth of simulated tables agrees with. The odds that a relation is real (`log_odds`) are the mean of
those of all methods that relate the tasks, each as good a description as the others before the rows are seen: one that
describes them badly counts for nothing, and what one sees alone for its share. What the relation is then worth two
models say together. Where the joint model predicts N(m, s²) and the other one m', and the joint one is right, they miss
an observation by, on average,

    E|N(0, s²)| = s sqrt(2/pi)    and    E|N(m' - m, s²)| = s sqrt(2/pi) exp(-u²/2) + (m' - m) erf(u/sqrt(2)),

with u = (m' - m)/s; squares by s² and s² + (m' - m)². The means of these are taken over the rows of the primary, each
left out in closed form, and over inputs at which it was not measured: those wanted, or those of the other tasks within
its range. The log of the ratio of the means, times HOLDS, is where the log of the ratio of the errors at fresh inputs
lies if the relation is real, and about zero it lies if not. That log is long-tailed to both sides and varies little
where it is small, so the two parts of the posterior are Student t of its inverse hyperbolic sine in units of BEND.
Their spread is least where nothing moves, rises with the gain in sight g as tanh(g/BEND), and falls again as (1 +
g/BEND)^-NARROWS: of large gains the log is known to about the same amount as of middling ones, hence the sign better.
The constants were found by maximum likelihood on simulated tables of known truth (benchmarks/studies/calibrate.py).

*Folds* (`ratio_of`) tell elsewhere: the mean difference d of errors row by row. Training sets of folds and repeats
share rows, so the differences are correlated. The posterior of d is the Bayesian correlated t (G. Corani, A. Benavoli:
A Bayesian approach for comparing cross-validated algorithms on multiple data sets. Machine Learning 100, 2015), a
Student t about the mean of the differences. Its scale is that of C. Nadeau, Y. Bengio (Inference for the generalization
error. Machine Learning 52, 2003), written for rows: K folds of n_test rows, R times, have the variance (1/(K R) +
n_test/n_train) of K times that of the mean of n rows,

    (1/R + K n_test/n_train) s²/n,    n - 1 degrees of freedom,

where s² is the variance of the differences of the rows, each averaged over the repeats. Rows of a group (`group=`), and
rows of a block of time (`time=`), count as one: s² is then of their sums. Rows may have weights (`wanted=`).

That is for the average over fits. The question is about one fit, to all rows, and fits differ: what a fit adds to the
difference of all rows that it predicts has a variance, which the repeats show, in which every row is predicted by
several fits. About the rows' own means, it is the variance between fits less that within them (the analysis of variance
of S. Bates, T. Hastie, R. Tibshirani: Cross-validation. JASA 119, 2023, section 4, uses folds within folds for it), and
is added. So is REFIT²/n, which no fold shows: by how much the error of one training set is off that of its like.

Errors are positive and fits fail by factors, so the Student t is of the logarithm of the ratio of the two errors, A of
the method and B without the other data. To first order log A/B moves with the rows' a/A - b/B, which take the place of
their differences a - b.

Times B, less B, the interval of the ratio is one of the difference for the error that was seen without the other data.
That error is itself known from few rows only: the ends move away from it by a factor, half of the reach of log B.

A difference within the region of practical equivalence, 2 % of the error without the other data to both sides, is none
that anybody would notice (A. Benavoli, G. Corani, J. Demšar, M. Zaffalon: Time for a change. JMLR 18, 2017).

no practical difference   d lies in that region with a probability of 90 %; also where nothing was borrowed at all
helps, hurts              the error falls (rises) with a probability of 85 %, by more than that region is expected
probably helps, hurts     with a probability of 80 %
cannot tell               everything else

"Hurts" is said only where every method that can drop a relation loses: one that cannot may lose on data that help.

Why 85 %: on 840 draws of tuning (benchmarks/studies/calibrate.py, whose record has a line per level) "helps" from there
on was said of 57 % of the fits with a correlation of 0.9 and a true gain above 5 %, was right in 88 % of all fits that
it was said of, and was said of none of those to tables with no function in common, where 5 % are allowed. From 90 % on
it would be said of a quarter. Intervals are of 95 % all the same: that of a claim may reach beyond zero.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy.special import erf, expit, logsumexp
from scipy.stats import t as student

from borrow.numerics.linalg import Array

HELPS, PROBABLY_HELPS, SAME, CANNOT_TELL = "helps", "probably helps", "no practical difference", "cannot tell"
PROBABLY_HURTS, HURTS = "probably hurts", "hurts"
#: From the best to the worst.
ANSWERS = (HELPS, PROBABLY_HELPS, SAME, CANNOT_TELL, PROBABLY_HURTS, HURTS)
#: Level of every interval, and where its upper end lies.
LEVEL = 0.95
END = 0.5 + LEVEL / 2
#: From which probability on it is said that the error falls, that it probably does, and that nothing changes.
SURE, PROBABLE, EQUIVALENT = 0.85, 0.8, 0.9
#: Half the width of the region of practical equivalence, as a part of the error without the other data.
ROPE = 0.02
#: What folds do not show of one fit to n rows, as a standard deviation of the log of the ratio: this over sqrt(n).
REFIT = 0.5
#: By how much of the reach of the logarithm of the error without the other data the ends of an interval move out.
SIZE = 0.5
#: What fits to all rows say of the log of the ratio of the errors, `related`: the nats that each relation has to gain
#: to be as likely as none, and the part of the nats beyond it that counts; the part of the gain in sight that holds for
#: fresh inputs; the units in which the log is bent; the spread where nothing moves, what is added where there is a
#: relation, and where there is none, and how that falls as the gain in sight grows; the degrees of freedom of Student's
#: t.
COST, TEMPER, HOLDS, BEND, STILL, WITH, WITHOUT, NARROWS, DF = 1.5, 0.22, 1.1, 0.08, 0.1, 1.8, 4.6, 0.76, 12.0
#: Differences below this part of the errors are none: one model, found by two optimisers. A focused GP that drops all
#: relations was seen up to 1.5e-5 away from no transfer.
TIE = 1e-4
#: Dirichlet prior of the weights, in rows for every method, and draws of the Bayesian bootstrap.
PRIOR, BOOTSTRAPS = 0.5, 50


class Mixture(NamedTuple):
    """Posterior of asinh(log ratio/BEND): with probability `real` there is a relation, and the error falls by its gain.

    Two Student t: about `middle` of the scale `if_related`, and about zero of the scale `if_unrelated`.
    """

    real: float
    middle: float
    if_related: float
    if_unrelated: float

    def below(self, log: float) -> float:
        """Probability that the log of the ratio is less."""
        x = np.arcsinh(log / BEND)
        parts = student.cdf([(x - self.middle) / self.if_related, x / self.if_unrelated], DF)
        return float(np.dot([self.real, 1.0 - self.real], parts))

    def quantile(self, p: float) -> float:
        """The log of the ratio below which it is with probability p; between those of the parts, found by halving."""
        t = float(student.ppf(p, DF))
        low, high = sorted(BEND * np.sinh([self.middle + t * self.if_related, t * self.if_unrelated]))
        for _ in range(60):
            middle = (low + high) / 2.0
            low, high = (middle, high) if self.below(middle) < p else (low, middle)
        return float(np.round((low + high) / 2.0, 12))


class Interval(NamedTuple):
    """A mean, its corrected standard error and 95 % interval; NaN where nothing is known. `df`: of its Student t.

    With a `base` the value is a difference from an error of that size, and the posterior that of log(1 + value/base): a
    Student t, or a `law` of its own.
    """

    mean: float = np.nan
    std_error: float = np.nan
    low: float = np.nan
    high: float = np.nan
    df: float = np.nan
    base: float = 0.0
    law: Mixture | None = None

    def below(self, value: float) -> float:
        """Posterior probability that the true mean lies below a value; that of a known mean is 0, 1/2 or 1."""
        if self.std_error == 0.0:
            return 0.5 + 0.5 * float(np.sign(value - self.mean))
        if self.base > 0.0:
            if value <= -self.base:
                return 0.0
            if self.law is not None:
                return self.law.below(float(np.log1p(value / self.base)))
            top = self.base + self.mean
            return float(student.cdf(np.log((self.base + value) / top) * top / self.std_error, self.df))
        return float(student.cdf((value - self.mean) / self.std_error, self.df)) if self.df > 0 else float("nan")


#: Of two that are one and the same.
NO_DIFFERENCE = Interval(0.0, 0.0, 0.0, 0.0)


class Design(NamedTuple):
    """How rows count: their weights, and the cluster that each belongs to; rows not named count as one each."""

    weights: Mapping[int, float] = {}
    clusters: Mapping[int, Any] = {}


PLAIN = Design()


def interval(values: Array, inflation: float, weights: Array, clusters: Sequence[Any]) -> Interval:
    """Weighted mean of row values. Its variance is that of the sums of clusters, times `inflation`."""
    share = weights / weights.sum()
    mean = float(share @ values)
    _, code = np.unique(np.array([str(c) for c in clusters]), return_inverse=True)
    size = np.bincount(code, share)
    n = 1.0 / float(size @ size)  # clusters, were they of one weight
    if n <= 1.0 + 1e-9:
        return Interval(mean)
    deviation = np.bincount(code, share * (values - mean))
    se = float(np.sqrt(inflation * n / (n - 1.0) * (deviation @ deviation)))
    half = float(student.ppf(END, n - 1.0)) * se
    return Interval(mean, se, mean - half, mean + half, n - 1.0)


def error_of(records: Sequence[Mapping[str, Any]], design: Design = PLAIN, root: bool = False) -> Interval:
    """Mean error over the held-out rows of one method; with `root` the losses are squares, and their root is wanted."""
    fitted = [r for r in records if r["failure"] is None]
    if not fitted:
        return Interval()
    rows, loss = by_row(fitted, "losses")
    found = of_rows(rows, loss, fitted, design)
    if not root:
        return found
    top = float(np.sqrt(found.mean))
    return found if top == 0.0 else _scaled(found, 1.0 / (2.0 * top), top)


def difference_of(
    one: Sequence[Mapping[str, Any]],
    other: Sequence[Mapping[str, Any]],
    what: str = "losses",
    design: Design = PLAIN,
    root: bool = False,
) -> Interval:
    """Paired difference one - other over the rows of the folds that both were fitted in.

    With `root` the losses are squares a and b, and sqrt(mean a) - sqrt(mean b) = mean(a - b)/(sqrt(mean a) +
    sqrt(mean b)).
    """
    pairs = paired(one, other)
    if not pairs:
        return Interval()
    mine = [a for a, _ in pairs]
    (rows, a), (_, b) = by_row(mine, what), by_row([b for _, b in pairs], what)
    gaps = [
        {**a, what: differences(np.asarray(a[what], dtype=float), np.asarray(b[what], dtype=float))} for a, b in pairs
    ]
    found = of_rows(rows, by_row(gaps, what)[1], mine, design)
    if not root or what != "losses":
        return found
    weights = _weights(rows, design)
    roots = float(np.sqrt(np.average(a, weights=weights)) + np.sqrt(np.average(b, weights=weights)))
    return found if roots == 0.0 else _scaled(found, 1.0 / roots)


def paired(one: Sequence[Mapping[str, Any]], other: Sequence[Mapping[str, Any]]) -> list[tuple[Any, Any]]:
    """Records of the folds that both were fitted in."""
    by_fold = {(r["repeat"], r["fold"]): r for r in other if r["failure"] is None}
    return [(r, by_fold[at]) for r in one if r["failure"] is None and (at := (r["repeat"], r["fold"])) in by_fold]


def ratio_of(
    one: Sequence[Mapping[str, Any]], other: Sequence[Mapping[str, Any]], design: Design = PLAIN, root: bool = False
) -> Interval:
    """Difference of the errors one - other as the claim is judged by: its posterior is that of the log of their ratio.

    Where one of them is zero there is no ratio, and the plain difference is returned.
    """
    plain, pairs = difference_of(one, other, "losses", design, root), paired(one, other)
    if not plain.std_error > 0.0:
        return plain
    losses = [tuple(np.asarray(r["losses"], dtype=float) for r in pair) for pair in pairs]
    theirs = [{**r, "losses": b} for (r, _), (_, b) in zip(pairs, losses, strict=True)]
    mine = [{**r, "losses": b + differences(a, b)} for (r, _), (a, b) in zip(pairs, losses, strict=True)]
    (rows, a), (_, b) = by_row(mine, "losses"), by_row(theirs, "losses")
    weights, half = _weights(rows, design), 0.5 if root else 1.0  # a root halves logarithms
    A, B = (float(np.average(v, weights=weights)) for v in (a, b))
    if not (A > 0.0 and B > 0.0):
        return plain
    gaps = [{**r, "losses": r["losses"] / A - s["losses"] / B} for r, s in zip(mine, theirs, strict=True)]
    found = of_rows(rows, by_row(gaps, "losses")[1], gaps, design)
    refit = REFIT**2 / (found.df + 1.0)
    se = float(np.sqrt(half**2 * (found.std_error**2 + fit_variance(gaps, "losses")) + refit))
    alone, log = error_of(theirs, design, root), half * np.log(A / B)
    reach = float(student.ppf(END, found.df)) * se
    mean, low, high = at_size(alone, log, log - reach, log + reach)
    return Interval(mean, (alone.mean + mean) * se, low, high, found.df, alone.mean)


def at_size(alone: Interval, log: float, low: float, high: float) -> tuple[float, float, float]:
    """Logs of a ratio of errors as differences from the error without the other data; the ends move away from it."""
    reach = [min(max(v, -30.0), 30.0) for v in (log, low, high)]  # a factor of exp(30) is as good as any
    mean, low, high = (float(alone.mean * np.expm1(v)) for v in reach)
    away = float(np.exp(SIZE * min(student.ppf(END, alone.df) * alone.std_error / alone.mean, 30.0)))
    return mean, float(low * away ** -np.sign(low)), float(high * away ** np.sign(high))


def log_odds(gains: Sequence[tuple[float, float]], relations: int = 1) -> float:
    """Log of the mean over methods of the odds that tasks are related, by the nats of all rows and the primary's."""
    tempered = [TEMPER * min(rows - COST * relations, given - COST) for rows, given in gains]
    return float(logsumexp(tempered)) - float(np.log(len(tempered)))


def related(
    one: Mapping[str, Any],
    other: Mapping[str, Any],
    odds: float,
    alone: Interval,
    design: Design = PLAIN,
    power: int = 1,
    root: bool = False,
) -> Interval:
    """Difference of the errors one - other by fits to all rows, where these are the `log_odds` of a relation.

    `one` and `other` are records of rows left out in closed form, losses the power of what a row is missed by, and
    `alone` the error of `other` in folds.
    """
    if not np.any(differences(*(np.asarray(r["losses"], dtype=float) for r in (one, other)))):
        return NO_DIFFERENCE
    seen, times = in_sight(one, other, design, power), 1.0 if root else float(power)  # logs of powers are that many
    moved = np.tanh(seen / BEND) * (1.0 + seen / BEND) ** -NARROWS
    law = Mixture(
        float(expit(odds)),
        float(-np.arcsinh(HOLDS * seen / BEND)),
        float(STILL + WITH * moved),
        float(STILL + WITHOUT * moved),
    )
    mean, low, high = at_size(alone, *(times * law.quantile(p) for p in (0.5, 1.0 - END, END)))
    spread = (high - low) / (2.0 * float(student.ppf(END, DF)))
    return Interval(mean, spread, low, high, DF, alone.mean, law)


def in_sight(one: Mapping[str, Any], other: Mapping[str, Any], design: Design, power: int) -> float:
    """Log of the ratio of the errors other/one that is expected if `one` is right; of powers, divided by the power."""
    mean, std, off = (
        np.array([*r[name], *r.get(f"{name} elsewhere", [])], dtype=float)
        for r, name in ((one, "mean"), (one, "std"), (other, "mean"))
    )
    off, std = off - mean, np.maximum(std, np.finfo(float).tiny)
    weights = np.ones(len(mean))
    weights[: len(one["rows"])] = _weights(one["rows"], design)
    least, u = std * np.sqrt(2.0 / np.pi), off / std
    sizes = [std**2, std**2 + off**2] if power == 2 else [least, least * np.exp(-(u**2) / 2.0) + off * erf(u / 2**0.5)]
    mine, theirs = np.average(sizes, axis=1, weights=weights)
    return float(np.log(theirs / mine)) / power


def differences(one: Array, other: Array) -> Array:
    """one - other for the rows of a fold; 0 where their means differ by what optimisers leave only."""
    a, b = float(np.mean(one)), float(np.mean(other))
    return 0.0 * one if abs(a - b) <= TIE * max(abs(a), abs(b)) else one - other


def fit_variance(records: Sequence[Mapping[str, Any]], what: str) -> float:
    """Variance of what one fit adds to all rows that it predicts: between fits less within, about the rows' means.

    A row's mean over R repeats has 1/R of the fit in it: what is left of the fit is (1 - 1/R) of it.
    """
    repeats = len({r["repeat"] for r in records})
    if repeats < 2:
        return 0.0
    mean = dict(zip(*by_row(records, what), strict=True))
    apart = [np.asarray(r[what], dtype=float) - [mean[row] for row in r["rows"]] for r in records]
    between = float(np.mean([v.mean() ** 2 for v in apart]))
    within = float(np.mean([v.var(ddof=1) / len(v) if len(v) > 1 else 0.0 for v in apart]))
    return max((repeats / (repeats - 1.0)) ** 2 * (between - within), 0.0)


def by_row(
    records: Sequence[Mapping[str, Any]], what: str, average: Callable[[list[float]], Any] = np.mean
) -> tuple[list[int], Array]:
    """Rows, and the mean (or another average) over the repeats of what was found for each."""
    found: dict[int, list[float]] = {}
    for r in records:
        for row, value in zip(r["rows"], r[what], strict=True):
            found.setdefault(row, []).append(value)
    return list(found), np.array([average(v) for v in found.values()])


def _weights(rows: Sequence[int], design: Design) -> Array:
    return np.array([design.weights.get(row, 1.0) for row in rows])


def of_rows(rows: Sequence[int], values: Array, records: Sequence[Mapping[str, Any]], design: Design) -> Interval:
    """Mean of values of rows that the folds of these records held out."""
    folds = max(sum(r["repeat"] == s["repeat"] for s in records) for r in records[:1])
    ratio = float(np.mean([r["n_test"] / r["n_train"] for r in records]))
    inflation = folds / len(records) + folds * ratio  # 1/R + K n_test/n_train
    return interval(values, inflation, _weights(rows, design), [design.clusters.get(row, row) for row in rows])


def _scaled(found: Interval, by: float, mean: float | None = None) -> Interval:
    """The interval of a figure that is so many times another, about its own mean where that is known better."""
    middle, half = found.mean * by if mean is None else mean, (found.high - found.mean) * by
    return Interval(middle, found.std_error * by, middle - half, middle + half, found.df)


def answer_of(d: Interval, rope: float) -> str:
    """The answer that a posterior of the difference gives; `rope` is half the width of the region, in its units."""
    if d.mean == 0.0 and d.std_error == 0.0:  # nothing was borrowed
        return SAME
    if not d.std_error > 0.0:  # one row, or differences without scatter: nothing says how far they may be off
        return CANNOT_TELL
    if d.below(rope) - d.below(-rope) >= EQUIVALENT:
        return SAME
    if abs(d.mean) <= rope:  # it may be none in practice, whatever its sign
        return CANNOT_TELL
    falls = d.below(0.0)
    return next(
        (
            answer
            for answer, yes in (
                (HELPS, falls >= SURE),
                (PROBABLY_HELPS, falls >= PROBABLE),
                (HURTS, falls <= 1.0 - SURE),
                (PROBABLY_HURTS, falls <= 1.0 - PROBABLE),
            )
            if yes
        ),
        CANNOT_TELL,
    )


def decide(found: Mapping[str, Interval], best: str, rope: float, droppers: Sequence[str]) -> str:
    """The answer for the method `best`; that it hurts, only where every method that can drop a relation says so."""
    answer = answer_of(found[best], rope)
    if answer not in (HURTS, PROBABLY_HURTS):
        return answer
    others = [answer_of(found[m], rope) for m in droppers]
    if not others or any(a not in (HURTS, PROBABLY_HURTS) for a in others):
        return CANNOT_TELL
    return PROBABLY_HURTS if PROBABLY_HURTS in (answer, *others) else HURTS


def holm(p: Sequence[float]) -> list[float]:
    """Probabilities corrected for their number, step by step from the smallest (Holm 1979)."""
    order, out, largest = np.argsort(p, kind="stable"), [1.0] * len(p), 0.0
    for rank, i in enumerate(order):
        largest = max(largest, min(1.0, (len(p) - rank) * p[i]))
        out[i] = largest
    return out


def stack(densities: Mapping[str, Array], seed: int = 0, weights: Array | None = None) -> dict[str, float]:
    """Weight of each method from its log densities of the held-out rows."""
    methods = list(densities)
    D = np.column_stack([densities[m] for m in methods])
    E = np.exp(D - D.max(axis=1, keepdims=True))
    rng, n = np.random.default_rng(seed), len(D)
    rows = n * rng.dirichlet(np.ones(n), size=BOOTSTRAPS) if n > 1 else np.ones((1, 1))
    if weights is not None:
        rows = rows * weights
        rows *= n / rows.sum(axis=1, keepdims=True)
    w = np.full((len(rows), len(methods)), 1.0 / len(methods))
    for _ in range(100):  # EM for the proportions of a mixture, all draws of the bootstrap at once
        share = rows / (w @ E.T)
        w = w * (share @ E) + PRIOR
        w /= w.sum(axis=1, keepdims=True)
    return dict(zip(methods, w.mean(axis=0).tolist(), strict=True))


def densities_of(records: Sequence[Mapping[str, Any]]) -> dict[int, float]:
    """Log density of each row, of the mixture of the repeats."""
    rows, mixed = by_row(records, "log_densities", lambda v: logsumexp(v) - np.log(len(v)))
    return dict(zip(rows, mixed.tolist(), strict=True))
