"""borrow: learn one task by borrowing strength from its relatives, and know when not to.

Reading order: data -> kernels -> covariance -> inference -> models. Estimators are imported when first asked for.
"""

from importlib import import_module
from typing import Any

__version__ = "0.1.0"

_HOMES = {
    "DirichletProcessClassifier": "borrow.models.baselines.dirichlet_process",
    "FocusedGPClassifier": "borrow.models.focused_classifier",
    "FocusedGPRegressor": "borrow.models.focused_regressor",
    "MultiTaskGPClassifier": "borrow.models.multitask_classifier",
    "MultiTaskGPRegressor": "borrow.models.multitask_regressor",
    "MultiTaskRBFRegressor": "borrow.models.rbf_regressor",
    "MultiTaskIVMClassifier": "borrow.models.ivm_classifier",
    "MultiTaskIVMRegressor": "borrow.models.ivm_regressor",
    "HierarchicalGPClassifier": "borrow.models.hierarchical_classifier",
    "HierarchicalGPRegressor": "borrow.models.hierarchical_regressor",
    "PooledGPClassifier": "borrow.models.baselines.gp_classifiers",
    "PooledGPRegressor": "borrow.models.baselines.gp",
    "RegularizedMultiTaskClassifier": "borrow.models.baselines.regularized",
    "SharedStructureClassifier": "borrow.models.baselines.shared_structure",
    "SingleTaskGPClassifier": "borrow.models.baselines.gp_classifiers",
    "SingleTaskGPRegressor": "borrow.models.baselines.gp",
    "Comparison": "borrow.transfer.comparison",
    "Verdict": "borrow.transfer.verdict",
    "compare": "borrow.transfer.run",
    "AutoClassifier": "borrow.transfer.auto",
    "AutoRegressor": "borrow.transfer.auto",
    "quick_look": "borrow.transfer.quick",
    "suggest": "borrow.transfer.measure_next",
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
