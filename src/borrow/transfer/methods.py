"""The methods that are compared: those of the registry, variants, references that people know, and the user's."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from math import inf
from typing import Any

from sklearn.base import is_classifier

from borrow import models
from borrow.data.labels import list_labels
from borrow.estimators import registry
from borrow.estimators.registry import Entry
from borrow.transfer.references import LogisticReference, RidgeReference, WrappedClassifier, WrappedRegressor


@dataclass(frozen=True)
class Reference:
    """A method that everybody knows, and that is there in every comparison."""

    label: str
    form: str
    most_rows: float = inf


@dataclass(frozen=True)
class Variant:
    """A method of the registry with other settings."""

    label: str
    key: str
    settings: Mapping[str, Any] = field(default_factory=dict)


REFERENCES = {
    "mean": Reference("mean of the primary", "mean"),
    "ridge": Reference("ridge on the primary", "ridge"),
    "ridge_tasks": Reference("ridge with a slope per task", "tasks", 1500),
}
VARIANTS = {
    "rank1": Variant("symmetric GP of rank 1", "symmetric", {"rank": 1, "diagonal": "free", "intercept": True}),
}
#: What does without the other data.
ALONE = ("single", "mean", "ridge")
#: What can drop a relation, so that data that do not help need not hurt it.
DROPS = ("focused", "symmetric", "rank1")
#: Tasks of more rows than this are not fitted by themselves beside the primary.
MOST_ROWS_ALONE = 1500
#: What "auto" leaves out, and why.
NOT_IN_AUTO = {
    "pooled": "it takes all tasks for one",
    "rbf": "it did not win in the draws that were tried",
}


class MethodLabels(Mapping[str, str]):
    """What every method is called for people, by its key, in the order of every table; read when it is asked for."""

    def _now(self) -> dict[str, str]:
        models.load()
        found = registry.methods()
        labels = {"single": found.pop("single"), **{k: r.label for k, r in REFERENCES.items()}}
        for key, label in found.items():
            labels |= {key: label, **{k: v.label for k, v in VARIANTS.items() if v.key == key}}
        return labels

    def __getitem__(self, key: str) -> str:
        return self._now()[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._now())

    def __len__(self) -> int:
        return len(self._now())


LABELS = MethodLabels()


def label_of(key: str) -> str:
    """What a method is called; one of the user's own by the name that it was given."""
    return LABELS.get(key, key)


def entry(kind: str, key: str) -> Entry:
    """The estimator behind a method of the registry, for targets of this kind."""
    label = LABELS[key]
    found = registry.by_key(VARIANTS[key].key if key in VARIANTS else key, kind)
    if found is None:
        raise ValueError(f"method {key!r} ({label}) is for {_other(kind)} only")
    return found


def _other(kind: str) -> str:
    return "regression" if kind == "classification" else "classification"


def _class(kind: str, key: str) -> type:
    if key in REFERENCES:
        return RidgeReference if kind == "regression" else LogisticReference
    return entry(kind, key).estimator


def call_of(kind: str, key: str, task: str, primary: Any) -> str | None:
    """How a user would make the estimator of a method; None for a reference, and for one of the user's own."""
    if key in REFERENCES or key not in LABELS:
        return None
    found = entry(kind, key)
    settings = {"task": task, **({"primary": primary} if found.takes("primary") else {})}
    settings |= VARIANTS[key].settings if key in VARIANTS else {}
    return f"borrow.{found.name}({', '.join(f'{k}={v!r}' for k, v in settings.items())})"


def estimator_name(kind: str, key: str) -> str:
    """Name of the estimator behind a method."""
    return _class(kind, key).__name__


def build(
    kind: str,
    key: str,
    task: Any = None,
    primary: Any = None,
    random_state: Any = 0,
    alone: bool = False,
    unseen: str = "error",
) -> Any:
    """An estimator, not yet fitted; with `alone=True` one that can fit the primary and no other task does so."""
    if key in REFERENCES:
        form = REFERENCES[key].form
        only = primary if alone and form != "tasks" else None
        return _class(kind, key)(task=task, random_state=random_state, form=form, only=only)
    found = entry(kind, key)
    settings: dict[str, Any] = {"primary": primary} if found.takes("primary") else {}
    if alone and found.takes("only"):
        settings = {"only": primary}
    settings |= VARIANTS[key].settings if key in VARIANTS else {}
    if unseen != "error":
        settings["unseen"] = unseen
    return found.estimator(task=task, random_state=random_state, **settings)


def wrap(estimator: Any, kind: str, task: Any, primary: Any, random_state: Any = 0) -> Any:
    """An estimator of scikit-learn as a method; given in a pair with "primary" it has the primary's rows only."""
    estimator, rows = estimator if isinstance(estimator, tuple) else (estimator, "all")
    cls = WrappedRegressor if kind == "regression" else WrappedClassifier
    return cls(task=task, random_state=random_state, estimator=estimator, primary=primary, rows=rows)


def key_of(model: Any) -> str | None:
    """The method that an estimator is; None where it is none."""
    if isinstance(model, (RidgeReference, LogisticReference)):
        return next(key for key, r in REFERENCES.items() if r.form == model.form)
    found = registry.entry_of(model)
    if found is None:
        return None
    for key, variant in VARIANTS.items():
        if variant.key == found.key and all(getattr(model, k) == v for k, v in variant.settings.items()):
            return key
    return found.key


def choose(kind: str, rows: int, methods: Any) -> tuple[list[str], dict[str, str], dict[str, Any]]:
    """Methods to run, in order; why others are left out; and estimators of the user's own, by their names.

    `rows` are those of all tasks with a target. Names that are no methods, and methods that do not apply, are refused.
    No transfer and the references are always there.
    """
    skipped = {
        key: f"{rows:,} rows are many for one joint matrix" for key, r in REFERENCES.items() if rows > r.most_rows
    }
    always = {"single", *(key for key in REFERENCES if key not in skipped)}
    if not (isinstance(methods, str) and methods == "auto"):
        asked, own = _own([methods] if isinstance(methods, str) else list(methods), kind)
        if unknown := [key for key in asked if key not in LABELS]:
            known = list_labels(list(LABELS))
            raise ValueError(f"methods names {list_labels(unknown)}; methods are {known}, or 'auto'")
        chosen = always | {key for key in asked if key in REFERENCES or entry(kind, key) is not None}
        return [*(key for key in LABELS if key in chosen), *own], skipped, own
    for key in LABELS:
        if key in REFERENCES:
            continue
        found = registry.by_key(VARIANTS[key].key if key in VARIANTS else key, kind)
        if found is None:
            skipped[key] = f"for {_other(kind)} only"
        elif rows > found.most_rows:
            skipped[key] = f"{rows:,} rows are many for one joint matrix; name it in methods= to run it all the same"
        elif key in NOT_IN_AUTO:
            skipped[key] = f"{NOT_IN_AUTO[key]}; name it in methods= to run it all the same"
    return [key for key in LABELS if key not in skipped], skipped, {}


def _own(asked: list[Any], kind: str) -> tuple[list[str], dict[str, Any]]:
    """Keys, and by name the estimators among what was asked for, each perhaps with the rows that it is to have."""
    keys, own = [], {}
    for method in asked:
        if isinstance(method, str):
            keys.append(method)
            continue
        if not isinstance(method, tuple) or len(method) not in (2, 3) or not isinstance(method[0], str):
            raise ValueError(
                f"methods holds {method!r}; expected the key of a method, or (name, estimator) with an estimator of "
                "scikit-learn, or (name, estimator, 'primary') for the primary's rows only"
            )
        name, estimator, *rows = method
        rows = rows or ["all"]
        if name in LABELS or name in own:
            raise ValueError(f"methods names {name!r} twice, or it is the key of a method; give another name")
        if not (hasattr(estimator, "fit") and hasattr(estimator, "get_params")) or rows[0] not in ("all", "primary"):
            raise ValueError(
                f"methods: {name!r} is {estimator!r} with rows {rows[0]!r}; expected an estimator of "
                "scikit-learn, with 'all' (the task as columns) or 'primary'"
            )
        if is_classifier(estimator) != (kind == "classification") or (
            kind == "classification" and not hasattr(estimator, "predict_proba")
        ):
            raise ValueError(f"methods: {name!r} is no estimator for {kind} (for labels it needs predict_proba)")
        own[name] = (estimator, rows[0])
    return keys, own
