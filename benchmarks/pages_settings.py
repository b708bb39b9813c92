"""The settings of every row of the studies of a paper: a block near the end of each page under docs/papers.

They are read from the records, so that a label of a table cannot drift from what was fitted.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from pages_parts import load, table

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


def shortened(words: str) -> str:
    """On one line, without the numbers that repeat, the middle of arrays and the features of each task."""
    words = re.sub(r"\((\d[\d.]*)(?:, \1)+\)", r"(\1, …)", " ".join(words.split()))
    words = re.sub(r"array\(\[(\S+), .*?, (\S+)\]\)", r"[\1, …, \2]", words)
    return re.sub(r"task_features=(?:\{.*?\}|\[.*?\])", "task_features=…", words)


def settings(page: str) -> str:
    """Row by row, what was given to the estimator; what is not named is its default."""
    rows = [
        [study, FIGURE_4.get(row, row) if record == "leen2011_synthetic" else row, f"`{shortened(words)}`"]
        for study, record in STUDIES[page].items()
        for row, words in load(record)["settings"].items()
    ]
    return table(["study", "row", "settings"], rows)


BLOCKS: dict[str, Callable[[], str]] = {f"settings {page}": lambda page=page: settings(page) for page in STUDIES}
