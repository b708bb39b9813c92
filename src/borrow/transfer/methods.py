"""The methods that are compared: those of the registry, variants, references that people know, and the user's."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from math import inf
from typing import Any

from sklearn.base import is_classifier

from borrow import models
from borrow.data.labels import list_labels
from borrow.estimators import registry
from borrow.estimators.registry import Entry
from borrow.transfer.references import LogisticReference, RidgeReference, WrappedClassifier, WrappedRegressor

#: Methods that everybody knows, and that are there in every comparison: what `Entry` says of their estimator.
REFERENCES: dict[str, dict[str, Any]] = {
    "mean": {
        "label": "mean of the primary",
        "settings": {"form": "mean"},
        "about": "the mean of the primary's rows, whatever the inputs: a reference",
    },
    "ridge": {
        "label": "ridge on the primary",
        "settings": {"form": "ridge"},
        "about": "a straight line through the primary's rows: a reference",
    },
    "ridge_tasks": {
        "label": "ridge with a slope per task",
        "settings": {"form": "tasks", "only": None},
        "about": "a straight line per task, drawn towards one that all share: a reference",
        "most_rows": 1500,
    },
}
#: Methods that are another one with settings of their own: which, and what `Entry` says differently.
VARIANTS: dict[str, tuple[str, dict[str, Any]]] = {
    "rank1": (
        "symmetric",
        {
            "label": "symmetric GP of rank 1",
            "settings": {"rank": 1, "diagonal": "free", "intercept": True},
            "about": "as the symmetric GP, with one function in common and a level and a function of each task's own",
        },
    )
}
#: No transfer, which is in every comparison; all that does without the other data; and lines that do with them.
NO_TRANSFER = "single"
ALONE, LINES = (NO_TRANSFER, "mean", "ridge"), "ridge_tasks"
#: Tasks of more rows than this are not fitted by themselves beside the primary.
MOST_ROWS_ALONE = 1500


class MethodLabels(Mapping[str, str]):
    """What every method is called for people, by its key, in the order of every table; read when it is asked for."""

    def _now(self) -> dict[str, str]:
        models.load()
        found = registry.methods()
        labels = {NO_TRANSFER: found.pop(NO_TRANSFER), **{k: r["label"] for k, r in REFERENCES.items()}}
        for key, label in found.items():
            labels |= {key: label, **{k: own["label"] for k, (of, own) in VARIANTS.items() if of == key}}
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


def about_of(key: str) -> str:
    """A line for readers who do not know a method; empty for one of the user's own."""
    found = (declared(kind, key) for kind in ("regression", "classification"))
    return next((e.about for e in found if e is not None and e.about), "")


def method_for(role: str) -> str:
    """The method that declares this role (`Entry.role`)."""
    models.load()
    return next(e.key for e in registry.entries() if e.role == role and e.key is not None)


def entry(kind: str, key: str) -> Entry:
    """The estimator behind a method, for targets of this kind."""
    label = LABELS[key]
    found = declared(kind, key)
    if found is None:
        raise ValueError(f"method {key!r} ({label}) is for {_other(kind)} only")
    return found


def declared(kind: str, key: str) -> Entry | None:
    """What is known of a method, for targets of this kind; None where there is none, and of the user's own."""
    if key in REFERENCES:
        return Entry(RidgeReference if kind == "regression" else LogisticReference, key, **REFERENCES[key])
    of, own = VARIANTS.get(key, (key, {}))
    found = registry.by_key(of, kind)
    return found and replace(found, key=key, **own)


def drops(kind: str, key: str) -> bool:
    """Whether a method can drop a relation."""
    found = declared(kind, key)
    return found is not None and found.drops


def _other(kind: str) -> str:
    return "regression" if kind == "classification" else "classification"


def call_of(
    kind: str, key: str, task: str, primary: Any, names: Sequence[str] = ("primary",), **more: Any
) -> str | None:
    """How a user would make the estimator of a method; None for a reference, and for one of the user's own.

    `names` are the arguments that the primary is given as, where the estimator takes them.
    """
    if key in REFERENCES or key not in LABELS:
        return None
    found = entry(kind, key)
    settings = {"task": task, **{n: primary for n in names if found.takes(n)}, **found.settings, **more}
    return f"borrow.{found.name}({', '.join(f'{k}={v!r}' for k, v in settings.items())})"


def build(
    kind: str,
    key: str,
    task: Any = None,
    primary: Any = None,
    random_state: Any = 0,
    alone: bool = False,
    unseen: str = "error",
    own: Mapping[str, tuple[Any, str]] | None = None,
) -> Any:
    """An estimator, not yet fitted; with `alone=True` one that can fit the primary and no other task does so.

    `own` are the user's: estimators of scikit-learn, each with the rows that it is given, "all" or those of the
    "primary".
    """
    settings: dict[str, Any] = {"task": task, "random_state": random_state}
    if own and key in own:
        estimator, rows = own[key]
        cls = WrappedRegressor if kind == "regression" else WrappedClassifier
        return cls(**settings, estimator=estimator, primary=primary, rows=rows)
    found = entry(kind, key)
    if alone and found.takes("only"):
        settings["only"] = primary
    elif found.takes("primary"):
        settings["primary"] = primary
    settings |= {**found.settings, **({} if unseen == "error" else {"unseen": unseen})}
    return found.estimator(**settings)


def key_of(model: Any) -> str | None:
    """The method that an estimator is; None where it is none."""
    if isinstance(model, (RidgeReference, LogisticReference)):
        return next(key for key, r in REFERENCES.items() if r["settings"]["form"] == model.form)
    key = None if (found := registry.entry_of(model)) is None else found.key
    same = (k for k, (of, own) in VARIANTS.items() if of == key and own["settings"].items() <= vars(model).items())
    return next(same, key)


def choose(kind: str, rows: int, methods: Any) -> tuple[list[str], dict[str, str], dict[str, Any]]:
    """Methods to run, in order; why others are left out; and estimators of the user's own, by their names.

    `rows` are those of all tasks with a target. Names that are no methods, and methods that do not apply, are refused.
    No transfer and the references are always there.
    """
    skipped = {
        key: f"{rows:,} rows are many for one joint matrix"
        for key, r in REFERENCES.items()
        if rows > r.get("most_rows", inf)
    }
    always = {NO_TRANSFER, *(key for key in REFERENCES if key not in skipped)}
    if not (isinstance(methods, str) and methods == "auto"):
        asked, own = _own([methods] if isinstance(methods, str) else list(methods), kind)
        if not asked and not own:
            raise ValueError("methods= is empty: there is nothing to compare no transfer with; name some, or 'auto'")
        if unknown := [key for key in asked if key not in LABELS]:
            known = list_labels(list(LABELS))
            raise ValueError(f"methods names {list_labels(unknown)}; methods are {known}, or 'auto'")
        chosen = always | {key for key in asked if entry(kind, key) is not None}
        return [*(key for key in LABELS if key in chosen), *own], skipped, own
    for key in LABELS:
        found = declared(kind, key)
        if found is None:
            skipped[key] = f"for {_other(kind)} only"
        elif rows > found.most_rows:
            skipped[key] = f"{rows:,} rows are many for one joint matrix; name it in methods= to run it all the same"
        elif found.not_in_auto:
            skipped[key] = f"{found.not_in_auto}; name it in methods= to run it all the same"
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
