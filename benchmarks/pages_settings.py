"""The settings of every row of the studies of a paper: a block near the end of each page under docs/papers.

They are read from the records, so that a label of a table cannot drift from what was fitted.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from pages_parts import load, table, there_is

#: Columns of Figure 4 of Leen et al. by what they are fitted with, by the names that the record has.
FIGURE_4 = {
    "focused": "our defaults",
    "focused, not centred": "our defaults, `normalize_y=False`",
    "focused, level": "our defaults, level integrated out",
    "focused, level, not centred": "the same, `normalize_y=False`",
    "paper, literal": "the paper's model, literally",
    "paper, centred": "the paper's model, targets centred and scaled by task",
    "single": "no transfer",
    "pooled": "pooled",
    "ridge": "ridge",
    "focused, level of its own": "level with a prior that is not learnt",
    "focused, one level": "one level for all tasks",
    "focused, own part by all evidence": "a part of its own by all evidence",
}
#: By page: what the study is called there, and its record.
STUDIES: dict[str, dict[str, str]] = {
    "focused": {
        "Figure 2": "leen2011_variance",
        "Figure 4": "leen2011_synthetic",
        "Figure 4, what was tried": "leen2011_synthetic_100",
        "Does it ever hurt?": "leen2011_negative_transfer",
    },
    "labels": {"Figure 5": "leen2011_classification", "choice": "leen2011_classification_choice"},
    "multitask": {
        "Figure 1": "bonilla2008_compiler",
        "Table 1": "bonilla2008_school",
        "Jura": "bonilla2008_jura",
    },
    "hierarchical": {"Figure 1": "yu2005_toy", "Table 1": "yu2005_text", "Figure 2": "yu2005_new_topics"},
    "ivm": {
        "Figure 3": "lawrence2004_sines",
        "Figure 4": "lawrence2004_regression",
        "Figure 5": "lawrence2004_vowels",
    },
    "rbf": {"Table 2": "liao2006_table2", "Figure 2": "liao2006_figure2"},
}


#: Rows that are no estimator of this library, or are given something beside their settings, in words; by record.
WORDS: dict[str, dict[str, str]] = {
    "leen2011_synthetic": {
        "ridge": "x, x^2, x^3 of the primary's rows, standardised; RidgeCV(alphas=logspace(-4, 4, 17))",
    },
    "leen2011_negative_transfer": {"ridge": "RidgeCV(alphas=logspace(-3, 3, 13)) on the primary's rows"},
    "leen2011_classification": {
        "single": "SingleTaskGPClassifier() on the primary's trials, priors in the column scales of the whole table",
        "single, own scales": "SingleTaskGPClassifier() on the primary's trials",
        "logistic": "StandardScaler, LogisticRegressionCV(Cs=logspace(-4, 2, 7)) by log loss, at most five folds; "
        "LogisticRegression(C=0.1) where a class has one trial",
    },
    "liao2006_table2": {
        "ridge": "RidgeCV(alphas=logspace(-2, 3, 11)) on the 27 inputs",
        "ridge, intercepts": "the same, and a column for each school",
        "school mean": "the mean of the school's training scores",
    },
    "liao2006_figure2": {
        "ridge, intercepts": "RidgeCV(alphas=logspace(-2, 3, 11)) on the 27 inputs and a column for each school",
    },
    "bonilla2008_school": {
        "ridge": "RidgeCV(alphas=logspace(-2, 3, 11)) on the 27 inputs",
        "ridge with school intercepts": "the same, and a column for each school",
    },
    "bonilla2008_jura": {
        "ridge on position": "StandardScaler, RidgeCV(alphas=logspace(-3, 3, 13)) on the two coordinates",
        "ridge on position, nickel and zinc": "the same on the coordinates, nickel and zinc",
        "mean of the 259 places": "one number",
    },
    "yu2005_toy": {
        "no transfer": "SingleTaskGPRegressor(normalize_y=False), every fifth task",
        "pooled": "PooledGPRegressor()",
        "ridge": "x, x^2, x^3; RidgeCV(alphas=logspace(-4, 4, 17)) by task",
    },
    "lawrence2004_vowels": {
        "not learnt": "as its mode, optimizer=None",
        "random": 'as its mode, selection="random"; in the paper\'s mode one round of 200 iterations',
        "IVM": "as its mode, all rows as one task",
        "nearest row": "the vowel of the labelled row at the least distance, raw inputs",
    },
}
#: Rows of the tables of ordinary data and of tables of other people.
ORDINARY = {
    "no transfer, pooled, focused, symmetric, hierarchical, IVM, RBF network, shared structure, regularised, Auto": (
        "the estimator at its defaults; `primary=` the task that matters, where it has one"
    ),
    "Dirichlet process": "`DirichletProcessClassifier()`",
    "mean": "the mean of the task's rows; of labels the share of class 1, with one row of each class added",
    "ridge alone": "the task's rows, standardised: `RidgeCV(logspace(-3, 4, 29))`; of labels `LogisticRegressionCV"
    "(Cs=logspace(-4, 2, 13))` by log loss and five folds, or the mean where a class has fewer than five rows",
    "ridge with interactions": "the same on all rows: columns, an intercept per task, and columns times task; targets "
    "scaled by task",
    "LightGBM": "all rows, the task as a categorical column, the primary's rows three times; targets scaled by task; "
    "of leaves 4, 15, trees 50, 200, rates 0.05, 0.1 by five folds",
    "random forest": "the same with the task as a column, 200 trees; of leaves of 1, 3, 8 rows, shares of columns "
    "0.33, 1 by five folds",
    "GPBoost": "a linear model with a random intercept and a random slope per column and task; targets scaled by task",
    "MixedLM": "the same by statsmodels, slopes of the six columns that correlate most with the targets",
    "stacked GPs": "`SingleTaskGP*` of each secondary; its predictions are further columns of “ridge alone”",
    "BoTorch": "`MultiTaskGP` at its defaults, inputs within 0 to 1; tables of up to 400 rows",
}


def shortened(words: str) -> str:
    """On one line, without the numbers that repeat, the middle of arrays and the features of each task."""
    words = re.sub(r"\((\d[\d.]*)(?:, \1)+\)", r"(\1, …)", " ".join(words.split()))
    words = re.sub(r"array\(\[(\S+), .*?, (\S+)\]\)", r"[\1, …, \2]", words)
    return re.sub(r"task_features=(?:\{.*?\}|\[.*?\])", "task_features=…", words)


def of_rows(record: str) -> dict[str, str]:
    """Row by row, by the names that the page has."""
    found = {**load(record)["settings"], **WORDS.get(record, {})}
    return {FIGURE_4.get(row, row) if "synthetic" in record else row: words for row, words in found.items()}


def settings(page: str) -> str:
    """Row by row, what was given to the estimator; what is not named is its default."""
    rows = [
        [study, row, f"`{shortened(words)}`"]
        for study, record in STUDIES[page].items()
        if there_is(record)
        for row, words in of_rows(record).items()
    ]
    return table(["study", "row", "settings"], rows)


def ablations() -> str:
    """The models that the study of the defaults fits, with a default and without it."""
    return table(["model", "settings"], [[m, f"`{words}`"] for m, words in load("ablations")["models"].items()])


def ordinary() -> str:
    return table(["row", "settings"], [[row, words] for row, words in ORDINARY.items()])


BLOCKS: dict[str, Callable[[], str]] = {f"settings {page}": lambda page=page: settings(page) for page in STUDIES}
BLOCKS |= {"settings ablations": ablations, "settings ordinary": ordinary}
