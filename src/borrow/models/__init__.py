"""One folder per paper; the papers' reference methods under `reference`."""

from importlib import import_module
from pkgutil import iter_modules

from borrow.estimators import registry


def load(name: str | None = None) -> None:
    """Import every folder, so that its estimators are registered; given the name of one, no more than it takes."""
    for folder in iter_modules(__path__):
        if name is None or registry.by_name(name) is None:
            import_module(f"{__name__}.{folder.name}")
