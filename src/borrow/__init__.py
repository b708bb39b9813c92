"""borrow: learn one task by borrowing strength from its relatives, and know when not to.

Reading order: numerics -> data -> kernels -> tasks -> covariance -> inference -> estimators -> models -> transfer ->
report -> command line. Nothing is imported before it is asked for; estimators come from the registry.
"""

from __future__ import annotations

from importlib import import_module

TYPE_CHECKING = False  # `typing` takes as long to import as all else that comes before a command, deaf to Ctrl-C
if TYPE_CHECKING:
    from typing import Any

__version__ = "0.1.0"

#: Public names beside the estimators, and where they are.
_HOMES = {
    "Comparison": "borrow.transfer.comparison",
    "TableEncoder": "borrow.data.encoder",
    "Verdict": "borrow.transfer.verdict",
    "compare": "borrow.transfer.compare",
    "quick_look": "borrow.transfer.compare",
    "suggest": "borrow.transfer.suggest",
}

#: Modules that are part of the public face.
_MODULES = ("datasets", "kernels", "report", "store", "transfer")


def _registry(name: str | None = None) -> Any:
    """The registry, once the estimator of this name is in it; all of this package where that is none of them."""
    registry = import_module("borrow.estimators.registry")
    if name is None or registry.by_name(name) is None:
        import_module("borrow.models").load(name)
    if name is None or registry.by_name(name) is None:
        import_module("borrow.transfer.auto")
    return registry


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    if name in _MODULES:
        return import_module(f"borrow.{name}")
    if name == "__all__":
        return sorted([*_HOMES, *_MODULES, *(entry.name for entry in _registry().entries())])
    if name[:1].isupper() and (entry := _registry(name).by_name(name)) is not None:  # lower case may be a module
        return entry.estimator
    raise AttributeError(f"module 'borrow' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *__getattr__("__all__")])
