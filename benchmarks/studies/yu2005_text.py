"""Table 1 of Yu, Tresp & Schwaighofer (2005): 50 topics of RCV1, 300 labels each, run as the paper ran it and fairly.

    python benchmarks/studies/yu2005_text.py [--draws 10] [--others 2] [--first 0]

A draw takes 50 of the 81 topics, a pool of 1,000 documents, and for each topic 300 labelled ones of the pool (drawn
again where they hold no positive). "All" are the 9,700 documents that are unlabelled for the topic, "partially
labelled" the 700 of them in the pool. AUC and macro F are means over topics; micro F counts over all topics.

Twice. *As the paper ran it*: targets -1 and +1, linear kernel, no intercept anywhere; parameters by cross-validated
error rate; a document is given a topic where f > 0. *Fairly*: targets centred per topic, or an intercept, for every
method; parameters by cross-validated AUC; a topic is given to the best-scored share of the test documents that equals
its share among the labelled ones. Ridge and SVM have one parameter for all topics, as the paper's multi-task GP has;
regularised multi-task learning takes C from the SVM and mu from a fifth of the rows held out. SVM, regularised
multi-task learning and plain EM on centred targets are run on the first draws only, to save time (`--others`).
Plain EM has 15 iterations; the paper does not say how many. What is done lies under out/ and is not done again, unless
it was done with other grids.
"""

from __future__ import annotations

import os

os.environ["OPENBLAS_NUM_THREADS"] = "1"

import argparse
import json
import sys
import time
import warnings
from copy import copy
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from scipy import sparse
from scipy.stats import rankdata
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import StratifiedKFold
from sklearn.svm import SVC, LinearSVC

import borrow
from borrow.datasets.shared_data import Topics, load_rcv1
from borrow.kernels import Linear
from results import ROOT, UNKNOWN, provenance, settings_of, write_result

#: 1e-4 interpolates: the end of the scale, not of the grid
LAMBDAS = (1e-4, 3e-4, 1e-3, 3e-3, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0, 300.0)
COSTS = (0.1, 1.0, 10.0, 100.0)
#: 1,000 shares next to nothing: the end of the scale, not of the grid
MUS = (0.1, 1.0, 10.0, 100.0, 1000.0)
ITERATIONS = 15
PAPER = {
    "base_kernel": Linear(1.0),
    "mean_strength": np.inf,
    "covariance_strength": 1.0,
    "noise": 0.1,
    "normalize_y": False,
    "prior": None,
    "optimizer": None,
    "accelerate": False,
    "tol": 0.0,
}
#: What a kept record was made with; one that says otherwise, or nothing, is made again.
GRIDS: dict[str, list[float]] = {"lambda": [*LAMBDAS], "C": [*COSTS], "mu": [*MUS], "iterations": [ITERATIONS]}


class Draw:
    """One randomisation: topics, pool, labelled rows of the pool (one array a topic)."""

    def __init__(self, data: Topics, seed: int, topics: int = 50, pool: int = 1000, labelled: int = 300) -> None:
        rng = np.random.default_rng(seed)
        order = rng.permutation(len(data.names))
        self.topics, self.others = order[:topics], order[topics:]
        self.pool = rng.permutation(data.X.shape[0])[:pool]
        while not data.member[np.ix_(self.pool, self.topics)].any(axis=0).all():
            self.pool = rng.permutation(data.X.shape[0])[:pool]
        self.rows = []
        for t in self.topics:
            own = np.sort(rng.permutation(pool)[:labelled])
            while not data.member[self.pool[own], t].any():
                own = np.sort(rng.permutation(pool)[:labelled])
            self.rows.append(own)
        self.data = data

    def targets(self) -> np.ndarray:
        """Wide y of the pool: -1, +1, NaN."""
        y = np.full((len(self.pool), len(self.topics)), np.nan)
        for j, (t, own) in enumerate(zip(self.topics, self.rows, strict=True)):
            y[own, j] = np.where(self.data.member[self.pool[own], t], 1.0, -1.0)
        return y

    def evaluate(self, F: np.ndarray, match: bool) -> dict[str, float]:
        """AUC and F of scores for all documents (rows) and topics (columns)."""
        out: dict[str, float] = {}
        in_pool = np.zeros(len(F), dtype=bool)
        in_pool[self.pool] = True
        for name, some in (("all", np.ones(len(F), dtype=bool)), ("partial", in_pool)):
            areas, counts = [], []
            for j, (t, own) in enumerate(zip(self.topics, self.rows, strict=True)):
                test = some.copy()
                test[self.pool[own]] = False
                f, y = F[test, j], self.data.member[test, t]
                areas.append(area(f, y))
                counts.append(counted(f, y, self.data.member[self.pool[own], t].mean() if match else None))
            out[f"AUC {name}"] = float(np.nanmean(areas))
            out |= {f"{what} {name}": value for what, value in F_values(counts).items()}
        return out


def counted(f: np.ndarray, y: np.ndarray, share: float | None) -> list[int]:
    """True positives, false positives, false negatives where f > 0, or of the best-scored share of the documents."""
    given = f > 0 if share is None else f >= np.sort(f)[::-1][max(round(share * len(f)), 1) - 1]
    return [int(np.sum(given & y)), int(np.sum(given & ~y)), int(np.sum(~given & y))]


def F_values(counts: list[list[int]]) -> dict[str, float]:
    """F over the counts of all topics together, and the mean of the topics' own."""
    tp, fp, fn = np.array(counts, dtype=float).T
    return {
        "micro F": float(2 * tp.sum() / max(2 * tp.sum() + fp.sum() + fn.sum(), 1)),
        "macro F": float(np.mean(2 * tp / np.maximum(2 * tp + fp + fn, 1))),
    }


def area(f: np.ndarray, y: np.ndarray) -> float:
    """Area under the ROC curve; NaN where there is one class only."""
    k, n = int(y.sum()), len(y)
    return float((rankdata(f)[y].sum() - 0.5 * k * (k + 1)) / (k * (n - k))) if 0 < k < n else np.nan


class Ridge:
    """Kernel ridge of one topic at every lambda, from one eigendecomposition, with what was left out in closed form."""

    def __init__(self, K: np.ndarray, y: np.ndarray) -> None:
        self.e, self.U = np.linalg.eigh(K)
        self.e = np.maximum(self.e, 0.0)
        self.y, self.b = y, self.U.T @ y

    def with_targets(self, y: np.ndarray) -> Ridge:
        """The same kernel matrix, other targets."""
        other = copy(self)
        other.y, other.b = y, self.U.T @ y
        return other

    def coefficients(self, l: float) -> np.ndarray:
        return self.U @ (self.b / (self.e + l))

    def left_out_error(self, l: float) -> float:
        """Share of labels whose sign a fit without them misses."""
        residual = self.coefficients(l) / ((self.U**2) @ (1.0 / (self.e + l)))
        return float(np.mean((self.y - residual > 0) != (self.y > 0)))

    def left_out_area(self, l: float, label: np.ndarray) -> float:
        """AUC of pairs of one positive and one negative, both left out: the class balance stays as it is."""
        p, q = np.flatnonzero(label), np.flatnonzero(~label)
        if not len(p) or not len(q):
            return np.nan
        a, d = self.coefficients(l), (self.U**2) @ (1.0 / (self.e + l))  # d and x: of (K + l)^-1
        x = (self.U[p] / (self.e + l)) @ self.U[q].T
        det = d[p][:, None] * d[q] - x**2
        rp = (d[q] * a[p][:, None] - x * a[q]) / det
        rq = (d[p][:, None] * a[q] - x * a[p][:, None]) / det
        gap = (self.y[p][:, None] - rp) - (self.y[q] - rq)
        return float(np.mean(gap > 0) + 0.5 * np.mean(gap == 0))


def best_lambda(fits: list[Ridge], labels, fair: bool) -> float:
    """The lambda that is best for all topics by what is left out."""
    if fair:
        score = [np.nanmean([f.left_out_area(l, v) for f, v in zip(fits, labels, strict=True)]) for l in LAMBDAS]
    else:
        score = [-np.mean([f.left_out_error(l) for f in fits]) for l in LAMBDAS]
    return LAMBDAS[int(np.argmax(score))]


def run_ridge(draw: Draw, fair: bool) -> dict[str, dict]:
    X = draw.data.X[draw.pool]
    kappa, K_all = (X @ X.T).toarray(), (draw.data.X @ X.T).toarray()
    labels = [draw.data.member[draw.pool[r], t] for r, t in zip(draw.rows, draw.topics, strict=True)]
    ys = [np.where(v, 1.0, -1.0) for v in labels]
    if fair:
        ys = [y - y.mean() for y in ys]
    fits = [Ridge(kappa[np.ix_(r, r)], y) for r, y in zip(draw.rows, ys, strict=True)]
    best = best_lambda(fits, labels, fair)
    scores = {}
    for l in LAMBDAS:
        F = np.column_stack([K_all[:, r] @ f.coefficients(l) for r, f in zip(draw.rows, fits, strict=True)])
        scores[l] = draw.evaluate(F, fair)
    hindsight = max(LAMBDAS, key=lambda l: scores[l]["AUC all"] + scores[l]["AUC partial"])
    return {
        "ridge": {**scores[best], "lambda": best},
        "ridge, best in hindsight": {**scores[hindsight], "lambda": hindsight},
    }


def svm(K: np.ndarray, y: np.ndarray, C: float, fair: bool, X=None):
    """Fitted to kernel rows (with an intercept) or to inputs (without)."""
    if fair:
        return SVC(C=C, kernel="precomputed", cache_size=50).fit(K, y)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # C = 10 is not always solved to the last digit
        return LinearSVC(C=C, loss="hinge", fit_intercept=False, max_iter=1000, random_state=0).fit(X, y)


def fit_svm(K: np.ndarray, y: np.ndarray, C: float, fair: bool, X=None):
    """Scores from kernel rows (with an intercept) or from inputs (without)."""
    machine = svm(K, y, C, fair, X)
    return lambda Kt, Xt: machine.decision_function(Kt if fair else Xt)


def svm_cost(Ks, Xs, ys, fair: bool) -> float:
    """One C for all topics, by three folds."""
    total = np.zeros(len(COSTS))
    for K, X, y in zip(Ks, Xs, ys, strict=True):
        if min((y > 0).sum(), (y < 0).sum()) < 3:
            continue
        for seen, left in StratifiedKFold(3, shuffle=True, random_state=0).split(K, y):
            for i, C in enumerate(COSTS):
                part = None if fair else X[seen]
                score = fit_svm(K[np.ix_(seen, seen)], y[seen], C, fair, part)(K[np.ix_(left, seen)], X[left])
                total[i] += area(score, y[left] > 0) if fair else np.mean((score > 0) == (y[left] > 0))
    return COSTS[int(np.argmax(total))]


def run_svm(draw: Draw, fair: bool) -> dict[str, dict]:
    X = draw.data.X[draw.pool]
    kappa, K_all = (X @ X.T).toarray(), (draw.data.X @ X.T).toarray()
    ys = [np.where(draw.data.member[draw.pool[r], t], 1, -1) for r, t in zip(draw.rows, draw.topics, strict=True)]
    Ks, Xs = [kappa[np.ix_(r, r)] for r in draw.rows], [X[r] for r in draw.rows]
    C = svm_cost(Ks, Xs, ys, fair)
    columns = []
    for K, x, y, r in zip(Ks, Xs, ys, draw.rows, strict=True):
        columns.append(fit_svm(K, y, C, fair, x)(K_all[:, r], draw.data.X))
    svm = {**draw.evaluate(np.column_stack(columns), fair), "C": C}
    return {"SVM": svm, "regularised multi-task": run_regularised(draw, ys, C, fair)}


def coupled_rows(X, tasks: np.ndarray, n_tasks: int, mu: float, intercept: bool):
    """[x / sqrt(mu), x in the block of its task]: the kernel (1/mu + same task) x'z of Evgeniou & Pontil (2004)."""
    if intercept:
        X = sparse.csr_array(sparse.hstack([X, np.ones((X.shape[0], 1))]))
    n, d = X.shape
    own = sparse.csr_array(
        (X.data, X.indices + d * np.repeat(tasks, np.diff(X.indptr)).astype(np.int64), X.indptr), shape=(n, n_tasks * d)
    )
    both = sparse.csr_array(sparse.hstack([X / np.sqrt(mu), own]))
    both.indices, both.indptr = both.indices.astype(np.int32), both.indptr.astype(np.int32)  # as liblinear wants them
    return both


def run_regularised(draw: Draw, ys, C: float, fair: bool) -> dict:
    X, m = draw.data.X, len(draw.topics)
    rows = np.concatenate([draw.pool[r] for r in draw.rows])
    task, y = np.repeat(np.arange(m), [len(r) for r in draw.rows]), np.concatenate(ys)
    held = np.random.default_rng(0).random(len(y)) < 0.2

    def fit(some, mu):
        Z = coupled_rows(X[rows[some]], task[some], m, mu, fair)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            return LinearSVC(C=C, loss="hinge", fit_intercept=False, max_iter=50, random_state=0).fit(Z, y[some])

    def score(mu):
        machine = fit(~held, mu)
        f = machine.decision_function(coupled_rows(X[rows[held]], task[held], m, mu, fair))
        if not fair:
            return np.mean((f > 0) == (y[held] > 0))
        return np.nanmean([area(f[task[held] == t], y[held][task[held] == t] > 0) for t in range(m)])

    mu = max(MUS, key=score)
    w = fit(np.ones(len(y), dtype=bool), mu).coef_[0]
    d = X.shape[1] + fair
    W = w[:d, None] / np.sqrt(mu) + w[d:].reshape(m, d).T
    F = X @ W[: X.shape[1]] + (W[-1] if fair else 0.0)
    return {**draw.evaluate(F, fair), "C": C, "mu": mu}


def run_multi_task(
    draw: Draw, fair: bool, iterations: int, keep: Path | None, plain: bool, ours: bool
) -> dict[str, dict]:
    """The paper's EM, on targets as they are or centred; and our defaults."""
    X, y = draw.data.X[draw.pool], draw.targets()
    out = {}
    if plain:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # the number of iterations is given
            start = time.perf_counter()
            target = y - np.nanmean(y, axis=0) if fair else y
            model = borrow.HierarchicalGPRegressor(max_iter=iterations, **PAPER).fit(X, target)
            seconds = time.perf_counter() - start
        out["multi-task GP, plain EM"] = {
            **draw.evaluate(model.predict(draw.data.X), fair),
            "noise": model.noise_[0],
            "objective rises": bool(np.diff(model.objective_trace_).min() > 0),
            "seconds": seconds,
        }
        if keep is not None and not fair:
            borrow.store.save(model.learned_kernel_, keep / "paper.borrow")
    if ours:
        start = time.perf_counter()
        model = borrow.HierarchicalGPClassifier(base_kernel=Linear(1.0)).fit(X, y)
        seconds = time.perf_counter() - start
        out["multi-task GP, defaults"] = {
            **draw.evaluate(model.decision_function(draw.data.X), fair),
            "tau": str(model.covariance_strength_),
            "noise": model.fitted_.model[0].fit.state.noise,
            "iterations": model.n_iter_,
            "seconds": seconds,
        }
        if keep is not None:
            borrow.store.save(model.learned_kernel_, keep / "ours.borrow")
    return out


def one_draw(data: Topics, seed: int, iterations: int = ITERATIONS, keep: Path | None = None, **sizes: int) -> dict:
    """The multi-task GP and ridge."""
    draw, out = Draw(data, seed, **sizes), {"seed": seed}
    for name, fair in (("as the paper", False), ("fair", True)):
        start = time.process_time()
        out[name] = {**run_multi_task(draw, fair, iterations, keep, not fair, fair), **run_ridge(draw, fair)}
        out[f"CPU seconds, {name}"] = round(time.process_time() - start, 1)
    return out


def the_others(data: Topics, seed: int, iterations: int = ITERATIONS, **sizes: int) -> dict:
    """SVM, regularised multi-task learning, and plain EM on centred targets."""
    draw, out = Draw(data, seed, **sizes), {}
    for name, fair in (("as the paper", False), ("fair", True)):
        start = time.process_time()
        out[name] = {**run_multi_task(draw, fair, iterations, None, fair, False), **run_svm(draw, fair)}
        out[f"CPU seconds of the others, {name}"] = round(time.process_time() - start, 1)
    return out


def is_kept(file: Path, grids: dict) -> bool:
    """Whether the record is there, and was made with these grids."""
    return file.exists() and json.loads(file.read_text()).get("grids") == grids


def merged(core: dict, others: dict | None) -> dict:
    if others is None:
        return core
    runs = {name: {**core[name], **others[name]} for name in ("as the paper", "fair")}
    return {**core, **others, **runs}


def summary(draws: list[dict]) -> dict:
    facts: dict = {}
    for name in ("as the paper", "fair"):
        facts[name] = {}
        for m, first in draws[0][name].items():
            some = [d[name][m] for d in draws if m in d[name]]
            facts[name][m] = {"draws": len(some)}
            for k in (k for k, v in first.items() if isinstance(v, float) and k != "tau"):
                values = [v[k] for v in some]
                sd = np.std(values, ddof=1) if len(values) > 1 else 0.0
                facts[name][m][k] = [round(float(np.mean(values)), 4), round(float(sd), 4)]

    def gap(run, one, other, what):
        return [round(d[run][one][what] - d[run][other][what], 4) for d in draws if one in d[run]]

    plain, ours = "multi-task GP, plain EM", "multi-task GP, defaults"
    facts["plain EM less ridge, partially labelled, as the paper, by draw"] = gap(
        "as the paper", plain, "ridge", "AUC partial"
    )
    for where in ("all", "partial"):
        for rival in ("ridge", "ridge, best in hindsight"):
            facts[f"defaults less {rival}, {where}, fair, by draw"] = gap("fair", ours, rival, f"AUC {where}")
        facts[f"plain EM less ridge, {where}, fair, by draw"] = gap("fair", plain, "ridge", f"AUC {where}")
    return facts


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--draws", type=int, default=10)
    parser.add_argument("--others", type=int, default=2, help="draws on which the other methods are run too")
    parser.add_argument("--first", type=int, default=0, help="seed of the first draw")
    given, data, out = parser.parse_args(), load_rcv1(), ROOT / "out" / "yu2005"

    def remembered(seed: int, name: str, make) -> dict:
        place = out / f"draw{seed}"
        place.mkdir(parents=True, exist_ok=True)
        if not is_kept(place / name, GRIDS):
            result = make(place)
            stamp = {"seed": seed, "commit": provenance()["commit"], "grids": GRIDS}
            (place / name).write_text(json.dumps({**result, **stamp}))
            for run in ("as the paper", "fair"):
                for m, v in result[run].items():
                    sys.stdout.write(f"{seed} {run:13s} {m:26s} {v['AUC all']:.4f} {v['AUC partial']:.4f}\n")
            sys.stdout.flush()
        return {"seed": seed, "commit": UNKNOWN, **json.loads((place / name).read_text())}

    seeds = range(given.first, given.first + given.draws)
    core = [remembered(s, "core.json", lambda place, s=s: one_draw(data, s, keep=place)) for s in seeds]
    more = [remembered(s, "others.json", lambda _, s=s: the_others(data, s)) for s in seeds[: given.others]]
    done = [merged(c, more[i] if i < len(more) else None) for i, c in enumerate(core)]
    made_with = {
        "multi-task GP, plain EM": borrow.HierarchicalGPRegressor(max_iter=ITERATIONS, **PAPER),
        "multi-task GP, defaults": borrow.HierarchicalGPClassifier(base_kernel=Linear(1.0)),
        "ridge": f"one lambda of {LAMBDAS} for all topics, by what is left out",
        "ridge, best in hindsight": f"one lambda of {LAMBDAS}, by the AUC of the test documents",
        "SVM": f"one C of {COSTS} for all topics, by three folds",
        "regularised multi-task": f"the SVM's C, one mu of {MUS} by a fifth of the rows",
    }
    write_result(
        "yu2005_text" + (f"_{given.first}" if given.first else ""),
        {"seeds": list(seeds), "settings": settings_of(made_with), **summary(done), "draws": done},
        [*core, *more],
    )


if __name__ == "__main__":
    main()
