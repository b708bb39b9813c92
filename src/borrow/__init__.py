"""borrow: learn one task by borrowing strength from its relatives, and know when not to.

Reading order: data -> kernels -> covariance -> inference -> models. Estimators are imported when first asked for.
"""

from importlib import import_module
from typing import Any

__version__ = "0.1.0"

_HOMES = {
    "DirichletProcessClassifier": "borrow.models.reference.dirichlet_process",
    "FocusedGPClassifier": "borrow.models.focused.estimators",
    "FocusedGPRegressor": "borrow.models.focused.estimators",
    "MultiTaskGPClassifier": "borrow.models.multitask.estimators",
    "MultiTaskGPRegressor": "borrow.models.multitask.estimators",
    "MultiTaskRBFRegressor": "borrow.models.rbf.estimators",
    "MultiTaskIVMClassifier": "borrow.models.ivm.estimators",
    "MultiTaskIVMRegressor": "borrow.models.ivm.estimators",
    "HierarchicalGPClassifier": "borrow.models.hierarchical.estimators",
    "HierarchicalGPRegressor": "borrow.models.hierarchical.estimators",
    "PooledGPClassifier": "borrow.models.gp.estimators",
    "PooledGPRegressor": "borrow.models.gp.estimators",
    "RegularizedMultiTaskClassifier": "borrow.models.reference.regularized",
    "SharedStructureClassifier": "borrow.models.reference.shared_structure",
    "SingleTaskGPClassifier": "borrow.models.gp.estimators",
    "SingleTaskGPRegressor": "borrow.models.gp.estimators",
    "Comparison": "borrow.transfer.comparison",
    "Verdict": "borrow.transfer.verdict",
    "compare": "borrow.transfer.compare",
    "AutoClassifier": "borrow.transfer.auto",
    "AutoRegressor": "borrow.transfer.auto",
    "quick_look": "borrow.transfer.compare",
    "suggest": "borrow.transfer.suggest",
}

#: Modules that are part of the public face beside the names above.
_MODULES = ("datasets", "kernels", "report", "store", "transfer")

__all__ = sorted([*_HOMES, *_MODULES])


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    if name in _MODULES:
        return import_module(f"borrow.{name}")
    raise AttributeError(f"module 'borrow' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
