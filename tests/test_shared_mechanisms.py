"""One atomic writer, one catcher of warnings, one way to JSON."""

import json
import math
import os
import stat
import time
import warnings
from datetime import date

import numpy as np
import pytest

from borrow.data.plain import to_json
from borrow.numerics.files import write_atomically
from borrow.numerics.warned import capture_warnings


def names(folder):
    return sorted(p.name for p in folder.iterdir())


def test_a_file_is_replaced_whole(tmp_path):
    path = tmp_path / "model"
    write_atomically(path, b"old")
    write_atomically(path, b"new")
    assert path.read_bytes() == b"new"
    assert names(tmp_path) == ["model"]


def test_a_new_file_gets_the_usual_mode_and_a_replaced_one_keeps_its_own(tmp_path):
    usual, path = tmp_path / "usual", tmp_path / "model"
    usual.touch()
    write_atomically(path, b"1")
    assert stat.S_IMODE(path.stat().st_mode) == stat.S_IMODE(usual.stat().st_mode)
    path.chmod(0o640)
    write_atomically(path, b"2")
    assert stat.S_IMODE(path.stat().st_mode) == 0o640


def test_a_symbolic_link_is_followed_to_another_folder(tmp_path):
    (tmp_path / "far").mkdir()
    real, link = tmp_path / "far" / "real", tmp_path / "link"
    real.write_bytes(b"old")
    link.symlink_to(real)
    write_atomically(link, b"new")
    assert link.is_symlink()
    assert real.read_bytes() == b"new"
    dangling = tmp_path / "dangling"
    dangling.symlink_to(tmp_path / "far" / "not yet")
    write_atomically(dangling, b"born")
    assert (tmp_path / "far" / "not yet").read_bytes() == b"born"


def test_the_longest_name_that_the_disk_allows_can_be_written(tmp_path):
    path = tmp_path / ("n" * 255)
    write_atomically(path, b"x")
    assert path.read_bytes() == b"x"


def test_a_failure_leaves_the_old_file_and_nothing_else(tmp_path, monkeypatch):
    path = tmp_path / "model"
    path.write_bytes(b"old")
    for name, problem in (("replace", KeyboardInterrupt), ("fsync", OSError)):

        def fail(*_, problem=problem):
            raise problem

        with monkeypatch.context() as patched:
            patched.setattr(os, name, fail)
            with pytest.raises(problem):
                write_atomically(path, b"new")
        assert path.read_bytes() == b"old"
        assert names(tmp_path) == ["model"]


def test_file_and_folder_are_on_the_disk_in_that_order(tmp_path, monkeypatch):
    synced, real = [], os.fsync
    monkeypatch.setattr(os, "fsync", lambda h: (synced.append(stat.S_IFMT(os.fstat(h).st_mode)), real(h)))
    write_atomically(tmp_path / "model", b"x")
    assert synced == [stat.S_IFREG, stat.S_IFDIR]


def test_leftovers_of_killed_writers_are_swept_and_those_of_living_ones_are_not(tmp_path):
    fcntl = pytest.importorskip("fcntl")
    dead, living, young = (tmp_path / f".borrow-{k}.part" for k in ("0" * 8, "1" * 8, "2" * 8))
    others = tmp_path / ".other-00000000.part"
    for path in (dead, living, young, others):
        path.write_bytes(b"x")
    for path in (dead, living, others):
        os.utime(path, (time.time() - 3600,) * 2)
    with open(living, "rb") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        write_atomically(tmp_path / "model", b"x")
    assert names(tmp_path) == sorted([living.name, young.name, others.name, "model"])


def test_folders_pipes_and_devices_are_refused(tmp_path):
    with pytest.raises(IsADirectoryError, match="is a folder"):
        write_atomically(tmp_path, b"x")
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(OSError, match="device or a pipe"):
        write_atomically(tmp_path / "pipe", b"x")
    with pytest.raises(OSError, match="device or a pipe"):
        write_atomically("/dev/null", b"x")
    assert names(tmp_path) == ["pipe"]


def test_a_folder_that_is_not_there_is_named_as_it_was_given(tmp_path):
    with pytest.raises(FileNotFoundError) as caught:
        write_atomically(tmp_path / "no" / "model", b"x")
    assert caught.value.filename == str(tmp_path / "no" / "model")


def test_warnings_are_captured_once_each_in_order_and_not_shown():
    with capture_warnings() as found:
        for text in ("b", "a", "b"):
            warnings.warn(text, RuntimeWarning, stacklevel=1)
        warnings.warn("b", UserWarning, stacklevel=1)
    assert found == ["RuntimeWarning: b", "RuntimeWarning: a", "UserWarning: b"]


def test_warnings_before_a_failure_are_captured():
    found = []

    def work():
        with capture_warnings(lambda w: str(w.message)) as said:
            found.append(said)
            warnings.warn("before the failure", UserWarning, stacklevel=1)
            raise KeyError

    with pytest.raises(KeyError):
        work()
    assert found == [["before the failure"]]


def test_to_json_keeps_what_json_has_and_turns_the_rest_into_it():
    value = {
        "a": np.float32(0.5),
        np.int64(3): (np.bool_(True), None, "x"),
        2.5: np.array([[1, 2], [3, 4]]),
        "none": [math.nan, math.inf, np.float64("nan")],
        "day": date(2024, 2, 3),
        "set": {1},
    }
    expected = {
        "a": 0.5,
        "3": [True, None, "x"],
        "2.5": [[1, 2], [3, 4]],
        "none": [None, None, None],
        "day": "2024-02-03",
        "set": [1],
    }
    assert to_json(value) == expected
    assert type(to_json(np.int64(3))) is int
    assert type(to_json(np.bool_(False))) is bool
    assert to_json(np.array(math.nan)) is None
    json.dumps(to_json(value), allow_nan=False)


def test_to_json_options():
    assert to_json([math.nan, -math.inf, 1.0], nonfinite="text") == ["nan", "-inf", 1.0]
    assert to_json({"k": ["v", date(2024, 2, 3)]}, text=lambda v: f"<{v}>") == {"<k>": ["<v>", "<2024-02-03>"]}
    assert to_json({"x": np.zeros(3)}, longest=2, text=repr) == {"'x'": "array([0., 0., 0.])"}
    assert to_json({"x": np.zeros(2)}, longest=2) == {"x": [0.0, 0.0]}
