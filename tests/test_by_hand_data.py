"""Rows, cells, scales, grids, orders and columns against figures that are worked out by hand."""

import datetime

import numpy as np
import pandas as pd
import pytest

import borrow
from borrow.data import content, encode, encoder, labels, read, scaling, written
from borrow.data.cells import Rows, merge, thin
from borrow.estimators.base import with_encoder

# Cells. ---------------------------------------------------------------------------------------------------------------


def rows_of(X, task, y, weight=None, replicates=None, names=("a", "b")):
    n = len(y)
    whole = [np.ones(n) if v is None else np.asarray(v, dtype=float) for v in (weight, replicates)]
    return Rows(np.asarray(X, dtype=float), np.asarray(task), names, np.asarray(y, dtype=float), *whole, np.arange(n))


def test_cells_by_hand():
    """Two rows of one input with weights 1 and 2 and means of 1 and 3 replicates; a row by itself; another task."""
    X, task = [[1.0], [0.0], [1.0], [1.0]], [0, 0, 0, 1]
    cells = merge(np.array(X), np.array(task), np.array([2.0, 5.0, 4.0, 7.0]), np.array([1.0, 1.0, 2.0, 1.0]),
                  np.array([1.0, 1.0, 3.0, 1.0]), 2)  # fmt: skip
    np.testing.assert_array_equal(cells.X[:, 0], [0.0, 1.0, 1.0])
    np.testing.assert_allclose(cells.y, [5.0, (2.0 + 6.0 * 4.0) / 7.0, 7.0])
    np.testing.assert_allclose(cells.count, [1.0, 7.0, 1.0])
    np.testing.assert_array_equal(cells.starts, [0, 2, 3])
    np.testing.assert_array_equal(cells.task, [0, 0, 1])
    np.testing.assert_allclose(cells.dof, [2.0, 0.0])
    mean = 26.0 / 7.0
    np.testing.assert_allclose(cells.scatter, [(2.0 - mean) ** 2 + 6.0 * (4.0 - mean) ** 2, 0.0], atol=1e-12)
    np.testing.assert_allclose(cells.log_count, [0.5 * (2.0 * np.log(3.0) - np.log(7.0)), 0.0], atol=1e-12)
    assert (cells.of(0), cells.of(1)) == (slice(0, 2), slice(2, 3))
    second = cells.only(1)
    np.testing.assert_array_equal(second.y, [7.0])
    assert second.least_noise is None
    turned = cells.some([1, 0])
    np.testing.assert_array_equal(turned.starts, [0, 1, 3])
    np.testing.assert_allclose(turned.dof, [0.0, 2.0])


def test_thinned_cells_by_hand():
    X = np.arange(7.0)[:, None]
    cells = merge(np.vstack([X, X[:1]]), np.array([0] * 5 + [1] * 2 + [0]), np.arange(8.0), np.ones(8), np.ones(8), 2)
    few = thin(cells, 3)
    np.testing.assert_array_equal(few.X[:, 0], [0.0, 2.0, 4.0, 5.0, 6.0])
    np.testing.assert_array_equal(few.starts, [0, 3, 5])
    np.testing.assert_allclose(few.dof, [0.6, 0.0])
    np.testing.assert_allclose(few.scatter, 0.6 * cells.scatter)
    np.testing.assert_allclose(few.log_count, 0.6 * cells.log_count)
    assert thin(cells, 5) is cells
    own = thin(cells, np.array([2, 1]))  # so many of the first task, so many of the second
    np.testing.assert_array_equal(own.X[:, 0], [0.0, 4.0, 5.0])
    np.testing.assert_array_equal(own.starts, [0, 2, 3])


def test_some_rows_of_all():
    rows = rows_of([[0.0], [1.0], [2.0]], [0, 1, 0], [1.0, np.nan, 3.0])
    one = rows.only("a")
    np.testing.assert_array_equal(one.y, [1.0, 3.0])
    np.testing.assert_array_equal(one.number, [0, 2])
    assert one.labels == ("a",)
    seen, free = rows.labelled()
    np.testing.assert_array_equal(seen.task, [0, 0])
    assert [len(f) for f in free] == [0, 1]
    ordered = Rows(np.ones((2, 2)), np.zeros(2, dtype=int), ("a",), np.zeros(2), np.ones(2), np.ones(2), None,
                   np.array([1, 0]))  # fmt: skip
    np.testing.assert_array_equal(ordered.take([0]).columns, [1, 0])  # an order of columns is none of rows


# Scales. --------------------------------------------------------------------------------------------------------------


def cells_of(targets):
    """One task per list of targets, all at inputs apart."""
    task = np.repeat(np.arange(len(targets)), [len(t) for t in targets])
    y = np.concatenate([np.asarray(t, dtype=float) for t in targets])
    return merge(np.arange(len(y), dtype=float)[:, None], task, y, np.ones(len(y)), np.ones(len(y)), len(targets))


def test_scaling_by_one_figure_for_all_tasks():
    cells = cells_of([[0.0, 2.0], [4.0, 6.0]])
    found = scaling.scale(cells, np.array([2.0, 2.0]), "common", ())
    np.testing.assert_allclose(found.center, 3.0)
    np.testing.assert_allclose(found.scale, np.sqrt(5.0))
    assert found.log_volume == pytest.approx(4.0 * np.log(np.sqrt(5.0)))
    flat = scaling.scale(cells_of([[4.0, 4.0]]), np.array([2.0]), "common", ())
    assert (flat.center[0], flat.scale[0]) == (4.0, 1.0)


def test_scaling_by_task_is_shrunk_by_hand():
    """Means 0, 1 and 5 of variances 1, 1 and 4: empirical Bayes written out."""
    targets = [[-1.0, 1.0] * 4, [0.0, 2.0] * 4, [3.0, 7.0] * 4]
    found = scaling.scale(cells_of(targets), np.array([8.0, 8.0, 8.0]), True, ())

    def shrink(value, sampling):
        between = max(np.var(value, ddof=1) - np.mean(sampling), 0.0)
        keep = between / (between + sampling) if between else 0.0 * sampling
        return np.mean(value) + keep * (value - np.mean(value))

    log_variance = shrink(np.log([1.0, 1.0, 4.0]), np.full(3, 2.0 / 7.0))
    np.testing.assert_allclose(found.scale, np.exp(0.5 * log_variance))
    np.testing.assert_allclose(found.center, shrink(np.array([0.0, 1.0, 5.0]), np.array([1.0, 1.0, 4.0]) / 8.0))
    assert found.log_volume == pytest.approx(8.0 * np.log(found.scale).sum())
    kept = scaling.scale(cells_of(targets), np.array([8.0, 8.0, 8.0]), True, (2,))
    assert (kept.center[2], kept.scale[2]) == (5.0, 2.0)
    np.testing.assert_allclose(kept.scale[:2], 1.0)
    typical = found.typical()
    assert typical.scale[0] == pytest.approx(np.prod(found.scale) ** (1.0 / 3.0))
    assert typical.center[0] == pytest.approx(found.center.mean())


def test_one_task_has_its_own_figures_and_one_that_says_nothing_those_of_the_others():
    one = scaling.scale(cells_of([[1.0, 5.0]]), np.array([2.0]), True, ())
    assert (one.center[0], one.scale[0]) == (3.0, 2.0)
    two = scaling.scale(cells_of([[1.0, 5.0], []]), np.array([2.0, 0.0]), True, ())
    np.testing.assert_allclose(two.center, 3.0)
    np.testing.assert_allclose(two.scale, 2.0)


def test_data_of_one_task_keep_the_units_they_have_among_all():
    X, y = np.array([[0.0], [0.0], [1.0], [2.0], [3.0]]), np.array([1.0, 3.0, 8.0, 100.0, 140.0])
    data = scaling.build(rows_of(X, [0, 0, 0, 1, 1], y), True)
    alone = data.only(0)
    assert alone.scaling.log_volume == pytest.approx(3.0 * np.log(data.scaling.scale[0]))
    np.testing.assert_array_equal(alone.number, data.number[:2])
    np.testing.assert_allclose(alone.cells.y, data.cells.y[:2])
    assert data.inputs(1).shape == (2, 1)


def test_units_of_a_new_task_by_hand():
    """Eight targets of variance 4 and mean 10 beside tasks of scale 1 around 0: shrunk by what tasks differ."""
    y = np.array([8.0, 12.0] * 4)
    centers, scales = np.array([-1.0, 1.0, 3.0]), np.array([0.5, 1.0, 2.0])
    center, scale = scaling.units_of_new_task(y, centers, scales)
    logs = 2.0 * np.log(scales)
    between = np.var(logs, ddof=1)
    expected = logs.mean() + between / (between + 2.0 / 7.0) * (np.log(4.0) - logs.mean())
    assert scale == pytest.approx(np.exp(0.5 * expected))
    between, sampling = 4.0, scale**2 / 8.0
    assert center == pytest.approx(1.0 + between / (between + sampling) * 9.0)
    assert scaling.units_of_new_task(np.array([]), centers, scales) == (pytest.approx(1.0), pytest.approx(1.0))


def test_column_scales_by_hand():
    X = np.array([[0.0, 5.0], [2.0, 5.0], [4.0, 5.0]])
    np.testing.assert_allclose(scaling.column_scales(X, np.array([1.0, 1.0, 2.0])), [np.sqrt(2.75), 1.0])


# Grids of targets. ----------------------------------------------------------------------------------------------------


def test_grids_by_hand():
    assert scaling.grid_width(np.array([0.0, 0.5, 0.5, 2.0, 2.0, 0.0])) == 0.5
    assert scaling.grid_width(np.array([0.0, 0.5, 2.0])) == 0.0  # nothing repeats
    assert scaling.grid_width(np.array([0.0, 1.0] * 5)) == 0.0  # two values are labels
    assert scaling.grid_width(np.array([0.0, 0.5, 1.3, 0.0, 0.5, 1.3])) == 0.0  # no multiples
    assert scaling.grid_width(np.array([1.0, 1.0 + 1e-12, 2.0] * 3)) == 0.0
    assert scaling.grid_width(np.arange(3.0)) == 0.0
    assert scaling.grid_width(np.repeat(np.arange(3.0), 2)) == 1.0
    rows = rows_of(np.zeros((6, 1)), [0, 0, 0, 0, 1, 1], [1.0, 2.0, 3.0, 3.0, 2.0, 1.0])
    np.testing.assert_allclose(scaling.rounding_variance(rows, 2), 1.0 / 12.0)
    apart = rows_of(np.zeros((8, 1)), [0] * 6 + [1, 1], [1.0, 1.0, 3.0, 3.0, 5.0, 5.0, 0.17, 7.93])
    np.testing.assert_allclose(scaling.rounding_variance(apart, 2), [4.0 / 12.0, 0.0])
    means = rows_of(np.zeros((6, 1)), [0] * 6, [1.0, 2.0, 3.0, 3.0, 2.0, 1.0], replicates=[2.0] * 6)
    np.testing.assert_array_equal(scaling.rounding_variance(means, 2), 0.0)
    mixed = rows_of(np.zeros((6, 1)), [0] * 6, [1.0, 2.0, 3.0, 3.0, 2.0, 1.0], replicates=[1.0] * 5 + [2.0])
    np.testing.assert_array_equal(scaling.rounding_variance(mixed, 2), 0.0)  # one of them is a mean


def test_least_noise_by_hand():
    """A task of three equal targets has a tenth of the typical variance 2 over 1 + 3 rows."""
    found = scaling.least_noise(np.array([0.0, 0.01, 0.01]), np.array([1.0, 4.0, np.nan]), np.array([5.0, 5.0, 3.0]))
    np.testing.assert_allclose(found, [0.0, 0.01, 0.1 * 2.0 / 4.0])
    one = scaling.least_noise(np.zeros(1), np.array([np.nan]), np.array([1.0]))
    np.testing.assert_array_equal(one, 0.0)  # a single target is no sign of little noise


# Orders by content. ---------------------------------------------------------------------------------------------------


def test_bits_are_mixed_as_in_splitmix64():
    """The first numbers of splitmix64 with the seed 0, from its authors' page."""
    step = 0x9E3779B97F4A7C15
    seeds = np.array([(k * step) % 2**64 for k in range(3)], dtype=np.uint64)
    expected = [0xE220A8397B1DCDAF, 0x6E789E6AA1B965F4, 0x06C45D188009454F]
    assert content._mix(seeds).tolist() == expected


def test_ranks_by_hand():
    y, task = np.array([5.0, 1.0, 3.0, 3.0, 9.0, 7.0]), np.array([0, 0, 0, 0, 1, 1])
    np.testing.assert_array_equal(content._ranks_within(y, task, folded=False), [2.0, 0.0, 1.0, 1.0, 1.0, 0.0])
    np.testing.assert_array_equal(content._ranks_within(y, task), [2.0, 2.0, 0.0, 0.0, 1.0, 1.0])


@pytest.mark.parametrize("classes", [False, True])
def test_order_by_content_does_not_depend_on_names_places_or_weights(classes):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(12, 3))
    y = np.array([0.0, 1.0, 1.0] * 4) if classes else rng.normal(size=12)
    task = np.array([0, 1, 2] * 4)
    names = ("a", "b", "c")
    tasks, columns = content.content_order(X, rows_of(X, task, y, names=names), classes)
    swapped, moved = np.array([2, 0, 1]), np.array([1, 2, 0])
    again, other = content.content_order(X[:, moved], rows_of(X, swapped[task], y, names=names), classes)
    np.testing.assert_array_equal(again, swapped[tasks])
    np.testing.assert_array_equal(moved[other], columns)
    # A row of weight two is two rows: the task that has it comes first.
    weight = np.where(task == 1, 2.0, 1.0)
    heavy = content.content_order(X, rows_of(X, task, y, weight, names=names), classes)
    at = np.repeat(np.arange(12), weight.astype(int))
    repeated = content.content_order(X[at], rows_of(X[at], task[at], y[at], names=names), classes)
    np.testing.assert_array_equal(heavy[0], repeated[0])
    np.testing.assert_array_equal(heavy[1], repeated[1])
    assert heavy[0][0] == 1
    if classes:  # nor on the codes of the labels
        coded = content.content_order(X, rows_of(X, task, 1.0 - y, names=names), True)
        np.testing.assert_array_equal(coded[0], tasks)
    else:  # nor on the sign or the units of the targets
        coded = content.content_order(X, rows_of(X, task, -7.0 * y, names=names), False)
        np.testing.assert_array_equal(coded[1], columns)


def test_tasks_that_differ_in_their_labels_alone_are_told_apart_by_the_rows_that_carry_these():
    """The same inputs in both tasks: u u v v in one, u v u v in the other, whatever the codes of the labels are."""
    X = np.arange(4.0)[:, None] ** 2
    both, task = np.vstack([X, X]), np.repeat([0, 1], 4)
    y = np.array([0.0, 0.0, 1.0, 1.0, 0.0, 1.0, 0.0, 1.0])
    order = content.content_order(both, rows_of(both, task, y), True)[0]
    swapped = content.content_order(both, rows_of(both, 1 - task, 1.0 - y), True)[0]
    np.testing.assert_array_equal(swapped, 1 - order)


# Labels and rows. -----------------------------------------------------------------------------------------------------


def test_lists_of_labels_are_cut_beyond_twelve():
    assert labels.list_labels(list(range(12))).endswith("10, 11")
    assert labels.list_labels(list(range(13))).endswith("11, ... (13 in all)")
    assert labels.did_you_mean("scroe", ["score", "hours"]) == "; did you mean 'score'?"
    assert labels.did_you_mean("zzz", ["score", "hours"]) == ""
    assert (labels.counted(1, "row"), labels.counted(1200, "row")) == ("1 row", "1,200 rows")


def fit(X, y, tasks=None, **more):
    return borrow.SingleTaskGPRegressor(optimizer=None, **more).fit(X, y, tasks=tasks)


def test_weights_and_labels_per_row():
    X, y = np.arange(4.0)[:, None], np.arange(4.0)
    model = borrow.SingleTaskGPRegressor(optimizer=None)
    one = model.fit(X, y, sample_weight=2.0).predict(X)
    np.testing.assert_array_equal(one, model.fit(X, y, sample_weight=[2.0] * 4).predict(X))
    with pytest.raises(ValueError, match="sample_weight must be 1D array or a number, got an array of 2 dimensions"):
        model.fit(X, y, sample_weight=np.ones((4, 1)))
    said = {
        -1.0: "must be finite and not negative; it is -1 in row 1",
        np.inf: "must be finite and not negative; it is inf in row 1",
        1e200: r"must be finite and not negative, from 1e-100 to 1e\+09; it is 1e\+200 in row 1",
        2e9: r"must be finite and not negative, from 1e-100 to 1e\+09; it is 2e\+09 in row 1",
        1e-101: r"must be finite and not negative, from 1e-100 to 1e\+09; it is 1e-101 in row 1",
    }
    for value, match in said.items():
        with pytest.raises(ValueError, match=match):
            model.fit(X, y, sample_weight=[1.0, value, 1.0, 1.0])
    with pytest.raises(ValueError, match="sample_weight holds no number larger than 1e-10, too small to be computed"):
        model.fit(X, y, sample_weight=1e-10)
    with pytest.raises(ValueError, match="replicates must be finite and positive; it is 0 in row 2"):
        model.fit(X, y, replicates=[1.0, 1.0, 0.0, 1.0])
    column = np.array([["a"], ["b"], ["a"], ["b"]], dtype=object)
    assert read.task_values(column, 4) == ["a", "b", "a", "b"]
    assert read.task_values(np.array(["a", "b"]), 2) == ["a", "b"]


def test_largest_numbers_are_still_computed_with():
    ok = np.array([[1e100], [0.0], [np.nan]])
    read.refuse_sizes(ok, ["y"], 1e-100)
    with pytest.raises(ValueError, match=r"y holds 1\.01e\+100, .* in row 1; choose other units"):
        read.refuse_sizes(np.array([[1e100], [1.01e100]]), ["y"])
    read.refuse_sizes(np.zeros((2, 1)), ["y"], 1e-100)  # nothing but zeros is no matter of units
    read.refuse_sizes(np.zeros((0, 1)), ["y"], 1e-100)
    with pytest.raises(ValueError, match=r"y holds no number larger than 5e-101"):
        read.refuse_sizes(np.array([[5e-101], [0.0]]), ["y"], 1e-100)


def test_columns_of_an_array_are_counted_as_they_were_given():
    """The task column is taken out: those behind it keep their numbers in what is said."""
    X = np.array([[0.0, 1.0, 2.0], [1.0, 0.0, np.nan], [2.0, 1.0, 3.0]])
    for task, number in ((0, 2), (1, 2)):
        with pytest.raises(ValueError, match=f"in row 1, column {number};"):
            borrow.SingleTaskGPRegressor(task=task).fit(X, np.arange(3.0))
    with pytest.raises(ValueError, match="in row 1, column 2;"):
        borrow.SingleTaskGPRegressor().fit(X, np.arange(3.0))


def test_what_new_rows_lack_or_have_too_much_is_named():
    frame = pd.DataFrame({"x": [0.0, 1.0, 2.0, 3.0], "who": list("abab")})
    model = borrow.SingleTaskGPRegressor(task="who", optimizer=None).fit(frame, [0.0, 1.0, 0.5, 0.2])
    both = model.predict(frame)
    np.testing.assert_array_equal(model.predict(frame[["who", "x"]]), both)  # by name, in any order
    np.testing.assert_array_equal(model.predict(frame[["x"]], tasks=list("abab")), both)
    with pytest.raises(
        ValueError, match="X has the column 'whom', which fit did not see, and no task column 'who'; did"
    ):
        model.predict(frame.rename(columns={"who": "whom"}))
    with pytest.raises(ValueError, match="X lacks 'x'"):
        model.predict(pd.DataFrame({"z": [0.0]}))
    with pytest.raises(ValueError, match="put the task column 'who' into X, or give tasks=, one of 'a', 'b'"):
        model.predict(frame[["x"]])
    with pytest.raises(ValueError, match="X has the task column 'who' and tasks= was given too"):
        model.predict(frame, tasks=list("abab"))
    with pytest.raises(ValueError, match="task='who' names a column of X and tasks= was given too"):
        borrow.SingleTaskGPRegressor(task="who").fit(frame, np.zeros(4), tasks=list("abab"))
    # A frame without that column, and tasks beside it: nothing names them twice.
    beside = borrow.SingleTaskGPRegressor(task="who", optimizer=None)
    beside.fit(frame[["x"]], [0.0, 1.0, 0.5, 0.2], tasks=list("abab"))
    np.testing.assert_array_equal(beside.predict(frame[["x"]], tasks=list("abab")), both)
    with pytest.raises(ValueError, match="nothing says which task these rows belong to; give tasks=, one of 'a', 'b'"):
        beside.predict(frame[["x"]])


def test_a_frame_of_levels_is_encoded_unless_it_is_already():
    frame = pd.DataFrame({"x": np.arange(8.0) ** 1.5, "site": list("uvuvuuvv")})
    encoder = borrow.TableEncoder().fit(frame)
    encoded = encoder.transform(frame)
    model = with_encoder(fit(encoded, np.sin(np.arange(8.0))), encoder)
    assert list(encoded.columns) != list(frame.columns)
    np.testing.assert_array_equal(model.predict(frame), model.predict(encoded))
    np.testing.assert_array_equal(model.predict(frame[["site", "x"]]), model.predict(frame))


def test_an_array_of_other_columns_and_a_task_never_seen_are_refused():
    model = fit(np.arange(6.0)[:, None], np.arange(6.0), list("ababab"))
    with pytest.raises(ValueError, match="X has 3 features, but SingleTaskGPRegressor is expecting 1 features"):
        model.predict(np.zeros((2, 3)), tasks=["a", "b"])
    with pytest.raises(ValueError, match="unknown task 'c': fit saw no row of it; tasks are 'a', 'b'"):
        model.predict(np.zeros((1, 1)), tasks=["c"])
    with pytest.raises(ValueError, match="there are 3 task labels for 2 rows"):
        model.predict(np.zeros((2, 1)), tasks=["a", "b", "a"])


def test_labels_of_classes_are_whole_where_gaps_made_them_floats():
    codes, _, classes = read.read_classes(np.array([1.0, np.nan, 3.0]), "It")
    assert (classes.dtype.kind, classes.tolist()) == ("i", [1, 3])
    np.testing.assert_array_equal(codes, [0.0, np.nan, 1.0])
    assert read.read_classes(np.array([1.0, 2.0]), "It")[2].dtype.kind == "f"  # as they were given
    with pytest.raises(ValueError, match="Unknown label type"):
        read.read_classes(np.array([1.5, np.nan, 3.0]), "It")
    assert read.read_classes(np.array(["u", None, "v"], dtype=object), "It")[0].tolist()[::2] == [0.0, 1.0]
    gap, _, classes = read.read_classes(["u", np.nan, "v"], "It")  # a list keeps what its entries are
    assert (np.isnan(gap[1]), classes.tolist(), classes.dtype.kind) == (True, ["u", "v"], "U")
    for mixed in ([1, "1", 2], ["u", 1.5]):
        with pytest.raises(ValueError, match="y holds labels of several kinds"):
            read.read_classes(mixed, "It")
    single, _, _ = read.read_classes(np.array([4, 4]), "It")
    np.testing.assert_array_equal(single, 1.0)


def test_pairs_of_one_width_are_stacked():
    pairs = [([[0.0], [1.0]], [0.0, 1.0]), ([[2.0]], [3.0])]
    model = borrow.SingleTaskGPRegressor(optimizer=None).fit(pairs)
    assert list(model.tasks_) == [0, 1]
    with pytest.raises(ValueError, match="differ in their number of columns"):
        borrow.SingleTaskGPRegressor().fit([([[0.0], [1.0]], [0.0, 1.0]), ([[2.0, 1.0]], [3.0])])


def test_a_row_of_wide_targets_with_one_number_is_enough():
    X = np.arange(3.0)[:, None]
    Y = np.array([[1.0, np.nan], [np.nan, np.nan], [0.0, 2.0]])
    found = fit(X, Y).predict(X)
    assert found.shape == (3, 2)
    with pytest.raises(ValueError, match="every y is NaN"):
        fit(X, np.full((3, 2), np.nan))
    with pytest.raises(ValueError, match="every row has a NaN y or a sample_weight of zero"):
        borrow.SingleTaskGPRegressor().fit(X, [1.0, np.nan, np.nan], sample_weight=[0.0, 1.0, 1.0])


# Columns of a table. --------------------------------------------------------------------------------------------------


def test_times_in_days_and_hours_by_hand():
    half = datetime.timedelta(hours=12)
    frame = pd.DataFrame({"t": [half, datetime.timedelta(days=3)], "x": [1.0, 2.0]})
    np.testing.assert_allclose(borrow.TableEncoder().fit_transform(frame)["t"], [0.5, 3.0])
    assert encode._as_number(np.timedelta64(36, "h")) == 1.5
    assert encode.Times("t").read([datetime.time(6, 30, 36)])[0] == pytest.approx(6.51)
    assert encode._as_number(" ") is None
    assert encode.Dates("d").read([datetime.datetime(1970, 1, 3, 6)])[0] == 2.25
    assert encode.Dates("d").read([datetime.date(1970, 2, 1)])[0] == 31.0
    assert encode.Dates("d").read([np.datetime64("1969-12-31")])[0] == -1.0
    assert encode.Dates("d").read(["1970-01"])[0] == 0.0
    assert encode.Dates("d", day_first=True).read(["31.12.1970"])[0] == 364.0
    utc = datetime.timezone(datetime.timedelta(hours=2))
    assert encode.Dates("d").read([datetime.datetime(1970, 1, 1, 2, tzinfo=utc)])[0] == 0.0
    assert np.isnan(encode.Dates("d").read([np.datetime64("NaT")])[0])


def test_day_first_is_seen_from_numbers_above_twelve():
    assert written.day_first("d", ["01/02/2020", "13/02/2020"])
    assert not written.day_first("d", ["01/02/2020", "01/13/2020"])
    assert written.day_first("d", ["01.02.2020"])
    with pytest.raises(ValueError, match="nothing tells whether the day or the month comes first"):
        written.day_first("d", ["12/12/2020"])


@pytest.mark.parametrize(
    ("values", "said"),
    [
        (["u", "u", "u"], "it is 'u' in every row"),
        (["u", None, "u"], "it is 'u' in every row that has one"),
        ([f"n{i}" for i in range(9)], "it has a different text in every row"),
        ([None, " "], "it holds no value"),
        (["nan", "NaN"], "it holds no value"),
    ],
)
def test_columns_that_say_nothing_are_left_out(values, said):
    found = encode.decide("c", values)
    assert isinstance(found, encode.Dropped)
    assert found.why.startswith(said)


def test_texts_are_free_by_their_length_or_words_and_levels_otherwise():
    long = [f"patient number {i} came in and said that it hurts quite a lot" for i in range(9)]
    with pytest.raises(ValueError, match="column 'c' holds free text"):
        encode.decide("c", long)
    assert isinstance(encode.decide("c", ["one two"] * 3 + ["three"] * 3), encode.Levels)
    assert isinstance(encode.decide("c", ["two words", "and two", "one more"]), encode.Dropped)
    with pytest.raises(ValueError, match=r"holds text \('x' in row 2\) among numbers"):
        encode.decide("c", ["1", "2", "x", "4"])
    assert isinstance(encode.decide("c", ["1", " 2"]), encode.Numbers)


def test_what_needs_encoding():
    assert not encode.needs_encoding({"x": [1, 2.5], "y": np.array([1, 2]), "z": np.array(["1", "2"], dtype=object)})
    for column in ([1.0, None], np.array([1.0, np.nan]), ["a", "b"], np.array([1, "b"], dtype=object)):
        assert encode.needs_encoding({"x": [1.0, 2.0], "c": column})
    frame = pd.DataFrame({"x": [1.0, 2.0, 3.0, 4.0], "who": list("abab")})
    assert encoder.encode_frame(frame, "who")[1] is None
    assert encoder.encode_frame(frame, None)[1] is not None  # the same column is an input where no task is named
    array = np.zeros((2, 2))
    assert encoder.encode_frame(array, "who")[0] is array


def test_whole_numbers_that_never_repeat_are_named_where_there_are_several_tasks():
    n = 60
    frame = pd.DataFrame({"x": np.arange(n) ** 1.5, "code": np.arange(n), "who": ["a", "b"] * (n // 2)})
    model = borrow.PooledGPRegressor("who", optimizer=None)
    with pytest.warns(UserWarning, match="'code' has a different whole number in every row of 2 tasks"):
        model.fit(frame, frame["x"])
    model.fit(frame.assign(who="a"), frame["x"])  # one task: it may be the day
    model.fit(frame.rename(columns={"code": "code (days)"}), frame["x"])


def test_orders_and_drops_are_checked_by_name():
    frame = pd.DataFrame({"size": ["small", "large", "small"], "x": [1.0, 2.0, 3.0], "note": ["a", "b", "b"]})
    found = borrow.TableEncoder(orders={"size": ["small", "large"]}, drop="note").fit_transform(frame)
    np.testing.assert_array_equal(found["size (order)"], [0.0, 1.0, 0.0])
    assert list(found.columns) == ["size (order)", "x"]
    for wrong, said in (
        ({"drop": ["nota"]}, "drop names 'nota'"),
        ({"orders": {"sise": ["s"]}}, "orders names 'sise'"),
    ):
        with pytest.raises(ValueError, match=f"{said}; columns are 'size', 'x', 'note'; did you mean"):
            borrow.TableEncoder(**wrong).fit(frame)
    encoder = borrow.TableEncoder().fit(frame.to_numpy())
    with pytest.raises(ValueError, match="has 2 features"):
        encoder.transform(np.zeros((2, 2)))


@pytest.mark.parametrize("name", ["SingleTaskGPRegressor", "FocusedGPRegressor", "PooledGPClassifier"])
def test_many_rows_are_answered_for_a_block_at_a_time(name, monkeypatch):
    """The same answers, and no call of the model is for more rows than a block has."""
    rng = np.random.default_rng(0)
    X, y, tasks = rng.uniform(0.0, 5.0, (24, 1)), rng.normal(size=24), np.array(["a", "b"] * 12)
    kind = getattr(borrow, name)
    given = {k: v for k, v in {"primary": "a", "optimizer": None}.items() if k in kind._get_param_names()}
    model = kind(**given).fit(X, y > 0 if name.endswith("Classifier") else y, tasks=tasks)
    new, of = rng.uniform(0.0, 5.0, (23, 1)), rng.choice(["a", "b"], 23)

    def ask():
        return model.predict_proba(new, of) if name.endswith("Classifier") else model.predict(new, of, return_std=True)

    whole, sizes = ask(), []
    monkeypatch.setattr("borrow.estimators.base.BLOCK", 5)
    inner = type(model.fitted_.model[0] if name.endswith("Classifier") else model.fitted_.model)
    what = "probability" if name.endswith("Classifier") else "predict"
    real = getattr(inner, what)
    monkeypatch.setattr(inner, what, lambda self, X, *more: sizes.append(len(X)) or real(self, X, *more))
    np.testing.assert_allclose(ask(), whole, rtol=1e-10)
    assert sizes == [5, 5, 5, 5, 3]


# Written numbers and times. -------------------------------------------------------------------------------------------


def test_two_separators_in_one_number_are_of_thousands():
    with pytest.raises(ValueError, match=r"'p' holds '\$1.234.5': a separator of thousands is not read"):
        written.units_of("p", ["$1.234.5", "$2.5"])
    assert written.units_of("p", ["$1.5", "$2.5"]) == written.Units("$", "")


def test_times_go_round_the_day_where_they_span_more_than_half_of_it():
    half, more = (encode.decide("t", ["06:00", "12:00", last]) for last in ("18:00", "18:01"))
    assert (half.round, more.round) == (False, True)


def test_inputs_with_a_label_come_first_in_a_pool():
    X = np.array([[1.0], [2.0], [3.0], [4.0]])
    y = np.array([np.nan, 5.0, np.nan, 6.0])
    pool = read.pool_of(*read.read_table(borrow.HierarchicalGPRegressor(), X, y, tasks=["a"] * 4, pooled=True)[:2])
    assert pool.n_labelled == 2
    np.testing.assert_array_equal(np.sort(pool.X[:2, 0]), [2.0, 4.0])
    np.testing.assert_array_equal(np.sort(pool.X[2:, 0]), [1.0, 3.0])
