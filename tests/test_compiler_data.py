"""The compiler data: the table, its long form, the page's figures, and the script that measures."""

import gzip
import importlib.util
import json
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import borrow
from borrow.datasets import load_compiler

ROOT = Path(__file__).resolve().parent.parent
NOTES = json.loads((ROOT / "data" / "compiler" / "measured.json").read_text())


def load(path):
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


measure = load(ROOT / "data" / "compiler" / "measure.py")
needs_tools = pytest.mark.skipif(
    sys.platform != "linux" or not all(map(shutil.which, ("gcc", "nm", "valgrind"))),
    reason="gcc, nm and valgrind on Linux are needed to measure",
)


@pytest.fixture(scope="module")
def data():
    return load_compiler()


def test_shapes_and_names(data):
    assert data.X.shape == (640, 13)
    assert data.speedup.shape == data.counts.shape == (640, 11)
    assert data.canonical.shape == (8, 13)
    assert data.canonical_counts.shape == (8, 11)
    assert data.features.shape == (11, 8)
    assert data.flags == measure.FLAGS
    assert data.programs == measure.PROGRAMS == tuple(sorted(data.programs))
    assert data.canonical_names == tuple(measure.CANONICAL)
    assert len(data.kinds) == 640


def test_settings_are_binary_and_occur_once(data):
    both = np.vstack([data.X, data.canonical])
    assert set(np.unique(both)) == {0.0, 1.0}
    assert len(np.unique(both, axis=0)) == 648


def test_settings_are_those_of_the_seed(data):
    rows = measure.settings()
    assert [r.kind for r in rows[:640]] == list(data.kinds)
    np.testing.assert_array_equal([r.setting for r in rows], np.vstack([data.X, data.canonical]))


def test_settings_contain_the_corners(data):
    on = data.X.sum(1)
    kinds = np.array(data.kinds)
    assert on[0] == 0
    assert kinds[0] == "none"
    for kind, flags_on, rows in (("single", 1, 13), ("all", 13, 1), ("all but one", 12, 13)):
        assert (kinds == kind).sum() == rows
        assert (on[kinds == kind] == flags_on).all()
    share = data.X[kinds == "random"].mean(0)
    assert np.all(np.abs(share - 0.5) < 0.1)


def test_canonical_settings_are_the_named_flags(data):
    for name, x in zip(data.canonical_names, data.canonical, strict=True):
        assert tuple(f for f, on in zip(data.flags, x, strict=True) if on) == measure.CANONICAL[name]


def test_counts_are_positive_integers_and_speedup_is_their_ratio(data):
    assert data.counts.dtype == np.int64
    assert (data.counts > 100_000).all()
    np.testing.assert_array_equal(data.speedup[0], 1.0)
    np.testing.assert_array_equal(data.speedup, data.counts[0] / data.counts)
    np.testing.assert_array_equal(data.features, (data.counts[0] / data.canonical_counts).T)


def test_every_program_responds_in_its_own_way(data):
    log = np.log(data.speedup)
    assert (log.std(0) > 0.03).all()
    R = np.corrcoef(log.T)
    assert R[np.triu_indices(11, 1)].max() < 0.99


def test_long_form_is_the_matrix(data):
    X, y = data.long()
    assert X.shape == (640 * 11, 14)
    for m, program in enumerate(data.programs):
        mine = X[:, 13] == program
        np.testing.assert_array_equal(X[mine, :13].astype(float), data.X)
        np.testing.assert_array_equal(y[mine], data.speedup[:, m])


def test_long_form_of_chosen_rows(data):
    X, y = data.long([5, 3])
    assert list(X[:4, 13]) == ["adpcm", "adpcm", "edge", "edge"]
    np.testing.assert_array_equal(y[:4], data.speedup[[5, 3, 5, 3], [0, 0, 1, 1]])
    rows = np.arange(22).reshape(11, 2)
    X, y = data.long(rows)
    np.testing.assert_array_equal(y, data.speedup[rows, np.arange(11)[:, None]].ravel())
    np.testing.assert_array_equal(X[:, :13].astype(float), data.X[rows.ravel()])


@pytest.mark.parametrize(
    ("rows", "said"),
    [(np.zeros((3, 2), int), r"shape \(3, 2\); expected"), (0, "one line for each program"), ([0.5], "dtype float64")],
)
def test_long_form_of_impossible_rows(data, rows, said):
    with pytest.raises(ValueError, match=said):
        data.long(rows)


def test_estimators_take_the_long_form(data):
    X, y = data.long(np.arange(16))
    model = borrow.PooledGPRegressor(task=-1).fit(X, y)
    assert tuple(model.tasks_) == data.programs
    assert np.isfinite(model.predict(X[:20])).all()


def test_file_is_gzip_without_a_date():
    raw = measure.TABLE.read_bytes()
    assert raw[4:8] == bytes(4)
    assert len(raw) < 100_000


def test_table_is_written_as_it_is_read(data):
    every = np.vstack([data.counts, data.canonical_counts])
    rows = measure.settings()
    counts = {p: {r.setting: n for r, n in zip(rows, every[:, m], strict=True)} for m, p in enumerate(data.programs)}
    written = measure.table_bytes(rows, counts)
    assert written[4:8] == bytes(4)
    assert gzip.decompress(written) == gzip.decompress(measure.TABLE.read_bytes())


@pytest.fixture(scope="module")
def study():
    sys.path.insert(0, str(ROOT / "benchmarks"))
    try:
        return load(ROOT / "benchmarks" / "compiler_data.py")
    finally:
        sys.path.remove(str(ROOT / "benchmarks"))


def test_main_effects_are_differences_of_means(data, study):
    """Random columns are nearly orthogonal, so least squares is near the mean with the flag less the mean without."""
    random = np.array(data.kinds) == "random"
    X, log = data.X[random], np.log(data.speedup[random])
    plain = [log[X[:, j] == 1].mean(0) - log[X[:, j] == 0].mean(0) for j in range(13)]
    np.testing.assert_allclose(study.main_effects(data), np.transpose(plain), atol=0.12)


def test_flags_act_in_pairs_as_the_page_says(data):
    """Mean log speed-up of the random settings, over all programs, with two flags off or on."""
    random = np.array(data.kinds) == "random"
    X, log = data.X[random], np.log(data.speedup[random]).mean(1)

    def mean(first, second):
        at = X[:, [data.flags.index(first), data.flags.index(second)]]
        return [[log[(at == (a, b)).all(1)].mean() for b in (0, 1)] for a in (0, 1)]

    vector = mean("tree-ch", "tree-vectorize")
    assert vector[1][1] - vector[1][0] > 5 * (vector[0][1] - vector[0][0])
    inline = mean("inline-functions-called-once", "inline-small-functions")
    assert min(inline[0][1], inline[1][0]) - inline[0][0] > 0.75 * (inline[1][1] - inline[0][0])
    peel = mean("unroll-loops", "peel-loops")
    assert peel[0][1] - peel[0][0] > 0.1
    assert abs(peel[1][1] - peel[1][0]) < 0.02


def test_figure_has_three_panels(data, study):
    assert len(study.draw(data).axes) == 3


def test_page_figures_are_those_of_the_table(data, study):
    stored = json.loads((ROOT / "docs" / "results" / "compiler_data.json").read_text())
    found = json.loads(json.dumps(study.summary(data, NOTES)))
    for row, old in zip(found.pop("rows"), stored.pop("rows"), strict=True):
        assert {k: v for k, v in row.items() if isinstance(v, str)} == {
            k: v for k, v in old.items() if isinstance(v, str)
        }
        for name, value in row.items():
            assert isinstance(value, str) or value == pytest.approx(old[name], abs=2e-3), (row["program"], name)
    del stored["made by"]
    assert found.keys() == stored.keys()
    assert found["measured"] == stored["measured"]


def test_repeated_counts_were_the_same():
    again = NOTES["repeat"]
    assert again["builds counted again"] >= 20
    assert again["object code and count the same"] == again["builds counted again"]


def test_parse_reads_what_callgrind_says():
    said = "==12== Events    : Ir\n==12== Collected : 4711\n==12== \n==12== I   refs:      4,711\n"
    assert measure.parse(said) == 4711
    with pytest.raises(ValueError, match="no line 'Collected"):
        measure.parse("valgrind: cannot execute")


def test_options_name_every_flag():
    off, on = measure.options((0,) * 13), measure.options((1,) * 13)
    assert off[: len(measure.FIXED)] == on[: len(measure.FIXED)] == list(measure.FIXED)
    assert off[len(measure.FIXED) :] == [f"-fno-{f}" for f in measure.FLAGS]
    assert on[len(measure.FIXED) :] == [f"-f{f}" for f in measure.FLAGS]


@needs_tools
@pytest.mark.parametrize("program", measure.PROGRAMS)
def test_builds_compute_the_same(program, tmp_path):
    """Checksums of no flags and of all flags are that of -O0 and that of the measurement; the code differs."""
    expected = measure.reference(program, tmp_path)
    digests = []
    for setting in ((0,) * 13, (1,) * 13):
        target, digest = measure.build(program, measure.options(setting), tmp_path)
        digests.append(digest)
        done = subprocess.run([measure.link(target, tmp_path)], capture_output=True, text=True, check=True)
        assert done.stdout.strip() == expected == NOTES["checksums"][program]
    assert digests[0] != digests[1]


@needs_tools
def test_counting_twice_gives_the_same(tmp_path):
    target, _ = measure.build("fir", measure.options((1,) * 13), tmp_path)
    binary = measure.link(target, tmp_path)
    n, checksum = measure.count(binary)
    assert n > 100_000
    assert (n, checksum) == measure.count(binary)
    assert checksum == NOTES["checksums"]["fir"]


@needs_tools
def test_a_failing_build_says_why(tmp_path):
    with pytest.raises(RuntimeError, match=r"gcc .*ended with 1: .*such-optimisation"):
        measure.build("fir", ["-fno-such-optimisation"], tmp_path)


@needs_tools
def test_a_program_that_calls_a_library_is_refused(tmp_path):
    (tmp_path / "loud.c").write_text('int puts(const char *); unsigned long work(void) { puts(""); return 0; }')
    subprocess.run(["gcc", "-c", tmp_path / "loud.c", "-o", tmp_path / "loud.o"], check=True)
    with pytest.raises(RuntimeError, match=r"loud\.o calls U puts"):
        measure.link(tmp_path / "loud.o", tmp_path)


@needs_tools
def test_a_second_call_goes_on_where_the_first_stopped(tmp_path, monkeypatch):
    monkeypatch.setattr(measure, "CACHE", tmp_path / "measured.csv")
    rows = measure.settings()[:3]
    first = measure.measure("fir", rows[:2], tmp_path)
    calls = []
    build = measure.build
    monkeypatch.setattr(measure, "build", lambda *a: calls.append(a[1]) or build(*a))
    second = measure.measure("fir", rows, tmp_path)
    assert {s: second[s] for s in first} == first
    assert calls[1:] == [measure.options(rows[2].setting)]
