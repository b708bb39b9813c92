"""A parent that is killed leaves nothing behind: no process, and after the next start no folder with training data."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from borrow.tasks.workers import Processes

pytestmark = pytest.mark.skipif(os.name != "posix", reason="signals of POSIX")

FIT = """
import numpy as np, borrow
rng = np.random.default_rng(0)
X, tasks = rng.uniform(-2, 2, (600, 2)), np.arange(600) % 6
{}
"""
WORKERS = (
    "borrow.FocusedGPRegressor(primary=0, inducing=100, workers=2, max_iter=10**6).fit(X, np.sin(9 * X[:, 0]), tasks)"
)
JOBS = """
table = {"x": X[:, 0], "y": np.sin(9 * X[:, 0]), "who": tasks}
borrow.compare(table, "y", "who", 0, ["focused"], cv=(5, 20), n_jobs=2)
"""


def wait_until(found, seconds=600.0):
    """What `found` returns once it is true."""
    end = time.monotonic() + seconds
    while not (answer := found()):
        assert time.monotonic() < end
        time.sleep(0.1)
    return answer


@pytest.mark.parametrize("work", [WORKERS, JOBS], ids=["workers", "n_jobs"])
def test_killed_parent_takes_its_workers_along(work, tmp_path, monkeypatch):
    program = [sys.executable, "-c", FIT.format(work)]
    parent = subprocess.Popen(program, env={**os.environ, "TMPDIR": str(tmp_path)})
    try:
        itself = psutil.Process(parent.pid)

        def at_work():
            assert parent.poll() is None  # it has not ended by itself
            busy = [p for p in itself.children(recursive=True) if p.cpu_times().user > 1.0]
            return len(busy) >= 2 and itself.children(recursive=True)

        children = wait_until(at_work)
        time.sleep(1.0)
    finally:
        parent.send_signal(signal.SIGKILL)
        parent.wait()
    _, alive = psutil.wait_procs(children, timeout=300.0)
    assert not alive
    shared = Path("/dev/shm")  # where semaphores and joblib's folders are, on Linux
    assert not [path.name for path in shared.glob(f"*[-_]{parent.pid}[-_]*")]
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    left = [path for path in tmp_path.iterdir() if path.name.startswith("borrow-")]
    assert len(left) == (work == WORKERS)
    other = tmp_path / "borrow-of-the-user"
    other.mkdir()
    workers = Processes(2)
    try:
        assert workers.folder.exists()
        assert not [path for path in left if path.exists()]
        assert other.exists()
        second = Processes(2)  # does not take the folder of a process that lives
        assert workers.folder.exists()
        second.close()
    finally:
        workers.close()
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith("borrow-")] == [other.name]
