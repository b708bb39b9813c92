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
    "borrow.data.encode": ("Dates", "LeftOut", "Levels", "Numbers", "Ordered", "TableEncoder", "TaskColumn"),
    "borrow.data.scaling": ("Scaling", "TaskData"),
    "borrow.kernels.stationary": ("SquaredExponential", "Matern", "RationalQuadratic", "Periodic"),
    "borrow.kernels.dot": ("Constant", "Linear", "NeuralNetwork", "SmoothLinear"),
    "borrow.kernels.compose": ("Sum", "Product", "TaskKernels"),
    "borrow.kernels.learned": ("LearnedKernel",),
    "borrow.kernels.translate": ("_OneColumn",),
    "borrow.data.read": ("Schema",),
    "borrow.numerics.optimise": ("Optimum",),
    "borrow.tasks.placed": ("PlacedTasks",),
    "borrow.covariance.design": ("Design",),
    "borrow.covariance.dense": ("DenseTasks", "DensePosterior"),
    "borrow.covariance.kronecker": ("CompleteTasks", "CompletePosterior"),
    "borrow.covariance.contracts": ("Sites",),
    "borrow.covariance.carrier": ("Basis", "InducingBasis"),
    "borrow.covariance.two_pass": ("Shared",),
    "borrow.covariance.lowrank": ("LowRankParameters", "LowRankPosterior", "LowRankTasks"),
    "borrow.covariance.shared": ("SharedCovariance", "SharedParameters", "SharedPosterior"),
    "borrow.inference.likelihoods": ("Gaussian", "Probit", "Logistic"),
    "borrow.inference.exact": ("ExactInference", "NoiseSites"),
    "borrow.inference.ep": ("EPInference",),
    "borrow.inference.hyper_uncertainty": ("HyperUncertainty", "UncertaintyByTask"),
    "borrow.models.focused.model": ("Setup",),
    "borrow.models.multitask.model": ("Setup",),
    "borrow.models.multitask.task_covariance": ("FreeForm", "SharingTasks", "LowRank", "Uniform", "Features", "Given"),
    "borrow.models.rbf.designs": ("Growth", "Network", "SharedLevel"),
    "borrow.models.rbf.model": ("Basis",),
    "borrow.models.hierarchical.model": ("State", "Strengths"),
    "borrow.models.hierarchical.basis": ("Basis",),
    "borrow.models.hierarchical.fit": ("Fit", "NewTask"),
    "borrow.estimators.base": ("Fitted",),
    "borrow.estimators.labels": ("EPLabels",),
    "borrow.estimators.regressor": ("FittedRegression",),
    "borrow.models.gp.estimators": (
        "PooledFit",
        "PooledGPClassifier",
        "PooledGPRegressor",
        "SingleTaskFit",
        "SingleTaskGPClassifier",
        "SingleTaskGPRegressor",
    ),
    "borrow.models.focused.estimators": (
        "FocusedFit",
        "FocusedGPClassifier",
        "FocusedGPRegressor",
    ),
    "borrow.models.multitask.estimators": (
        "MultiTaskFit",
        "MultiTaskGPClassifier",
        "MultiTaskGPRegressor",
    ),
    "borrow.models.ivm.estimators": (
        "Chosen",
        "IVMFit",
        "IVMLabels",
        "MultiTaskIVMClassifier",
        "MultiTaskIVMRegressor",
    ),
    "borrow.models.rbf.estimators": ("MultiTaskRBFRegressor", "RBFFit"),
    "borrow.models.hierarchical.estimators": (
        "AdaptedClassifier",
        "AdaptedRegressor",
        "HierarchicalGPClassifier",
        "HierarchicalGPRegressor",
        "Margins",
    ),
    "borrow.models.reference.dirichlet_process": ("DirichletProcessClassifier", "Mixture", "State"),
    "borrow.models.reference.regularized": ("Margin", "OffsetKernel", "RegularizedMultiTaskClassifier"),
    "borrow.models.reference.shared_structure": ("Linear", "SharedStructureClassifier"),
    "borrow.transfer.auto": ("AutoClassifier", "AutoRegressor"),
    "borrow.transfer.comparison": ("Comparison",),
    "borrow.transfer.references": ("LinearFit", "LogisticReference", "RidgeReference"),
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
