"""The closed list of classes that a stored page may name. Nothing outside this list is ever looked up by a name.

A class that a fitted estimator holds is added here, in its module; `tests/test_store.py` fits every estimator and fails
where one holds a class that is not listed.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module

KINDS: dict[str, tuple[str, ...]] = {
    "borrow.data.table": ("Table",),
    "borrow.data.cells": ("Cells", "Rows"),
    "borrow.data.scaling": ("Scaling", "TaskData"),
    "borrow.kernels.stationary": ("SquaredExponential", "Matern", "RationalQuadratic", "Periodic"),
    "borrow.kernels.dot": ("Constant", "Linear", "NeuralNetwork", "SmoothLinear"),
    "borrow.kernels.compose": ("Sum", "Product"),
    "borrow.kernels.learned": ("LearnedKernel",),
    "borrow.kernels.translate": ("_OneColumn",),
    "borrow.data.read": ("Schema",),
    "borrow.numerics.optimise": ("Optimum",),
    "borrow.covariance.design": ("Design",),
    "borrow.covariance.dense": ("DenseTasks", "DensePosterior"),
    "borrow.covariance.kronecker": ("CompleteTasks", "CompletePosterior"),
    "borrow.covariance.lowrank": ("LowRankTasks", "LowRankPosterior"),
    "borrow.covariance.carrier": ("Basis", "_Carrier"),
    "borrow.covariance.layout": ("Block", "Layout"),
    "borrow.covariance.factors": ("DenseFactor", "DiagonalFactor"),
    "borrow.covariance.shared": ("SharedCovariance", "SharedPosterior"),
    "borrow.inference.likelihoods": ("Gaussian", "Probit", "Logistic"),
    "borrow.inference.exact": ("ExactInference",),
    "borrow.inference.ep": ("EPInference",),
    "borrow.inference.hyper_uncertainty": ("HyperUncertainty",),
    "borrow.models.focused.model": ("Setup",),
    "borrow.models.focused.regressor": ("FocusedGPRegressor",),
    "borrow.models.focused.classifier": ("FocusedGPClassifier", "FocusedModel"),
    "borrow.models.multitask.model": ("Setup",),
    "borrow.models.multitask.task_covariance": ("FreeForm", "LowRank", "Uniform", "Features", "Given"),
    "borrow.models.multitask.regressor": ("MultiTaskGPRegressor",),
    "borrow.models.multitask.classifier": ("MultiTaskGPClassifier", "MultiTaskModel"),
    "borrow.models.rbf.designs": ("Growth", "Network", "SharedLevel"),
    "borrow.models.rbf.model": ("Basis",),
    "borrow.models.rbf.regressor": ("MultiTaskRBFRegressor",),
    "borrow.models.ivm.regressor": ("MultiTaskIVMRegressor",),
    "borrow.models.ivm.classifier": ("IVMModel", "MultiTaskIVMClassifier"),
    "borrow.models.hierarchical.model": ("Group", "Moments", "Problem", "State", "Strengths"),
    "borrow.models.hierarchical.basis": ("Basis",),
    "borrow.models.hierarchical.search": ("Choice", "Held"),
    "borrow.models.hierarchical.fit": ("Fit", "NewTask"),
    "borrow.models.hierarchical.regressor": ("AdaptedRegressor", "HierarchicalGPRegressor"),
    "borrow.models.hierarchical.classifier": ("AdaptedClassifier", "HierarchicalGPClassifier", "Margins"),
    "borrow.models.gp.regressors": ("PooledGPRegressor", "SingleTaskGPRegressor"),
    "borrow.models.gp.classifiers": ("GPModel", "PooledGPClassifier", "SingleTaskGPClassifier"),
    "borrow.models.reference.dirichlet_process": ("DirichletProcessClassifier", "Mixture", "State"),
    "borrow.models.reference.regularized": ("Margin", "OffsetKernel", "RegularizedMultiTaskClassifier"),
    "borrow.models.reference.shared_structure": ("Linear", "SharedStructureClassifier"),
    "borrow.transfer.auto": ("AutoClassifier", "AutoRegressor"),
    "borrow.transfer.comparison": ("Comparison",),
    "borrow.transfer.verdict": ("Verdict",),
    # What may be given as kernel=, and is kept as a constructor argument.
    "sklearn.gaussian_process.kernels": (
        "ConstantKernel",
        "DotProduct",
        "ExpSineSquared",
        "Matern",
        "Product",
        "RBF",
        "RationalQuadratic",
        "Sum",
    ),
}


def name_of(value: object) -> str | None:
    """The name that a page gives the class of this object; None where it is not in the list."""
    kind = type(value)
    return f"{kind.__module__}.{kind.__name__}" if kind.__name__ in KINDS.get(kind.__module__, ()) else None


@cache
def class_of(name: str) -> type | None:
    """The class of that name, if it is in the list."""
    module, _, own = name.rpartition(".")
    if own not in KINDS.get(module, ()):
        return None
    found: type = getattr(import_module(module), own)
    return found
