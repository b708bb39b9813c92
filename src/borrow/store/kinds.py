"""The closed list of what a stored page may name. Nothing outside this list is ever looked up by a name.

A page names things by the public names of this list, never by a module or a class of the code, so that code can be
moved and renamed without a change of the format. Estimators go by their registered names: one that somebody else
registers is stored too, as its settings and fitted attributes. What is held in fields of classes that are not listed
here is given by two methods of the class: `state()` returns plain values, arrays and listed objects by name, and the
class method `from_state(state)` makes the object again.

A class that a fitted estimator holds is added here; `tests/test_store.py` fits every estimator and fails where one
holds a class that is not listed.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from borrow import models
from borrow.estimators import registry

KINDS = {
    "Comparison": "borrow.transfer.comparison.Comparison",
    "Constant": "borrow.kernels.dot.Constant",
    "LearnedKernel": "borrow.kernels.learned.LearnedKernel",
    "Linear": "borrow.kernels.dot.Linear",
    "Matern": "borrow.kernels.stationary.Matern",
    "NeuralNetwork": "borrow.kernels.dot.NeuralNetwork",
    "Periodic": "borrow.kernels.stationary.Periodic",
    "PeriodicInOneColumn": "borrow.kernels.translate.PeriodicInOneColumn",
    "Product": "borrow.kernels.compose.Product",
    "RationalQuadratic": "borrow.kernels.stationary.RationalQuadratic",
    "SmoothLinear": "borrow.kernels.dot.SmoothLinear",
    "SquaredExponential": "borrow.kernels.stationary.SquaredExponential",
    "Sum": "borrow.kernels.compose.Sum",
    "TableEncoder": "borrow.data.encoder.TableEncoder",
    "TaskKernels": "borrow.kernels.compose.TaskKernels",
    "Verdict": "borrow.transfer.verdict.Verdict",
    "adapted-classifier": "borrow.models.hierarchical.estimators.AdaptedClassifier",
    "adapted-regressor": "borrow.models.hierarchical.estimators.AdaptedRegressor",
    "carrier-basis": "borrow.covariance.inducing.Basis",
    "cells": "borrow.data.cells.Cells",
    "complete-posterior": "borrow.covariance.kronecker.CompletePosterior",
    "complete-tasks": "borrow.covariance.kronecker.CompleteTasks",
    "dates": "borrow.data.encode.Dates",
    "dense-posterior": "borrow.covariance.dense.DensePosterior",
    "dense-tasks": "borrow.covariance.dense.DenseTasks",
    "design": "borrow.covariance.layout.Design",
    "dirichlet-process-mixture": "borrow.models.reference.dirichlet_process.Mixture",
    "dirichlet-process-state": "borrow.models.reference.dirichlet_process.State",
    "ep-inference": "borrow.inference.ep.EPInference",
    "ep-labels": "borrow.estimators.classifier.EPLabels",
    "exact-inference": "borrow.inference.exact.ExactInference",
    "fitted": "borrow.estimators.base.Fitted",
    "fitted-regression": "borrow.estimators.regressor.FittedRegression",
    "focused-fit": "borrow.models.focused.estimators.FocusedFit",
    "focused-setup": "borrow.models.focused.model.Setup",
    "gaussian": "borrow.inference.likelihoods.Gaussian",
    "hierarchical-basis": "borrow.models.hierarchical.basis.Basis",
    "hierarchical-fit": "borrow.models.hierarchical.fit.Fit",
    "hierarchical-margins": "borrow.models.hierarchical.estimators.Margins",
    "hierarchical-new-task": "borrow.models.hierarchical.fit.NewTask",
    "hierarchical-state": "borrow.models.hierarchical.model.State",
    "hierarchical-strengths": "borrow.models.hierarchical.model.Strengths",
    "hyper-uncertainty": "borrow.inference.hyper_uncertainty.HyperUncertainty",
    "inducing-basis": "borrow.covariance.inducing.InducingBasis",
    "ivm-chosen": "borrow.models.ivm.estimators.Chosen",
    "ivm-fit": "borrow.models.ivm.estimators.IVMFit",
    "ivm-labels": "borrow.models.ivm.estimators.IVMLabels",
    "left-out": "borrow.data.encode.LeftOut",
    "levels": "borrow.data.encode.Levels",
    "linear-fit": "borrow.transfer.references.LinearFit",
    "logistic": "borrow.inference.likelihoods.Logistic",
    "logistic-reference": "borrow.transfer.references.LogisticReference",
    "low-rank-parameters": "borrow.covariance.lowrank.LowRankParameters",
    "low-rank-posterior": "borrow.covariance.two_pass.TwoPassPosterior",
    "low-rank-tasks": "borrow.covariance.lowrank.LowRankTasks",
    "measured": "borrow.data.encode.Measured",
    "multitask-features": "borrow.models.multitask.task_covariance.Features",
    "multitask-fit": "borrow.models.multitask.estimators.MultiTaskFit",
    "multitask-free-form": "borrow.models.multitask.task_covariance.FreeForm",
    "multitask-given": "borrow.models.multitask.task_covariance.Given",
    "multitask-low-rank": "borrow.models.multitask.task_covariance.LowRank",
    "multitask-setup": "borrow.models.multitask.model.Setup",
    "multitask-uniform": "borrow.models.multitask.task_covariance.Uniform",
    "noise-sites": "borrow.inference.likelihoods.Gaussian",
    "numbers": "borrow.data.encode.Numbers",
    "optimum": "borrow.numerics.optimise.Optimum",
    "ordered": "borrow.data.encode.Ordered",
    "other-model": "borrow.inference.hyper_uncertainty.OtherModel",
    "placed-tasks": "borrow.tasks.placed.PlacedTasks",
    "pooled-fit": "borrow.models.gp.estimators.PooledFit",
    "probit": "borrow.inference.likelihoods.Probit",
    "rbf-basis": "borrow.models.rbf.model.Basis",
    "rbf-fit": "borrow.models.rbf.estimators.RBFFit",
    "rbf-growth": "borrow.models.rbf.designs.Growth",
    "rbf-network": "borrow.models.rbf.designs.Network",
    "rbf-shared-level": "borrow.models.rbf.designs.SharedLevel",
    "regularized-margin": "borrow.models.reference.regularized.Margin",
    "regularized-offset-kernel": "borrow.models.reference.regularized.OffsetKernel",
    "ridge-reference": "borrow.transfer.references.RidgeReference",
    "rows": "borrow.data.cells.Rows",
    "scaling": "borrow.data.scaling.Scaling",
    "schema": "borrow.data.read.Schema",
    "shared": "borrow.covariance.two_pass.Shared",
    "shared-covariance": "borrow.covariance.shared.SharedCovariance",
    "shared-parameters": "borrow.covariance.shared.SharedParameters",
    "shared-posterior": "borrow.covariance.shared.SharedPosterior",
    "shared-structure-linear": "borrow.models.reference.shared_structure.Linear",
    "sharing-tasks": "borrow.models.multitask.task_covariance.SharingTasks",
    "single-task-fit": "borrow.models.gp.estimators.SingleTaskFit",
    "sites": "borrow.covariance.contracts.Sites",
    "sklearn.ConstantKernel": "sklearn.gaussian_process.kernels.ConstantKernel",
    "sklearn.DotProduct": "sklearn.gaussian_process.kernels.DotProduct",
    "sklearn.ExpSineSquared": "sklearn.gaussian_process.kernels.ExpSineSquared",
    "sklearn.Matern": "sklearn.gaussian_process.kernels.Matern",
    "sklearn.Product": "sklearn.gaussian_process.kernels.Product",
    "sklearn.RBF": "sklearn.gaussian_process.kernels.RBF",
    "sklearn.RationalQuadratic": "sklearn.gaussian_process.kernels.RationalQuadratic",
    "sklearn.Sum": "sklearn.gaussian_process.kernels.Sum",
    "table": "borrow.data.table.Table",
    "task-column": "borrow.data.encode.TaskColumn",
    "task-data": "borrow.data.scaling.TaskData",
    "times": "borrow.data.encode.Times",
    "uncertainty-by-task": "borrow.inference.hyper_uncertainty.UncertaintyByTask",
    "units": "borrow.data.written.Units",
}

_NAMES = {place: name for name, place in KINDS.items()}  # of two names of one class the last is written


def name_of(value: object) -> str | None:
    """The name that a page gives the class of this object; None where it is not in the list."""
    kind = type(value)
    entry = registry.by_name(kind.__name__)
    if entry is not None and entry.estimator is kind:
        return kind.__name__
    return _NAMES.get(f"{kind.__module__}.{kind.__name__}")


def class_of(name: str) -> Any:
    """The class of that name, if it is in the list or is that of a registered estimator."""
    if name in KINDS:
        module, _, own = KINDS[name].rpartition(".")
        return getattr(import_module(module), own)
    models.load(name)
    if registry.by_name(name) is None:
        import_module("borrow.transfer.auto")
    entry = registry.by_name(name)
    return None if entry is None else entry.estimator
