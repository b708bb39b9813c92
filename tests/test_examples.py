"""Every public name that can be called has an example in its docstring, and the examples run as they are written."""

import doctest
import inspect

import pytest

import borrow

#: No example: loaders of data that are not part of the package.
WITHOUT = {f"datasets.load_{name}" for name in ("eeg", "jura", "polybench", "rcv1", "school", "spear", "vowel")}


def public():
    for name in borrow.__all__:
        found = getattr(borrow, name)
        if not inspect.ismodule(found):
            yield name, found
        elif hasattr(found, "__all__"):
            yield from ((f"{name}.{n}", getattr(found, n)) for n in found.__all__ if callable(getattr(found, n)))


NAMES = {name: found for name, found in public() if name not in WITHOUT}


@pytest.mark.parametrize("name", NAMES)
def test_example_runs(name):
    lines = inspect.getdoc(NAMES[name])
    assert "Examples\n--------\n>>> " in lines, f"{name} has no example"
    test = doctest.DocTestParser().get_doctest(lines, {}, name, None, None)
    said = []
    doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE).run(test, out=said.append)
    assert not said, "".join(said)
