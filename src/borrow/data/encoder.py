"""`TableEncoder`: a table as people have it in numbers, by one decision per column (`data.encode`)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, Self

import narwhals.stable.v1 as nw
import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_array, check_is_fitted, validate_data

from borrow.data.encode import (
    AS_ASKED,
    MISSING,
    MOST_LEVELS,
    Decision,
    Dropped,
    Levels,
    Numbers,
    NumericColumn,
    TaskColumn,
    as_floats,
    decide,
    decide_levels,
    needs_encoding,
    plain_list,
    read_levels,
)
from borrow.data.labels import did_you_mean, list_labels
from borrow.data.read import as_frame, warn_identifier_columns
from borrow.numerics.linalg import Array
from borrow.numerics.stored import stored
from borrow.numerics.warned import log, warn


@stored("TableEncoder", state="columns_ n_features_in_ feature_names_in_ _sklearn_output_config")
@dataclass(eq=False, repr=False)
class TableEncoder(TransformerMixin, BaseEstimator):
    """Numbers from a table as people have it: text, dates and gaps encoded, the task column left alone.

    What becomes of each column is decided in `fit`, said by `report`, and applied again by `transform`. `compare`, the
    `Auto` estimators and the command line put it in front of their models by themselves where a table needs it;
    elsewhere it stands in a pipeline. A table of numbers without gaps passes through unchanged.

    Parameters
    ----------
    task : column that names the task (a name, or a position in an array); it stays as it is.
    drop : columns to leave out.
    orders : dict by column of levels in their order, for text such as low, medium, high. Ordered categoricals of pandas
        and enumerations of polars bring their own.
    max_levels : levels that have a column each; where there are more, the rarest share one.

    Attributes
    ----------
    columns_ : one decision per column, in the order of the table.
    n_features_in_, feature_names_in_ : columns of X in `fit`, the task column included; names only for frames.

    Examples
    --------
    >>> import numpy as np
    >>> from borrow import TableEncoder
    >>> table = {"ward": np.array(["a", "b", "c", "a"]), "age": np.array([61.0, np.nan, 48.0, 70.0])}
    >>> encoder = TableEncoder().fit(table)
    >>> print(encoder.report())
    'ward': 3 levels, one column each
    'age': 1 gap has the median 61, and a column marks them
    >>> list(encoder.transform(table))
    ['ward=a', 'ward=b', 'ward=c', 'age', 'age missing']
    """

    task: Any = None
    _: KW_ONLY
    drop: Any = ()
    orders: Mapping[Hashable, Sequence[Any]] | None = None
    max_levels: int = MOST_LEVELS

    def fit(self, X: Any, y: Any = None) -> Self:
        """Decide what becomes of each column; y is not looked at."""
        columns, task, orders = _columns(X), self.task, dict(self.orders or {})
        drop = [self.drop] if isinstance(self.drop, str) else list(self.drop)
        named = [(f"task={task!r} is not a column of X", task)] if task is not None else []
        named += [(f"drop names {name!r}", name) for name in drop]
        named += [(f"orders names {name!r}", name) for name in orders]
        for told, name in named:
            if name not in columns:
                near = did_you_mean(name, columns)
                raise ValueError(f"{told}; columns are {list_labels(list(columns))}{near}")
        if isinstance(self.max_levels, bool) or not isinstance(self.max_levels, int) or self.max_levels < 2:
            raise ValueError(f"max_levels={self.max_levels!r}: expected a whole number of at least 2")
        decisions: dict[Hashable, Decision] = {}
        for name, values in columns.items():
            if name in drop:
                decisions[name] = Dropped(name, AS_ASKED)
            elif name == task:
                decisions[name] = TaskColumn(name)
            else:
                decisions[name] = decide(name, values, orders.get(name), self.max_levels)
        self._keep_one(decisions, columns)
        times = Counter(n for d in decisions.values() for n in d.names)
        if twice := [n for n, k in times.items() if k > 1]:
            raise ValueError(f"the encoded columns would have the name {list_labels(twice)} twice; rename a column")
        n_tasks = 1 if task is None else len(set(plain_list(columns[task])))
        plain = {n: as_floats(columns[n], n) for n, d in decisions.items() if isinstance(d, Numbers)}
        left_out = [f"column {d.name!r}: {d.sentence()}" for d in decisions.values() if _unasked(d)]
        for text in left_out:
            warn(text)
        warn_identifier_columns(plain, n_tasks)
        self.columns_ = tuple(decisions.values())
        self.n_features_in_ = len(columns)
        if as_frame(X) is not None and all(isinstance(n, str) for n in columns):
            self.feature_names_in_ = np.array(list(columns), dtype=object)
        for line in self.report().splitlines():
            log.info(line)
        return self

    def _keep_one(self, decisions: dict[Hashable, Decision], columns: Mapping[Hashable, Any]) -> None:
        """The last input is never left out, unless it was asked for or holds nothing."""
        if any(isinstance(d, (NumericColumn, Levels)) for d in decisions.values()):
            return
        for name, decision in reversed(decisions.items()):
            if _unasked(decision) and any(v != MISSING for v in read_levels(columns[name])):
                decisions[name] = decide_levels(name, columns[name], self.max_levels)
                return
        raise ValueError(f"nothing is left of the columns {list_labels(list(decisions))}; a model needs one input")

    def transform(self, X: Any) -> Any:
        """The same rows in numbers, in the form that they came in: a frame, an array or a dict of columns.

        Levels that `fit` did not see, and gaps where it saw none, are named in a warning. Columns are taken by their
        names; the task column may be missing, and so may those that are left out.
        """
        check_is_fitted(self)
        columns, frame = _columns(X), as_frame(X)
        if frame is None and not isinstance(X, Mapping):
            validate_data(self, X=X, skip_check_array=True, reset=False)  # the number of columns
        known = {d.name: d for d in self.columns_}
        if extra := [n for n in columns if n not in known]:
            raise ValueError(f"X has the column {list_labels(extra)}, which fit did not see; leave it out")
        if lacking := [n for n in self.inputs_ if n not in columns]:
            raise ValueError(f"X lacks {list_labels(lacking)}; fit saw the columns {list_labels(list(known))}")
        out: dict[str, Any] = {}
        for name, decision in known.items():
            if name in columns and decision.names:
                out |= dict(zip(decision.names, decision.encode(columns[name]).T, strict=True))
        if frame is not None:
            return nw.from_dict(
                {n: v.tolist() if v.dtype == object else v for n, v in out.items()},
                native_namespace=nw.get_native_namespace(frame),
            ).to_native()
        return out if isinstance(X, Mapping) else np.column_stack(list(out.values()))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = tags.input_tags.string = tags.input_tags.categorical = True
        return tags

    def get_feature_names_out(self, input_features: Any = None) -> Any:
        """Names of the columns that `transform` gives."""
        check_is_fitted(self)
        return np.array([n for d in self.columns_ for n in d.names], dtype=object)

    @property
    def inputs_(self) -> tuple[Hashable, ...]:
        """The columns that `transform` needs, without the task column."""
        return tuple(d.name for d in self.columns_ if isinstance(d, (NumericColumn, Levels)))

    def written(self, row: Array) -> dict[str, str]:
        """What the columns held, by name, from the numbers of one row; without those that are left out."""
        at, out = 0, {}
        for decision in self.columns_:
            if isinstance(decision, (NumericColumn, Levels)):
                out[str(decision.name)] = decision.written(row[at : at + len(decision.names)])
                at += len(decision.names)
        return out

    def report(self) -> str:
        """What became of the columns, one line per column that did not stay as it was."""
        check_is_fitted(self)
        return "\n".join(f"{d.name!r}: {said}" for d in self.columns_ if (said := d.sentence()))


def encode_frame(X: Any, task: Any) -> tuple[Any, TableEncoder | None]:
    """A frame in numbers and the encoder that made them; as it is, and None, where it holds nothing else."""
    frame = as_frame(X)
    if frame is None or (task is not None and not isinstance(task, str)):
        return X, None
    if not needs_encoding({c: frame.get_column(c) for c in frame.columns if c != task}):
        return X, None
    encoder = TableEncoder(task if task in frame.columns else None).fit(X)
    return encoder.transform(X), encoder


def _columns(X: Any) -> dict[Hashable, Any]:
    """The columns of a table by name, or by position."""
    if isinstance(X, Mapping) and not hasattr(X, "toarray"):  # one kind of sparse matrix is a dict
        return dict(X)
    frame = as_frame(X)
    if frame is not None:
        return {c: frame.get_column(c) for c in frame.columns}
    array = X if hasattr(X, "dtype") or hasattr(X, "toarray") else np.array(X, dtype=object)
    return dict(enumerate(check_array(array, dtype=None, ensure_all_finite=False, input_name="X").T))


def _unasked(decision: Any) -> bool:
    return isinstance(decision, Dropped) and decision.why != AS_ASKED
