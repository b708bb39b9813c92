"""Docstrings of this project as Markdown: lists of parameters become definitions, public names become links.

A list is headed as in numpydoc, and an entry says what it is in the line of its name:

    Parameters
    ----------
    rank, diagonal : what they are,
        and so on.
"""

from __future__ import annotations

import re
from typing import Any

import griffe

#: Names that are not public, but have an entry in the reference.
BASES = {
    "EPClassifier": "borrow.estimators.classifier",
    "GPClassifier": "borrow.estimators.classifier",
    "GPEstimator": "borrow.estimators.gp",
    "GPRegressor": "borrow.estimators.regressor",
    "LearntEstimator": "borrow.estimators.gp",
    "OnWorkers": "borrow.estimators.base",
    "TaskClassifier": "borrow.estimators.classifier",
    "TaskEstimator": "borrow.estimators.base",
    "TaskRegressor": "borrow.estimators.regressor",
}
HEADS = ("Parameters", "Attributes")


def split_lists(text: str) -> list[tuple[str, list[tuple[list[str], str]]]]:
    """(heading, entries) of every list in a docstring; an entry is (names, words)."""
    found = []
    for head, body in re.findall(rf"^({'|'.join(HEADS)})\n-+\n((?:\S.*\n?|[ ]+\S.*\n?)+)", text, re.M):
        entries: list[tuple[list[str], str]] = []
        for line in body.splitlines():
            named = re.match(r"(\w+(?:, \w+)*) : (.*)", line)
            if named:
                entries.append((named[1].split(", "), named[2]))
            elif entries:
                entries[-1] = (entries[-1][0], f"{entries[-1][1]} {line.strip()}")
        found.append((head, entries))
    return found


def as_markdown(text: str, links: dict[str, str]) -> str:
    """The docstring with definition lists, and with links where a public name stands in backticks."""

    def definitions(match: re.Match[str]) -> str:
        ((head, entries),) = split_lists(match[0])
        lines = [f"**{head}**", ""]
        for names, words in entries:
            lines += [", ".join(f"`{n}`" for n in names), f":   {words}", ""]
        return "\n".join(lines) + "\n"

    text = re.sub(rf"^({'|'.join(HEADS)})\n-+\n((?:\S.*\n?|[ ]+\S.*\n?)+)", definitions, text, flags=re.M)
    words, _, example = text.partition("\nExamples\n--------\n")
    shown = f"\n**Examples**\n\n```python\n{example.strip()}\n```\n" if example else ""
    return link_names(words, links) + shown


def entries_of_names() -> dict[str, str]:
    """Public name -> where the reference has it."""
    import borrow

    kernels = {name: getattr(borrow.kernels, name).__module__ for name in borrow.kernels.__all__}
    found = {name: getattr(borrow, name) for name in borrow.__all__}
    public = {name: value.__module__ for name, value in found.items() if hasattr(value, "__module__")}
    return {name: f"{home}.{name}" for name, home in {**public, **BASES, **kernels}.items()}


def link_names(text: str, links: dict[str, str]) -> str:
    """Links where a public name stands in backticks."""
    return re.sub(r"(?<![\[`])`(\w+)`(?!\])", lambda m: f"[`{m[1]}`][{links[m[1]]}]" if m[1] in links else m[0], text)


class Terse(griffe.Extension):
    """Applies the above to every docstring."""

    def on_package(self, *, pkg: Any, **_: Any) -> None:
        """When all modules are read."""
        self._visit(pkg, entries_of_names())

    def _visit(self, at: Any, links: dict[str, str]) -> None:
        if at.docstring is not None:
            at.docstring.value = as_markdown(at.docstring.value, {k: v for k, v in links.items() if v != at.path})
        for member in at.members.values():
            if not member.is_alias:
                self._visit(member, links)
