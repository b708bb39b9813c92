"""Figures and notebook forms: Axes in, Axes out; what is drawn is what the model says; nothing is too long to read."""

import subprocess
import sys
from dataclasses import replace

import numpy as np
import pandas as pd
import polars as pl
import pytest

import borrow
from absent import without
from borrow.data.table import Table

matplotlib = pytest.importorskip("matplotlib", reason="figures need borrow[plot]")
matplotlib.use("Agg")
pyplot = pytest.importorskip("matplotlib.pyplot")


@pytest.fixture(autouse=True)
def close():
    yield
    pyplot.close("all")


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    X = rng.uniform(-2, 2, (24, 1))
    tasks = np.repeat(["a", "b", "c"], 8)
    y = np.sin(X[:, 0]) * np.where(tasks == "b", -1.0, 1.0) + 0.05 * rng.normal(size=24)
    return X, y, tasks


@pytest.fixture(scope="module")
def focused(rows):
    X, y, tasks = rows
    return borrow.FocusedGPRegressor(primary="b", n_restarts=0).fit(X, y, tasks=tasks)


@pytest.fixture(scope="module")
def found(rows):
    X, y, tasks = rows
    table = {"x": X[:, 0], "site": tasks, "level <b>": y}
    return borrow.compare(table, "level <b>", "site", "b", methods=["pooled"], cv=2, random_state=0)


def curve(ax, label):
    return next(line for line in ax.lines if line.get_label() == label).get_xydata()


def test_a_curve_is_the_prediction_and_its_band_holds_95_per_cent(focused):
    ax = focused.plot()
    assert [t.get_text() for t in ax.get_legend().get_texts()] == ["b", "a", "c"]  # the primary first
    for task in "abc":
        x, mean = curve(ax, task).T
        np.testing.assert_allclose(mean, focused.predict(x[:, None], tasks=task))
    x, mean = curve(ax, "b").T
    _, std = focused.predict(x[:, None], tasks="b", return_std=True)
    edges = ax.collections[0].get_paths()[0].vertices
    assert edges[:, 1].max() == pytest.approx((mean + 1.959964 * std).max(), abs=1e-6)


def test_an_axes_that_is_given_is_drawn_on_and_returned(focused, found):
    for draw in (focused.plot, focused.plot_tasks, focused.relatedness().plot, found.plot):
        _, ax = pyplot.subplots()
        before = len(pyplot.get_fignums())
        assert draw(ax=ax) is ax
        assert ax.has_data()
        assert len(pyplot.get_fignums()) == before


def test_two_inputs_of_three_are_drawn_and_the_third_is_held(rows):
    X, y, tasks = rows
    wide = np.column_stack([X, X**2, np.linspace(0, 1, len(X))])
    table = pd.DataFrame(wide, columns=["u", "v", "w"])
    model = borrow.MultiTaskGPRegressor(optimizer=None).fit(table, y, tasks=tasks)
    with pytest.raises(ValueError, match="the model has 3 inputs; give inputs=, one or two of 'u', 'v'"):
        model.plot()
    ax = model.plot(inputs=["w", "u"], tasks="c")
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("w", "u")
    assert any(t.get_text() == f"held at the median: v {np.median(wide[:, 1]):.3g}" for t in ax.texts)
    with pytest.raises(ValueError, match="expected one or two of"):
        model.plot(inputs="x")
    with pytest.raises(ValueError, match="expected tasks of the model"):
        model.plot(inputs="u", tasks=["d"])
    ax = model.plot_tasks()
    np.testing.assert_allclose(ax.images[0].get_array(), model.task_correlations_)


def test_labels_are_drawn_as_probabilities_over_inputs_that_are_given(rows):
    X, y, tasks = rows
    model = borrow.SingleTaskGPClassifier(max_iter=3, optimizer=None).fit(X, np.where(y > 0, "up", "down"), tasks=tasks)
    with pytest.raises(ValueError, match="keeps no rows to draw over; give X="):
        model.plot()
    x, p = curve(model.plot(X=X, tasks="a"), "a").T
    asked = {"tasks": ["a"] * len(x)}
    np.testing.assert_allclose(p, model.predict_proba(x[:, None], **asked)[:, 1])
    ax = model.plot(X=X, tasks="a")
    edges = model.probability_quantiles(x[:, None], (0.025, 0.975), **asked)
    np.testing.assert_allclose([line.get_ydata() for line in ax.lines[:2]], edges.T)
    line = borrow.RegularizedMultiTaskClassifier().fit(X, np.where(y > 0, "up", "down"), tasks=tasks)
    assert len(line.plot(X=X, tasks="a").lines) == 1  # no distribution of functions, no band
    with pytest.raises(ValueError, match="learns no correlations between tasks"):
        model.plot_tasks()


def test_intervals_of_a_table_are_those_of_its_columns(focused, found):
    related = focused.relatedness()
    ax = related.plot()
    bars = {round(p.vertices[0, 1]): p.vertices[:, 0] for p in ax.collections[0].get_paths()}
    for i, row in enumerate(related.rows()):
        np.testing.assert_allclose(bars[i], row["rho"] + 1.959964 * row["std_error"] * np.array([-1, 1]), rtol=1e-5)
    bars = [p.vertices[:, 0] for p in found.plot().collections[0].get_paths()]
    table = found.table()
    borrowing = [row for row in table.rows() if row["method"] in ("ridge_tasks", "pooled")]
    np.testing.assert_allclose(bars, [[row["low"], row["high"]] for row in borrowing])
    with pytest.raises(ValueError, match="no interval to draw: columns with one are error, difference"):
        table.plot("seconds")


def test_a_table_becomes_a_frame():
    table = Table({"task": ["a", 2], "gain": [0.5, float("nan")]})
    pd.testing.assert_frame_equal(table.to_pandas(), pd.DataFrame({"task": ["a", 2], "gain": [0.5, np.nan]}))
    numbers = Table({"task": ["a", "b"], "rows": [1, 2]})
    assert numbers.to_polars().equals(pl.DataFrame({"task": ["a", "b"], "rows": [1, 2]}))


def test_a_notebook_shows_what_matters_escaped_and_short(found, focused):
    assert len(repr(found)) < 200
    assert "5 methods for 'b' on 2 folds: mean absolute error" in repr(found)
    assert len(repr(found.verdict())) < 250
    assert found.verdict().answer in repr(found.verdict())
    shown = found._repr_html_()
    assert shown.count("<table>") >= 1
    assert found.verdict().sentence.split("'")[0] in shown
    hostile = replace(found.verdict(), sentence="<script>", advice=["<b>"])
    assert "&lt;script&gt;" in hostile._repr_html_()
    assert "<script>" not in hostile._repr_html_()
    html = focused._repr_mimebundle_()["text/html"]
    assert "learnt by the fit" in html
    assert "<code>log_marginal_likelihood_</code>" in html
    assert html.startswith(borrow.FocusedGPRegressor(primary="b", n_restarts=0)._repr_mimebundle_()["text/html"][:10])
    assert "learnt by the fit" in focused._repr_html_()
    assert "learnt by the fit" not in borrow.FocusedGPRegressor(primary="b")._repr_mimebundle_()["text/html"]


def test_a_comparison_writes_its_report(found, rows, tmp_path):
    X, y, tasks = rows
    page = found.report(tmp_path / "page.html", {"x": X[:, 0], "site": tasks, "level <b>": y})
    content = borrow.report.read(page)
    assert content["predictions"] is not None
    assert content["parts"][0]["verdict"]["sentence"] == found.verdict().sentence


def test_without_matplotlib_the_error_names_the_extra():
    code = without("matplotlib") + (
        "from borrow.data.table import Table\n"
        "try: Table({'task': ['a'], 'rho': [1.0], 'std_error': [0.1]}).plot()\n"
        "except ModuleNotFoundError as error: print(error)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "pip install 'borrow[plot]'" in done.stdout
