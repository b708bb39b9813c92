"""Writes the files that `tests/test_store.py` reads as the first of the format, and what each model answered.

A file that is there is kept for ever: `python tests/stored/write.py` adds those that are not. Every estimator that is
registered is among them, and every kind of posterior, inference, kernel, encoded column and fitted part that a file can
hold. Those that end in `-first` are older, and lack fields that classes have got since.
"""

import datetime
import gzip
import json
import tempfile
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
from scipy import sparse
from sklearn.gaussian_process import kernels as sk

import borrow
from borrow import kernels
from borrow.transfer import references

HERE = Path(__file__).parent
FEW, FIXED = {"max_iter": 3}, {"optimizer": None}
#: Settings by file, of models of one class; every registered estimator is written with few iterations besides.
MODELS = {
    "MultiTaskGPRegressor": {
        "low-rank": {"rank": 1, "inducing": 4, **FEW},
        "rank": {"rank": 1, **FIXED},
        "isotropic": {"rank": 1, "diagonal": "isotropic", **FIXED},
        "diagonal": {"task_covariance": "diagonal", **FIXED},
        "uniform": {"task_covariance": "uniform", "intercept": True, **FIXED},
        "features": {"task_features": {"a": [0.0], "b": [1.0], "c": [2.0]}, **FIXED},
        "given": {"task_covariance": [[1.0, 0.5, 0.1], [0.5, 1.0, 0.0], [0.1, 0.0, 1.0]], **FIXED},
        "own": {"specific_kernel": "auto", **FEW},
    },
    "FocusedGPRegressor": {
        "background": {"background": 1, **FIXED},
        "inducing": {"inducing": 4, **FIXED},
        "given": {"rho": {"a": 0.5, "c": -0.3}, **FIXED},
    },
    "SingleTaskGPRegressor": {
        "only": {"only": "b", **FIXED},
        "foreign": {"kernel": sk.ConstantKernel(2.0, "fixed") * sk.Matern(1.0, nu=1.5) + sk.DotProduct(), **FIXED},
        "foreign-two": {"kernel": sk.RationalQuadratic(1.0, 2.0) + sk.RBF(3.0) * sk.ExpSineSquared(1.0, 2.0), **FIXED},
    },
    "PooledGPRegressor": {"inducing": {"inducing": 4, **FIXED}},
    "MultiTaskRBFRegressor": {"multi-task": {"design": "multi-task"}, "independent": {"design": "independent"}},
    "HierarchicalGPRegressor": {"linear": {"base_kernel": kernels.Linear(1.0), **FEW}},
    "FocusedGPClassifier": {"logistic": {"likelihood": "logistic", **FIXED}},
    "MultiTaskGPClassifier": {"low-rank": {"rank": 1, "inducing": 4, **FEW}},
    "DirichletProcessClassifier": {"average": {"prior_variance": "auto", **FEW}},
    "PooledGPClassifier": {"inducing": {"inducing": 4, **FEW}},
    "RidgeReference": {"ridge": {"form": "ridge"}, "tasks": {"form": "tasks"}},
    "LogisticReference": {"tasks": {"form": "tasks"}},
}
#: The same where every task has the same inputs.
COMPLETE = {"MultiTaskGPRegressor": {"complete": FEW, "em": {"solver": "em", **FEW}}}
THREE_CLASSES = ("PooledGPClassifier", "MultiTaskIVMClassifier", "HierarchicalGPClassifier")
KERNELS = {
    "stationary": kernels.Matern(1.0, 1.2, nu=2.5) * kernels.RationalQuadratic(1.0, 1.0, 0.7)
    + kernels.Periodic(1.0, 0.9, 3.0),
    "dot": kernels.Linear(0.3) + kernels.Constant(0.5) * kernels.NeuralNetwork() + kernels.SmoothLinear(),
    "learnt": kernels.LearnedKernel(
        base=kernels.SquaredExponential(1.0, 0.9), Z=np.array([[-1.0], [0.3]]), root=np.array([[0.5], [-0.2]])
    ),
}


def numbers():
    """Three tasks of three rows with one input, a target, and labels of two and three classes."""
    x = np.array([-1.7, -1.1, 0.4, -0.2, 1.3, 1.9, 0.9, -0.6, 1.1])
    y = np.sin(x) + 0.1 * np.random.default_rng(0).normal(size=9)
    noise = [0.1, -0.6, 0.8, -0.2, 0.5, 0.9, -1.3, 1.1, -0.8]
    table = with_labels(pd.DataFrame({"x": x, "group": list("abc") * 3}), y)
    return table.assign(kind=list("pqrpprqqp"), noise=noise)


def two_tasks():
    """Two of the three tasks."""
    return numbers()[lambda t: t["group"] != "c"].reset_index(drop=True)


def complete():
    """Three tasks at the same inputs."""
    table = pd.DataFrame({"x": [-1.5, -0.5, 0.5, 1.5] * 3, "group": list("aaaabbbbcccc")})
    y = np.sin(table["x"]) * np.repeat([1.0, 0.5, -1.0], 4) + 0.1 * np.random.default_rng(1).normal(size=12)
    return with_labels(table, y)


def text():
    """A table as people have it: dates, times, levels with and without an order, units, gaps, names of rows."""
    rng = np.random.default_rng(2)
    table = pd.DataFrame({"place": rng.choice(["hall", "yard", "roof"], 16), "x": rng.uniform(-2.0, 2.0, 16).round(2)})
    table["day"] = [f"2024-03-{d:02d}" for d in rng.integers(1, 29, 16)]
    table["hour"] = [f"{h:02d}:30" for h in rng.integers(0, 24, 16)]
    table["dose"] = [f"{v} %" for v in rng.integers(1, 60, 16)]
    table["grade"] = rng.choice(["low", "medium", "high"], 16)
    table["row"] = [f"r-{i:03d}" for i in range(16)]
    table.loc[[3, 8], "x"] = np.nan
    y = table["x"].fillna(0.0) + (table["place"] == "hall") + 0.1 * rng.normal(size=16)
    return with_labels(table.assign(group=list("ab") * 8), y)


def with_labels(table, y):
    """A table with its target, and with its sign as labels."""
    return table.assign(y=y.round(3), label=np.where(y > 0.1, "yes", "no"))


def models():
    """The name of a file, a model and what it is fitted to: a table and its column of targets."""
    every = [n for n in borrow.__all__ if n.endswith(("Regressor", "Classifier")) and not n.startswith("Auto")]
    for name in every:
        yield f"{name}-default", make(name, FEW), "numbers", target(name)
    for table, chosen in (("numbers", MODELS), ("complete", COMPLETE)):
        for name, settings in chosen.items():
            for path, more in settings.items():
                yield f"{name}-{path}", make(name, more), table, target(name)
    yield "FocusedGPRegressor-unrelated", make("FocusedGPRegressor", FEW), "two_tasks", "noise"
    for name in THREE_CLASSES:
        yield f"{name}-three", make(name, FEW), "numbers", "kind"
    for name in ("AutoRegressor", "AutoClassifier"):
        yield f"{name}-text", getattr(borrow, name)("group", "b", "pooled", cv=2), "text", target(name)


def target(name):
    """The column that an estimator of this name is fitted to."""
    return "y" if "Regressor" in name or name == "RidgeReference" else "label"


def make(name, settings):
    """An estimator with these settings, and of the common ones those that it has."""
    kind = getattr(borrow, name, None) or getattr(references, name)
    own = kind._get_param_names()
    given = {"task": "group", "primary": "b", "n_active": 9, "n_iter": 2, "n_components": 3, **settings}
    return kind(**{n: v for n, v in given.items() if n in own})


def question(model):
    """What is asked of a model: the name of a method, and its arguments beside the rows."""
    if isinstance(model, kernels.Kernel):
        return "__call__", {}
    return ("predict_proba", {}) if hasattr(model, "predict_proba") else ("predict", {"return_std": True})


def fitted():
    """The name of every file, what is stored, and the rows that it is asked for."""
    tables = {made.__name__: made() for made in (numbers, two_tasks, complete, text)}
    for path, kernel in KERNELS.items():
        yield f"kernel-{path}", kernel, np.array([[-1.45], [-0.85], [0.65]])
    for name, model, table, column in models():
        train = tables[table]
        rows = train.drop(columns=["y", "label", "kind", "noise"], errors="ignore")
        model.fit(rows, train[column])
        new = rows[:6].assign(x=rows["x"][:6] + 0.25)
        yield name, model, new[new["group"] == "b"] if name.startswith("Auto") or name.endswith("only") else new
        if name.endswith("default") and hasattr(model, "adapt"):
            few = train["group"] == "b"
            yield f"{name}-adapted", model.adapt(rows[few][["x"]], train[few][column]), new[["x"]]


def other_forms():
    """Of models fitted to no frame: a sparse table with wide targets; labels of several kinds beside the rows."""
    rng = np.random.default_rng(3)
    X = sparse.random_array((8, 6), density=0.4, random_state=rng, format="csr")
    linear = borrow.HierarchicalGPRegressor(base_kernel=kernels.Linear(1.0), **FEW)
    linear.fit(X, np.asarray(X @ rng.normal(size=(6, 2))))
    yield "HierarchicalGPRegressor-sparse", linear, X.toarray()[:3] + 0.5, {"tasks": [0, 1, 1]}
    x = np.linspace(-1.5, 1.5, 9)[:, None]
    labels = [1, "1", datetime.date(2024, 3, 1)]
    single = borrow.SingleTaskGPRegressor(random_state=np.random.RandomState(4), **FIXED)
    single.fit(x, np.sin(x[:, 0]), tasks=labels * 3)
    yield "SingleTaskGPRegressor-labels", single, x[:3] + 0.1, {"tasks": [1, "1", 1]}


def listed(rows):
    """Rows as JSON has them: a list of them, or a list by column."""
    if isinstance(rows, np.ndarray):
        return rows.tolist()
    return {name: [None if v != v else v for v in rows[name].tolist()] for name in rows}


def main():
    """Fit and save what has no file yet, and write down what is asked and answered."""
    answers = json.loads((HERE / "answers.json").read_text())
    with tempfile.TemporaryDirectory() as folder:
        for name, model, rows, named in [*((*found, {}) for found in fitted()), *other_forms()]:
            if name not in answers:
                path = borrow.store.save(model, Path(folder) / "model")
                (HERE / f"{name}.borrow.gz").write_bytes(gzip.compress(path.read_bytes(), mtime=0))
                ask, more = question(model)
                more |= named
                said = np.array(getattr(model, ask)(rows, **more)).tolist()
                answers[name] = {"rows": listed(rows), "ask": ask, "with": more, "answer": said}
    lines = [f"{json.dumps(name)}: {json.dumps(said)}" for name, said in answers.items()]
    (HERE / "answers.json").write_text("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    main()
