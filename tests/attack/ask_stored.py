"""Load stored models whose names come on standard input, ask each for an answer, and say on standard output what came.

Run as a process of its own, with a limit on its memory, by `campaigns.hostile_stores`.
"""

import contextlib
import faulthandler
import json
import resource
import sys
import warnings
from pathlib import Path

import numpy as np
from scipy import sparse

from borrow import store

MORE = 2**30  # bytes beyond what the process takes when it starts
X = np.linspace(0.5, 5.5, 8).reshape(4, 2)
WIDE = sparse.csr_array(np.eye(4, 30))


def ask(model):
    """Some answer of a model or a kernel."""
    if not hasattr(model, "predict"):
        return model(X)
    if hasattr(model, "predict_proba"):
        return model.predict_proba(X, tasks=["a", "b", "c", "b"])
    if getattr(model, "task", None) == "sparse":
        return model.predict(WIDE, return_std=True)
    return model.predict(X, tasks=["a", "b", "c", "b"], return_std=True)


def outcome(path):
    """Its kind and a sentence. `MemoryError` with "needs about" is the memory guard's: it was asked first."""
    try:
        model = store.load(path)
    except store.StoreError as refused:
        return "refused", str(refused)
    except Exception as other:  # whatever it is, it is reported
        return "load raised", f"{type(other).__name__}: {other}"
    try:
        ask(model)
    except MemoryError as full:
        return ("raised" if "needs about" in str(full) else "out of memory"), str(full)
    except SystemError as wrong:
        return "system error", str(wrong)
    except Exception as other:
        return "raised", f"{type(other).__name__}: {other}"
    return "answered", ""


def main():
    faulthandler.enable()
    warnings.simplefilter("ignore")
    now = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (now + MORE, now + MORE))
    with contextlib.suppress(KeyboardInterrupt):
        for line in sys.stdin:
            sys.stdout.write(json.dumps(outcome(line.rstrip("\n"))) + "\n")
            sys.stdout.flush()


main()
