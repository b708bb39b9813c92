"""Cadmium in the Swiss Jura from nickel and zinc: the usual test of coregionalisation.

    python benchmarks/studies/bonilla2008_jura.py

Cadmium is known at 259 places, nickel and zinc there and at the 100 places where cadmium is to be predicted (Goovaerts
1997). Mean absolute error of cadmium (ppm) at these. One split, the literature's; nothing is random. Ridge sees the
position and, in its second row, nickel and zinc at the same place.
"""

from __future__ import annotations

import os

os.environ["OPENBLAS_NUM_THREADS"] = "1"

import sys
import time
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from sklearn.linear_model import RidgeCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import borrow
from borrow.datasets.shared_data import load_jura
from results import write_result


def main() -> None:
    jura = load_jura()
    names, test = ("Cd", "Ni", "Zn"), jura.validation
    Y = np.column_stack([jura.metals[m] for m in names])
    Y[test, 0] = np.nan
    truth = jura.metals["Cd"][test]
    multi = borrow.MultiTaskGPRegressor
    models = {
        "no transfer": borrow.SingleTaskGPRegressor(),
        "pooled": borrow.PooledGPRegressor(),
        "focused": borrow.FocusedGPRegressor(primary="Cd"),
        "diagonal": multi(task_covariance="diagonal"),
        "free form, paper": multi(share_noise=True, task_prior=None, prior=None, specific_kernel=None, max_iter=2000),
        "free form": multi(specific_kernel=None),
        "defaults": multi(),
        "rank 1 + diagonal": multi(rank=1, diagonal="free"),
        "rank 2": multi(rank=2),
        "free form + function of its own": multi(specific_kernel="auto"),
    }
    long_X = np.vstack([jura.X] * 3)
    tasks = np.repeat(names, len(jura.X))
    rows = []
    for name, model in models.items():
        start = time.perf_counter()
        model.fit(long_X, Y.T.ravel(), tasks=tasks)
        seconds = time.perf_counter() - start
        mean, std = model.predict(jura.X[test], tasks="Cd", return_std=True, include_noise=True)
        rows.append(
            {
                "method": name,
                "mean absolute error": round(float(np.mean(np.abs(mean - truth))), 4),
                "covered by 90 % band": round(float(np.mean(np.abs(mean - truth) < 1.645 * std)), 2),
                "seconds": round(seconds, 1),
            }
        )
    seen = ~test
    others = np.column_stack([jura.X, jura.metals["Ni"], jura.metals["Zn"]])
    for name, A in {"ridge on position": jura.X, "ridge on position, nickel and zinc": others}.items():
        ridge = make_pipeline(StandardScaler(), RidgeCV(np.logspace(-3, 3, 13))).fit(A[seen], jura.metals["Cd"][seen])
        error = float(np.mean(np.abs(ridge.predict(A[test]) - truth)))
        rows.append({"method": name, "mean absolute error": round(error, 4)})
    error = float(np.mean(np.abs(truth - jura.metals["Cd"][seen].mean())))
    rows.append({"method": "mean of the 259 places", "mean absolute error": round(error, 4)})
    made_with = {name: repr(model) for name, model in models.items()}
    write_result("bonilla2008_jura", {"seeds": "none", "settings": made_with, "table": rows})
    for row in rows:
        sys.stdout.write(f"{row}\n")


if __name__ == "__main__":
    main()
