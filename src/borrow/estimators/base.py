"""What every estimator shares: settings that a dataclass declares once, and one frozen fitted state.

`fit` works on a copy of the estimator that has its settings and nothing else. Only when everything is there does one
assignment, `self.fitted_ = Fitted(...)`, publish it: a fit that fails or is interrupted leaves the estimator as it was.
The public attributes (`kernel_`, `noise_`, ...) are entries of that object.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Hashable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import KW_ONLY, dataclass, field, replace
from functools import partial
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.utils import _safe_indexing
from sklearn.utils.validation import check_is_fitted

from borrow.data.cells import Cells, Codes
from borrow.data.labels import sort_labels
from borrow.data.read import Schema, read_new
from borrow.estimators.settings import Allowed, check_allowed, check_seed, one_of
from borrow.estimators.view import draw, draw_tasks, learnt
from borrow.numerics.device import MemoryGivenBack, resolve
from borrow.numerics.linalg import Array
from borrow.numerics.stored import stored
from borrow.numerics.threads import single_thread
from borrow.tasks.placed import PlacedTasks
from borrow.tasks.workers import open_workers

#: Puts rows where they are computed for the time of a fit.
Place = Callable[[Cells], PlacedTasks]
#: Rows that are answered for at a time.
BLOCK = 4096


@stored("fitted")
@dataclass(frozen=True)
class Fitted:
    """Everything that a fit leaves behind. It is made completely, then assigned, and never changed."""

    schema: Schema
    model: Any  # what predicts, for coded tasks; its type is the estimator's own
    attributes: Mapping[str, Any]  # the public attributes, by name


@dataclass(eq=False, repr=False)
class TaskEstimator(BaseEstimator):
    """What every estimator shares. Abstract.

    Parameters
    ----------
    task : column of X that names the task (name or position); None with `tasks=` in `fit`, wide y, or a single task.
    random_state : seed or generator; the only source of randomness.
    unseen : what to do about a task that `fit` never saw: "error" refuses it, "population" answers as for a task drawn
        from those seen, with a wider band, and warns.

    Attributes
    ----------
    tasks_ : labels of the tasks, sorted.
    n_features_in_, feature_names_in_ : columns of X in `fit`, the task column included; names only for frames.
    fitted_ : everything that the fit found, in one frozen object; the other attributes are read from it.
    """

    task: str | int | None = None
    _: KW_ONLY
    random_state: Any = 0
    unseen: str = "error"

    #: What the settings may be, by name; a class adds its own to those of its bases, or puts them in their place.
    allowed: ClassVar[Allowed] = {
        "unseen": one_of("error", "population", said="'error', or 'population' to answer for new tasks")
    }
    #: Whether what is learnt from some tasks says something of another one.
    shares_tasks: ClassVar[bool] = True

    #: No settings: of the table, on the copy that is being fitted; and what the fit found.
    _schema: Schema = field(init=False)
    fitted_: Fitted = field(init=False)

    def fit(self, X: Any, y: Any = None, tasks: Any = None) -> Self:
        """Fit to a table of any form; y holds targets, or labels of any kind, None or NaN where a row has none."""
        self.fitted_ = self._unfitted()._learn(X, y, tasks)
        return self

    @abstractmethod
    def _learn(self, X: Any, y: Any, tasks: Any) -> Fitted:
        """Read, fit and put together everything that is to be published; called on a copy without fitted state."""

    def _unfitted(self) -> Self:
        """The same settings, checked, without what a fit found; scikit-learn may leave attributes of its own on it."""
        check_seed(self.random_state)
        self._check_settings()
        return type(self)(**self.get_params(deep=False))

    def _check_settings(self) -> None:
        """Refuse constructor arguments that the estimator cannot use."""
        tables = [vars(kind).get("allowed", {}) for kind in reversed(type(self).__mro__)]
        check_allowed(self.get_params(deep=False), {name: check for table in tables for name, check in table.items()})

    def _read_attributes(self) -> dict[str, Any]:
        """What scikit-learn's validation left on this copy: the number of columns and their names."""
        return {name: value for name, value in vars(self).items() if name.endswith("_in_")}

    def __getattr__(self, name: str) -> Any:
        fitted = self.__dict__.get("fitted_")
        if fitted is not None and name in fitted.attributes:
            return fitted.attributes[name]
        if isinstance(getattr(type(self), name, None), property):  # it asked for a fit, and there is none
            check_is_fitted(self)
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def __dir__(self) -> list[str]:
        fitted = self.__dict__.get("fitted_")
        return sorted({*super().__dir__(), *(() if fitted is None else fitted.attributes)})

    def __sklearn_is_fitted__(self) -> bool:
        return "fitted_" in self.__dict__

    def _fit_of(self) -> Fitted:
        """The fitted state; scikit-learn's error where there is none."""
        check_is_fitted(self)
        return self.fitted_

    def plot(self, inputs: Any = None, tasks: Any = None, X: Any = None, ax: Any = None) -> Any:
        """Draw what the model predicts over one or two inputs; returns the Axes. Needs `borrow[plot]`.

        Over one input: a curve for each task, with the 95 % band of the function (labels: of the probability of the
        last class) and the targets that were measured. Over two: a map for one task, with lines of equal standard
        deviation (labels: of half the width of a 68 % band).

        Parameters
        ----------
        inputs : one or two inputs, by name or position. Others are held at their median over the rows.
        tasks : labels of tasks; None draws six at most over one input, the primary first, and over two one task.
        X : inputs that say how far to draw, for models that keep no rows of their own (classifiers).
        ax : the matplotlib Axes to draw on; None makes one.
        """
        check_is_fitted(self)
        return draw(self, inputs, tasks, X, ax)

    def plot_tasks(self, ax: Any = None) -> Any:
        """Draw the correlations between tasks that the model learnt as a map; returns the Axes. Needs `borrow[plot]`.

        Parameters
        ----------
        ax : the matplotlib Axes to draw on; None makes one.
        """
        check_is_fitted(self)
        return draw_tasks(self, ax)

    def _repr_html_inner(self) -> str:
        return super()._repr_html_inner() + self._learnt()

    def _repr_mimebundle_(self, **kwargs: Any) -> dict[str, str]:
        bundle: dict[str, str] = super()._repr_mimebundle_(**kwargs)
        return {kind: text + self._learnt() * (kind == "text/html") for kind, text in bundle.items()}

    def _learnt(self) -> str:
        """What the fit found, under what scikit-learn shows of the settings."""
        return learnt(self._fit_of().attributes) if self.__sklearn_is_fitted__() else ""

    def _primary_code(self, labels: tuple[Hashable, ...]) -> int | None:
        """Code of the task that matters, where the model has one."""
        return None

    def _read_new(self, X: Any, tasks: Any, population: bool = False) -> tuple[Any, Codes | None]:
        """Rows to predict for, with their task codes; None where a wide fit is asked for every task.

        With `population`, the code of a task never seen is -1 where the constructor's `unseen` allows it.
        """
        schema = self._fit_of().schema
        return read_new(self, X, schema, tasks, self._primary_code(schema.labels), population=population)

    def _scored(self, X: Any, y: Any, sample_weight: Any) -> tuple[Any, Any, Any]:
        """The rows that a score is of: those of the primary, where the model has one and X says which they are."""
        schema = self._fit_of().schema
        main = self._primary_code(schema.labels)
        if main is None or schema.task is None:
            return X, y, sample_weight
        _, task = self._read_new(X, None, population=True)
        mine = np.flatnonzero(task == main)
        if not len(mine):
            raise ValueError(
                f"the score of {type(self).__name__} is that of its primary, and no row is of {schema.labels[main]!r}; "
                "in cross-validation, stratify by task"
            )
        some = [None if part is None else _safe_indexing(part, mine) for part in (X, y, sample_weight)]
        return some[0], some[1], some[2]

    @contextmanager
    def _places(self, n_rows: int, largest: int, largest_on_device: int) -> Iterator[Place]:
        """For the time of a fit: the workers and the device that the settings name, one thread where blocks are small.

        `largest` is the number of rows of the largest matrix that is factored.
        """
        device = resolve(getattr(self, "device", "cpu"), n_rows)
        with (
            single_thread(largest if device is None else 0),  # with a device the host has small matrices alone
            open_workers(getattr(self, "workers", None)) as workers,
            MemoryGivenBack(device, largest_on_device),
        ):
            yield partial(PlacedTasks, workers=workers, device=device)


@dataclass(eq=False, repr=False, kw_only=True)
class OnWorkers(TaskEstimator):
    """What estimators share whose tasks can be spread over workers. Abstract.

    Parameters
    ----------
    workers : None fits in this process; a number of processes, or "dask" for the workers of the current Dask client:
        tasks are spread over them, the answer is the same (docs/large.md).
    """

    workers: Any = None


class NumberEstimator(RegressorMixin, TaskEstimator):
    """What every estimator of numbers has. Abstract."""

    #: Whether `predict` gives the deviation of the function; if not, that of a measurement, asked for noise or not.
    tells_noise: ClassVar[bool] = True

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """R² of the predictions; of the primary's rows alone where the model has a primary."""
        return float(super().score(*self._scored(X, y, sample_weight)))


class LabelEstimator(ClassifierMixin, TaskEstimator):
    """What every estimator of labels has, beside its `predict_proba`. Abstract."""

    @abstractmethod
    def predict_proba(self, X: Any, tasks: Any = None) -> Array:
        """Probability of each class, one column per class."""

    def predict(self, X: Any, tasks: Any = None) -> Any:
        """The likeliest class of each row."""
        likeliest = self.predict_proba(X, tasks).argmax(axis=-1)  # first: it refuses what is not fitted
        return self.classes_[likeliest]

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Share of rows whose class is right; of the primary's rows alone where the model has a primary."""
        return float(super().score(*self._scored(X, y, sample_weight)))


def shown(attributes: Mapping[str, Any], labels: tuple[Hashable, ...]) -> dict[str, Any]:
    """The public attributes with every dict by task label, and lists of such dicts, in the order of `tasks_`."""
    place = {label: i for i, label in enumerate(sort_labels(labels))}

    def in_order(value: Any) -> Any:
        if isinstance(value, list):
            return [in_order(v) if isinstance(v, dict) else v for v in value]
        if isinstance(value, dict) and value.keys() <= place.keys():
            return {label: value[label] for label in sorted(value, key=place.__getitem__)}
        return value

    return {name: in_order(value) for name, value in attributes.items()}


def over_tasks(
    answer: Callable[[Any, Codes], Array],
    rows: Any,
    task: Codes,
    n_tasks: int,
    drawn: Callable[[Array], Array] | None = None,
) -> Array:
    """What is answered for rows with codes of tasks, so many rows at a time: memory does not grow with their number.

    For the code -1, a task never seen, it is what `drawn` makes of the answers of all tasks seen; None is their mean.
    """

    def in_blocks(rows: Any, task: Codes) -> Array:
        starts = range(0, len(task) or 1, BLOCK)
        return np.concatenate([answer(rows[i : i + BLOCK], task[i : i + BLOCK]) for i in starts])

    new = task < 0
    if not new.any():
        return in_blocks(rows, task)
    each = np.array([in_blocks(rows[new], np.full(int(new.sum()), t)) for t in range(n_tasks)])
    population = each.mean(axis=0) if drawn is None else drawn(each)
    out = np.empty((len(task), *population.shape[1:]))
    out[new] = population
    if not new.all():
        out[~new] = in_blocks(rows[~new], task[~new])
    return out


def with_encoder(model: Any, encoder: Any) -> Any:
    """The fitted model, which from now on takes rows as they were before the encoder; None leaves it as it is."""
    if encoder is not None:
        fitted = model.fitted_
        attributes = {**fitted.attributes, "encoder_": encoder}
        model.fitted_ = replace(fitted, schema=replace(fitted.schema, encoder=encoder), attributes=attributes)
    return model


def as_labels(labels: tuple[Hashable, ...]) -> Any:
    """Labels as an array: numbers and text as such, mixtures and other kinds as objects."""
    if len({type(v) for v in labels}) == 1 and isinstance(labels[0], (str, int, float, np.generic)):
        return np.array(labels)
    out = np.empty(len(labels), dtype=object)
    out[:] = labels
    return out


def one_or_list(values: list[Any]) -> Any:
    """The only value, or the list of them: one per class against the rest where there are more than two."""
    return values[0] if len(values) == 1 else values
