"""borrow: learn one task by borrowing strength from its relatives, and know when not to.

Reading order: data -> kernels -> covariance -> inference -> models. Estimators are imported when first asked for.
"""

from importlib import import_module
from typing import Any

__version__ = "0.1.0"

_HOMES = {
    "DirichletProcessClassifier": "borrow.models.reference.dirichlet_process",
    "FocusedGPClassifier": "borrow.models.focused.classifier",
    "FocusedGPRegressor": "borrow.models.focused.regressor",
    "MultiTaskGPClassifier": "borrow.models.multitask.classifier",
    "MultiTaskGPRegressor": "borrow.models.multitask.regressor",
    "MultiTaskRBFRegressor": "borrow.models.rbf.regressor",
    "MultiTaskIVMClassifier": "borrow.models.ivm.classifier",
    "MultiTaskIVMRegressor": "borrow.models.ivm.regressor",
    "HierarchicalGPClassifier": "borrow.models.hierarchical.classifier",
    "HierarchicalGPRegressor": "borrow.models.hierarchical.regressor",
    "PooledGPClassifier": "borrow.models.gp.classifiers",
    "PooledGPRegressor": "borrow.models.gp.regressors",
    "RegularizedMultiTaskClassifier": "borrow.models.reference.regularized",
    "SharedStructureClassifier": "borrow.models.reference.shared_structure",
    "SingleTaskGPClassifier": "borrow.models.gp.classifiers",
    "SingleTaskGPRegressor": "borrow.models.gp.regressors",
    "Comparison": "borrow.transfer.comparison",
    "Verdict": "borrow.transfer.verdict",
    "compare": "borrow.transfer.compare",
    "AutoClassifier": "borrow.transfer.auto",
    "AutoRegressor": "borrow.transfer.auto",
    "quick_look": "borrow.transfer.quick",
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
