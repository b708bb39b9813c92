"""One folder per paper; the papers' reference methods under `reference`."""

from importlib import import_module
from pkgutil import iter_modules


def load() -> None:
    """Import every folder, so that its estimators are registered."""
    for folder in iter_modules(__path__):
        import_module(f"{__name__}.{folder.name}")
