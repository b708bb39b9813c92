"""The symmetric model for labels: EP on its covariances against a literal EP, and the classifier's public face."""

from dataclasses import replace

import numpy as np
import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

import borrow
import oracles
import oracles_multitask
from borrow import kernels
from borrow.covariance import Design
from borrow.data.cells import Cells
from borrow.inference import EPInference
from borrow.inference.ep import class_bias
from borrow.inference.likelihoods import Probit
from borrow.models.multitask.model import Setup, condition, multitask_objective
from borrow.models.multitask.task_covariance import Features, FreeForm, LowRank, Uniform
from borrow.numerics import optimise as hyper
from borrow.tasks.placed import PlacedTasks


@parametrize_with_checks([borrow.MultiTaskGPClassifier(max_iter=30)])
def test_scikit_learn_contract(estimator, check, monkeypatch):
    monkeypatch.setenv("SCIPY_ARRAY_API", "1")  # else scikit-learn skips one of its checks
    check(estimator)


def problem(form, path):
    """Four tasks, one empty, one with a single row; a repeated row with opposite labels."""
    rng = np.random.default_rng(1)
    starts = np.array([0, 8, 15, 15, 16])
    X = rng.normal(size=(16, 2))
    X[9], X[3] = X[10], X[12]
    y = np.where(rng.normal(size=16) + X[:, 0] > 0, 1.0, -1.0)
    y[9], y[10] = 1.0, -1.0
    zero = np.zeros(4)
    cells = Cells(X, y, np.ones(16), starts, zero, zero, zero)
    kernel = kernels.SquaredExponential(2.0, (0.9, 1.4), fixed=("variance",))
    setup = Setup(
        PlacedTasks(cells),
        Design.from_cells(cells),
        kernel,
        form,
        path,
        intercept=True,
        infer=EPInference(Probit(), tol=1e-12),
    )
    C = np.eye(4) + 0.4 * np.sign(np.outer([1, -1, 1, 1], [1, -1, 1, 1])) * (1 - np.eye(4))
    return setup, {"kernel": kernel.theta, **form.start(C), "intercept": np.log([0.4])}


CASES = [
    (FreeForm(4, None), "dense"),
    (LowRank(4, 2, "none", None), "dense"),
    (LowRank(4, 2, "none", None), "blocks"),
    (LowRank(4, 1, "free", None), "blocks"),
]


@pytest.mark.parametrize(("form", "path"), CASES)
def test_ep_equals_sequential_ep_on_the_dense_prior(form, path):
    setup, values = problem(form, path)
    cells, B = setup.cells, form.parts(values).B
    fit = condition(values, setup)
    assert fit.converged
    K = oracles_multitask.prior_covariance(cells.X, cells.task, cells.X, cells.task, setup.kernel, B, 0.4)
    evidence, mean, cov = oracles.sequential_ep(K, cells.y, class_bias(cells)[cells.task])
    assert fit.evidence == pytest.approx(evidence, rel=1e-8)
    got_mean, got_variance = fit.posterior.marginals()
    np.testing.assert_allclose(got_mean, mean, atol=1e-7)
    np.testing.assert_allclose(got_variance, np.diag(cov), rtol=1e-7, atol=1e-8)


@pytest.mark.parametrize(("form", "path"), CASES)
def test_gradient_at_frozen_sites_is_the_derivative_of_the_evidence(form, path):
    setup, values = problem(form, path)
    objective = multitask_objective(replace(setup, infer=EPInference(Probit(), tol=1e-13, max_sweeps=500)))
    _, gradient = objective(values)
    for name in values:

        def evidence(v, name=name):
            return objective({**values, name: v})[0]

        np.testing.assert_allclose(
            gradient[name], oracles.central_difference(evidence, values[name], 1e-5), atol=1e-6, err_msg=name
        )


def drawn(seed, sizes=(20, 60, 60), n=300):
    """Labels of three tasks with one function: as it is, as it is, and its opposite."""
    rng = np.random.default_rng(seed)
    sizes = (*sizes, n)
    X = rng.uniform(-3, 3, (sum(sizes), 1))
    K = kernels.SquaredExponential(6.0, 1.0)(X)
    f = np.linalg.cholesky(K + 1e-8 * np.eye(len(X))) @ rng.normal(size=len(X))
    sign = np.repeat([1.0, 1.0, -1.0, 1.0], sizes)
    y = np.where(rng.normal(size=len(X)) < sign * f, "yes", "no")
    m = len(X) - n
    return X[:m], y[:m], np.repeat(["p", "a", "b"], sizes[:3]), X[m:], y[m:]


def test_related_tasks_help_and_the_sign_is_in_the_task_covariance():
    gains, shared = [], []
    for seed in range(6):
        X, y, tasks, X_new, y_new = drawn(seed)
        together = borrow.MultiTaskGPClassifier().fit(X, y, tasks=tasks)
        alone = borrow.SingleTaskGPClassifier().fit(X, y, tasks=tasks)
        p, q = (m.predict_proba(X_new, tasks="p")[:, 1] for m in (together, alone))
        right = y_new == "yes"
        gains.append(np.mean(np.log(np.where(right, p, 1 - p)) - np.log(np.where(right, q, 1 - q))))
        order = [together.tasks_.tolist().index(t) for t in ("p", "a", "b")]
        B = together.task_covariance_[np.ix_(order, order)]
        shared.append(bool(B[0, 1]))  # in two of these draws the labels do not say that anything is shared
        assert B[0, 1] >= 0 >= B[0, 2]
    assert np.mean(gains) > 0.01
    assert sum(shared) >= 4


def test_diagonal_task_covariance_is_every_task_alone():
    X, y, tasks, X_new, _ = drawn(5, sizes=(15, 20, 10), n=20)
    kernel = kernels.SquaredExponential(2.0, 0.8)
    model = borrow.MultiTaskGPClassifier(kernel=kernel, task_covariance=np.eye(3), optimizer=None)
    p = model.fit(X, y, tasks=tasks).predict_proba(X_new, tasks="a")
    single = borrow.SingleTaskGPClassifier(kernel=kernel, optimizer=None).fit(X, y, tasks=tasks)
    np.testing.assert_allclose(p, single.predict_proba(X_new, tasks="a"), atol=1e-8)


@pytest.mark.parametrize(
    "how", [{"inducing": 8}, {"rank": 1, "diagonal": "free", "inducing": 8}, {"rank": 1, "intercept": True}]
)
def test_other_forms_fit_and_predict(how):
    X, y, tasks, _, _ = drawn(6, sizes=(20, 25, 25), n=1)
    model = borrow.MultiTaskGPClassifier(max_iter=30, **how).fit(X, y, tasks=tasks)
    assert np.mean(model.predict(X, tasks=tasks) == y) > 0.75
    assert model.path_ in ("blocks", "dense")


def test_three_classes_and_a_task_with_one():
    rng = np.random.default_rng(1)
    X = rng.uniform(-3, 3, (90, 1))
    y = np.array(["low", "middle", "high"])[np.digitize(X[:, 0], [-1, 1])]
    tasks = np.where(np.arange(90) < 30, "p", "s")
    model = borrow.MultiTaskGPClassifier(max_iter=30).fit(X, y, tasks=tasks)
    assert len(model.task_covariance_) == 3  # one a class
    np.testing.assert_allclose(model.predict_proba(X, tasks=tasks).sum(axis=1), 1.0)
    assert np.mean(model.predict(X, tasks=tasks) == y) > 0.9
    y[tasks == "s"] = "low"
    model = borrow.MultiTaskGPClassifier(max_iter=30).fit(X, y, tasks=tasks)
    assert set(model.predict(X[tasks == "s"], tasks="s")) == {"low"}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"rank": 4}, "rank=4: expected a whole number from 1 to 3"),
        ({"task_covariance": np.diag([1.0, 1.0, -1.0])}, "not positive semi-definite"),
        ({"task_features": ["x"]}, "expected a dict from task label to numbers"),
        ({"task_features": {"p": [1.0], "a": [2.0]}}, "no entry for task 'b'"),
        ({"task_kernel": kernels.Linear()}, "give task_features= too"),
        ({"inducing": 0}, "inducing=0: expected None, a number of inputs"),
        ({"likelihood": "cauchit"}, "expected 'probit' or 'logistic'"),
    ],
)
def test_wrong_arguments_are_answered_in_a_sentence(arguments, message):
    X, y, tasks, _, _ = drawn(7, sizes=(10, 10, 10), n=1)
    with pytest.raises(ValueError, match=message):
        borrow.MultiTaskGPClassifier(**arguments).fit(X, y, tasks=tasks)


@pytest.mark.parametrize(
    "form",
    [
        FreeForm(3, 3.0, 2.0),
        LowRank(3, 1, "none", 3.0, 2.0),
        LowRank(3, 1, "free", 3.0, 2.0),
        LowRank(3, 0, "free", 3.0, 2.0),
        Uniform(3, 3.0, 2.0),
        Features(np.eye(3), kernels.SquaredExponential(1.0, 1.0), np.ones(3), 3.0, 2.0),
    ],
    ids=lambda f: f"{type(f).__name__} {getattr(f, 'rank', '')} {getattr(f, 'diagonal', '')}",
)
def test_priors_of_the_task_covariance_in_units_of_the_probit(form):
    """That of K^f / e^2 in units of scaled targets, up to a constant; and the right slope."""
    rng = np.random.default_rng(0)
    values = {n: v + 0.3 * rng.normal(size=v.shape) for n, v in form.start(np.eye(3)).items()}
    gradient = form.log_prior(values)[1]
    expected = oracles.central_difference(lambda x: form.log_prior(hyper.unpack(x, values))[0], hyper.pack(values))
    np.testing.assert_allclose(hyper.pack(gradient), expected, atol=1e-6)

    def divided(values):
        roots = {n: v / np.e for n, v in values.items() if n in ("factor", "loadings")}
        logs = {n: v - 2.0 for n, v in values.items() if n in ("own", "uniform")}
        if "task_kernel" in values:
            logs["task_kernel"] = values["task_kernel"] - 2.0 * form.kernel.mask_of("variance")
        return {**values, **roots, **logs}

    plain = replace(form, log_variance=0.0)
    other = {n: v + 0.3 * rng.normal(size=v.shape) for n, v in values.items()}
    change = form.log_prior(other)[0] - form.log_prior(values)[0]
    assert change == pytest.approx(plain.log_prior(divided(other))[0] - plain.log_prior(divided(values))[0])


def test_labels_that_say_nothing_leave_the_task_covariance_at_its_prior():
    rows = np.zeros((4, 1)), ["no", "yes"] * 2, [0, 0, 1, 1]
    model = borrow.MultiTaskGPClassifier(specific_kernel=None).fit(*rows)
    strong = borrow.MultiTaskGPClassifier(task_prior=1e3, specific_kernel=None).fit(*rows)
    np.testing.assert_allclose(strong.task_covariance_, np.e**2 * np.eye(2), atol=0.3)
    assert 2.0 < model.task_covariance_[0, 0] < 8.0
