"""Writes the files that `tests/test_store.py` reads as those of the first version of the format.

They are written once for each version of the format and kept: `python tests/stored/write.py`.
"""

import json
from pathlib import Path

import numpy as np

import borrow

HERE = Path(__file__).parent


def models():
    """Small models that are fitted in a moment: how to make them, what they are asked."""
    yield borrow.HierarchicalGPRegressor(max_iter=5), "predict"
    yield borrow.MultiTaskRBFRegressor(), "predict"
    yield borrow.MultiTaskIVMClassifier(n_active=6, max_iter=3), "predict_proba"


def main():
    """Fit, save and write down what each model answers."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-2.0, 2.0, (18, 2)).round(3)
    tasks = ["a", "b", "c"] * 6
    y = np.sin(X[:, 0]) + 0.3 * X[:, 1] + 0.1 * rng.normal(size=18)
    new, new_tasks = X[:6] + 0.25, ["a", "b", "c", "c", "b", "a"]
    answers = {"borrow": borrow.__version__, "format": borrow.store.VERSION, "X": new.tolist(), "tasks": new_tasks}
    for model, ask in models():
        target = np.where(y > 0, "yes", "no") if ask == "predict_proba" else y
        model.fit(X, target, tasks=tasks)
        name = type(model).__name__
        borrow.store.save(model, HERE / f"{name}.borrow")
        answers[name] = {ask: getattr(model, ask)(new, tasks=new_tasks).tolist()}
    (HERE / "answers.json").write_text(json.dumps(answers, indent=1) + "\n")


if __name__ == "__main__":
    main()
