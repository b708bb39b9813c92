"""What a person would use instead of this library, each given the care that a careful person gives it.

Every alternative takes a `Draw` and returns predictions of its test rows: the mean of a number, or the probability of
class 1. Where the table has a task column it is used: as a categorical column by trees, as intercepts and interactions
by ridge, as the group of random effects by mixed models. Settings are chosen by cross-validation on the training rows.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from scenarios import Draw
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
from sklearn.linear_model import LogisticRegressionCV, RidgeCV
from sklearn.model_selection import GridSearchCV, KFold, StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

RIDGES = np.logspace(-3, 4, 29)
SEED = 0


def own_rows(draw: Draw, t: Any) -> Any:
    """Positions of the training rows of one task."""
    return np.flatnonzero(draw.task == t)


def per_task(draw: Draw, one: Callable[[Any, Any, Any], Any]) -> Any:
    """Predictions of `one(X, y, X_test)`, fitted to the rows of each tested task by itself."""
    out = np.empty(len(draw.X_test))
    for t in np.unique(draw.task_test):
        at, asked = own_rows(draw, t), np.flatnonzero(draw.task_test == t)
        out[asked] = one(draw.X[at], draw.y[at], draw.X_test[asked])
    return out


def mean(draw: Draw) -> Any:
    """The mean of the task's rows; the share of class 1, with one row of each class added."""
    if draw.kind == "regression":
        return per_task(draw, lambda X, y, new: np.full(len(new), y.mean()))
    return per_task(draw, lambda X, y, new: np.full(len(new), (y.sum() + 1.0) / (len(y) + 2.0)))


def linear(kind: str) -> Any:
    """Ridge or logistic regression on standardised columns, its penalty chosen by cross-validation."""
    if kind == "regression":
        return make_pipeline(StandardScaler(), RidgeCV(RIDGES))
    folds = StratifiedKFold(5, shuffle=True, random_state=SEED)
    chosen = LogisticRegressionCV(
        Cs=np.logspace(-4, 2, 13), cv=folds, scoring="neg_log_loss", use_legacy_attributes=False, l1_ratios=(0.0,)
    )
    return make_pipeline(StandardScaler(), chosen)


def answer(model: Any, kind: str, X: Any) -> Any:
    """The mean, or the probability of class 1."""
    return model.predict(X) if kind == "regression" else model.predict_proba(X)[:, 1]


def linear_alone(draw: Draw) -> Any:
    """Ridge or logistic regression on the task's own rows; its mean where a class has fewer than five rows."""

    def one(X: Any, y: Any, new: Any) -> Any:
        if draw.kind == "classification" and np.bincount(y, minlength=2).min() < 5:
            return np.full(len(new), (y.sum() + 1.0) / (len(y) + 2.0))
        return answer(linear(draw.kind).fit(X, y), draw.kind, new)

    return per_task(draw, one)


def with_interactions(draw: Draw) -> Any:
    """Ridge or logistic regression on common columns, an intercept per task, and columns times task.

    Targets are scaled by task first where they are numbers, so that tasks in different units can share weights.
    """
    labels = np.unique(draw.task)
    middle, spread = StandardScaler().fit(draw.X), 1.0

    def design(X: Any, task: Any) -> Any:
        Z, one_hot = middle.transform(X), (task[:, None] == labels).astype(float)
        return np.hstack([Z, spread * one_hot, (Z[:, None, :] * one_hot[:, :, None]).reshape(len(Z), -1)])

    A, B = design(draw.X, draw.task), design(draw.X_test, draw.task_test)
    if draw.kind == "classification":
        model = linear(draw.kind)[-1].fit(A, draw.y)
        return model.predict_proba(B)[:, 1]
    y, level, scale = scaled_by_task(draw)
    at = np.searchsorted(labels, draw.task_test)
    return level[at] + scale[at] * RidgeCV(RIDGES).fit(A, y).predict(B)


def scaled_by_task(draw: Draw) -> tuple[Any, Any, Any]:
    """Targets less their task's mean over its standard deviation; mean and deviation of every label, sorted."""
    labels = np.unique(draw.task)
    level = np.array([draw.y[draw.task == t].mean() for t in labels])
    scale = np.array([draw.y[draw.task == t].std() for t in labels])
    scale[scale == 0] = 1.0
    at = np.searchsorted(labels, draw.task)
    return (draw.y - level[at]) / scale[at], level, scale


def with_task_column(draw: Draw) -> tuple[Any, Any]:
    """Columns and the code of the task as the last one."""
    labels = np.unique(draw.task)
    A = np.column_stack([draw.X, np.searchsorted(labels, draw.task)])
    return A, np.column_stack([draw.X_test, np.searchsorted(labels, draw.task_test)])


def trees(draw: Draw, model: Any, settings: dict[str, list[Any]], **fit: Any) -> Any:
    """A model of trees on all rows with the task as a column, its settings chosen by five folds."""
    A, B = with_task_column(draw)
    regression = draw.kind == "regression"
    y, level, scale = scaled_by_task(draw) if regression else (draw.y, None, None)
    folds = KFold(5, shuffle=True, random_state=SEED)
    scoring = "neg_mean_squared_error" if regression else "neg_log_loss"
    weights = {} if draw.primary is None else {"sample_weight": np.where(draw.task == draw.primary, 3.0, 1.0)}
    found = GridSearchCV(model, settings, cv=folds, scoring=scoring).fit(A, y, **fit, **weights)
    if not regression:
        return found.predict_proba(B)[:, 1]
    at = B[:, -1].astype(int)
    return level[at] + scale[at] * found.predict(B)


def lightgbm(draw: Draw) -> Any:
    """Gradient boosting with the task as a categorical column."""
    from lightgbm import LGBMClassifier, LGBMRegressor

    kind = LGBMRegressor if draw.kind == "regression" else LGBMClassifier
    model = kind(n_jobs=1, verbose=-1, random_state=SEED, min_child_samples=5, subsample=0.8, subsample_freq=1)
    settings = {"num_leaves": [4, 15], "n_estimators": [50, 200], "learning_rate": [0.05, 0.1]}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return trees(draw, model, settings, categorical_feature=[draw.X.shape[1]])


def forest(draw: Draw) -> Any:
    """A random forest with the task as a column."""
    kind = RandomForestRegressor if draw.kind == "regression" else RandomForestClassifier
    settings = {"min_samples_leaf": [1, 3, 8], "max_features": [0.33, 1.0]}
    return trees(draw, kind(n_estimators=200, random_state=SEED), settings)


def mixed_model(draw: Draw) -> Any:
    """A linear mixed model with a random intercept and random slopes per task, by restricted likelihood (statsmodels).

    Regression only. Slopes are independent of each other; above six columns they are those of the six columns that
    correlate most with the targets, as a person would restrict them.
    """
    import statsmodels.api as sm
    from statsmodels.regression.mixed_linear_model import MixedLM, MixedLMParams

    middle = StandardScaler().fit(draw.X)
    y, level, scale = scaled_by_task(draw)
    Z, new = middle.transform(draw.X), middle.transform(draw.X_test)
    most = np.argsort(-np.abs(Z.T @ y))[:6]
    fixed, asked = sm.add_constant(Z, has_constant="add"), sm.add_constant(new, has_constant="add")
    slopes, asked_slopes = fixed[:, [0, *(most + 1)]], asked[:, [0, *(most + 1)]]
    k = slopes.shape[1]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        free = MixedLMParams.from_components(fe_params=np.ones(fixed.shape[1]), cov_re=np.eye(k))
        found = MixedLM(y, fixed, draw.task, exog_re=slopes).fit(free=free, method="lbfgs")
    effects = found.random_effects
    own = np.array([asked_slopes[i] @ np.asarray(effects[t]) for i, t in enumerate(draw.task_test)])
    at = np.searchsorted(np.unique(draw.task), draw.task_test)
    return level[at] + scale[at] * (asked @ np.asarray(found.fe_params) + own)


def gpboost(draw: Draw) -> Any:
    """GPBoost's linear model with a random intercept and a random slope per column and task."""
    import gpboost as gpb

    middle = StandardScaler().fit(draw.X)
    regression = draw.kind == "regression"
    y, level, scale = scaled_by_task(draw) if regression else (draw.y.astype(float), None, None)
    Z, new = middle.transform(draw.X), middle.transform(draw.X_test)
    X, asked = np.column_stack([np.ones(len(Z)), Z]), np.column_stack([np.ones(len(new)), new])
    slopes: dict[str, Any] = {"group_rand_coef_data": Z, "ind_effect_group_rand_coef": [1] * Z.shape[1]}
    likelihood = "gaussian" if regression else "bernoulli_probit"
    model = gpb.GPModel(group_data=draw.task.astype(str), likelihood=likelihood, **slopes)
    model.fit(y=y, X=X, params={"trace": False})
    predicted = model.predict(
        X_pred=asked,
        group_data_pred=draw.task_test.astype(str),
        group_rand_coef_data_pred=new,
        predict_response=True,
        predict_var=False,
    )["mu"]
    if not regression:
        return predicted
    at = np.searchsorted(np.unique(draw.task), draw.task_test)
    return level[at] + scale[at] * predicted


def stacked(draw: Draw) -> Any:
    """A GP of each secondary by itself; its predictions are further columns of a ridge on the primary's rows.

    One primary only.
    """
    import borrow

    regression = draw.kind == "regression"
    kind, ask = (
        (borrow.SingleTaskGPRegressor, "predict")
        if regression
        else (borrow.SingleTaskGPClassifier, "decision_function")
    )
    others = [own_rows(draw, t) for t in np.unique(draw.task) if t != draw.primary]
    models, mine = [kind().fit(draw.X[at], draw.y[at]) for at in others], own_rows(draw, draw.primary)

    def columns(X: Any) -> Any:
        return np.column_stack([X, *(getattr(m, ask)(X) for m in models)])

    model = linear(draw.kind).fit(columns(draw.X[mine]), draw.y[mine])
    return answer(model, draw.kind, columns(draw.X_test))


def botorch(draw: Draw) -> Any:
    """BoTorch's MultiTaskGP at its defaults: a lengthscale per column, correlations of tasks above zero.

    Inputs are put within the range of the training rows, as its documentation asks; it scales targets by task itself.
    Regression only, and up to `MOST_BOTORCH` rows: a fit takes minutes.
    """
    import torch
    from botorch.fit import fit_gpytorch_mll
    from botorch.models import MultiTaskGP
    from gpytorch.mlls import ExactMarginalLogLikelihood

    A, B = with_task_column(draw)
    low, width = draw.X.min(axis=0), np.ptp(draw.X, axis=0)
    width[width == 0] = 1.0
    for Z in (A, B):
        Z[:, :-1] = (Z[:, :-1] - low) / width
    torch.manual_seed(SEED)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = MultiTaskGP(torch.tensor(A), torch.tensor(draw.y[:, None], dtype=torch.double), task_feature=-1)
        fit_gpytorch_mll(ExactMarginalLogLikelihood(model.likelihood, model))
        with torch.no_grad():
            return model.posterior(torch.tensor(B)).mean.numpy().ravel()


#: By name; what each can do is in `can`.
ALTERNATIVES: dict[str, Callable[[Draw], Any]] = {
    "mean": mean,
    "ridge alone": linear_alone,
    "ridge with interactions": with_interactions,
    "LightGBM": lightgbm,
    "random forest": forest,
    "MixedLM": mixed_model,
    "GPBoost": gpboost,
    "stacked GPs": stacked,
    "BoTorch": botorch,
}
#: Rows above which a fit of BoTorch takes more than some minutes.
MOST_BOTORCH = 400


def can(name: str, draw: Draw) -> bool:
    """Whether an alternative is made for such a draw."""
    if name == "stacked GPs":
        return draw.primary is not None
    if name == "BoTorch":
        return draw.kind == "regression" and len(draw.y) <= MOST_BOTORCH
    return name != "MixedLM" or draw.kind == "regression"
