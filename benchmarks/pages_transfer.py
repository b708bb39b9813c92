"""Blocks of docs/transfer.md: see pages.py."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pages_parts import load, made_by, table

ORDER = ("helps", "probably helps", "no practical difference", "cannot tell", "probably hurts", "hurts")


def _share(found: dict[str, Any]) -> str:
    return f"{found['times']} of {found['of']} ({100 * found['share']:.0f} ± {100 * found['error']:.0f} %)"


def _ratio(found: dict[str, Any]) -> str:
    return f"{found['mean']:.3f}" + ("" if found["error"] is None else f" ± {found['error']:.3f}")


def _seeds(result: dict[str, Any]) -> str:
    kind = "fresh seeds" if result["seeds"] == "fresh" else "seeds of tuning: a sample, not the measurement"
    first, last = result.get("first and last seed", ("", ""))
    which = f" {first} to {last}" if first != "" else ""
    per_cell = result["draws per cell"]
    by = f"draws of {' and '.join(result['fitted by'])}, judged by {' and '.join(result['judged by'])}"
    return f"{per_cell['regression']} draws per cell, {per_cell['classification']} of labels, {kind}{which}; {by}"


def power() -> str:
    result = load("power")
    rows = [
        [
            name,
            f["draws"],
            *(f["answers"].get(a, 0) for a in ORDER),
            f"{100 * f['interval holds the truth']['share']:.0f} %",
            _ratio(f["mixture / best in hindsight"]),
            _ratio(f["mixture / no transfer"]),
        ]
        for name, f in result["cells"].items()
    ]
    head = ["family, correlation, rows", "draws", *ORDER, "interval holds the truth", "`Auto*` / best", "/ no transfer"]
    return table(head, rows) + made_by(result, _seeds(result))


def _most(cells: dict[str, Any]) -> str:
    """The family of tables with nothing in common of which “helps” was said most often."""
    found: dict[str, list[int]] = {}
    for name, f in cells.items():
        family, correlation, _ = name.split(", ")
        if correlation == "0":
            times, of = found.get(family, [0, 0])
            found[family] = [times + f["helps"]["times"], of + f["helps"]["of"]]
    worst = max(found, key=lambda family: found[family][0] / found[family][1])
    return "{} of {} ({})".format(*found[worst], worst)


def _of_four(found: dict[str, Any]) -> list[list[str]]:
    """Of the best of no transfer, symmetric, IVM and focused: those of the trial that the goal comes from."""
    name = "mixture / best of four in hindsight"
    what = "`Auto*` to the best in hindsight of no transfer, symmetric, IVM and focused, at most 1.05"
    return [[what, _ratio(found[name])]] if name in found else []


def goals() -> str:
    result = load("power")
    g = result["groups"]
    gains, nulls, every = g.get("correlation 0.9, 10 to 50 rows, true gain above 5 %"), g["nulls"], g["all"]
    rows = [
        ["“helps” where nothing is in common, at most 5 %", _share(nulls["helps"])],
        ["in the family with most of it, at most 10 %", _most(result["cells"])],
    ]
    if gains is not None:
        rows += [
            ["“helps” of correlation 0.9, 10 to 50 rows, true gain above 5 %: at least 35 %", _share(gains["helps"])],
            ["“helps” or “probably helps” there, at least 60 %", _share(gains["helps or probably helps"])],
        ]
    for group, where in (("regression", "of the rows of regression below"), ("all", "of all")):
        for answer, goal in (("helps", ""), ("probably helps", ": at least 80 %")):
            if (right := g.get(group, {}).get(f"right where it says {answer}")) is not None:
                rows.append([f"“{answer}” is right, {where}{goal}", _share(right)])
    rows += [
        ["the interval holds the difference at all n rows, 90 to 97 %", _share(every["interval holds the truth"])],
        *_of_four(every),
        ["`Auto*` to the best of all nine methods in hindsight", _ratio(every["mixture / best in hindsight"])],
        ["`Auto*` to no transfer, 95th percentile, at most 1.10", every["mixture / no transfer, 95 %"]],
        ["no transfer to the best in hindsight", _ratio(every["no transfer / best in hindsight"])],
        ["processor seconds per comparison, at most 10", result["cpu seconds per comparison"]],
    ]
    return table(["goal", "measured"], rows) + made_by(result, _seeds(result))


def answers() -> str:
    """The table in a sentence, for README."""
    result = load("power")
    g, cells = result["groups"], len(result["cells"])
    gains = g["correlation 0.9, 10 to 50 rows, true gain above 5 %"]
    sure, right = (g["all"][f"right where it says {answer}"] for answer in ("helps", "probably helps"))
    either, helps, nulls = gains["helps or probably helps"], gains["helps"], g["nulls"]["helps"]
    return (
        f"In {g['all']['draws']} simulated comparisons of known truth ({cells} kinds of tables, 6 to 50 rows of the "
        f"primary)\n“helps” was said of {nulls['times']} of {nulls['of']} tables with nothing in common, and of "
        f"{helps['times']} of {helps['of']} with correlation 0.9, 10 to\n50 rows and a gain above 5 %, "
        "“helps” or “probably helps” of "
        f"{either['times']} of these; “helps” was right\n{sure['times']} times of {sure['of']}, "
        f"“probably helps” {right['times']} times of {right['of']}: "
        "[the whole table](docs/transfer.md#what-was-measured)."
    )


def calibrated() -> str:
    result = load("calibrate")
    again = result["constants by these draws"]
    rows = [[f"`{name}`, by these draws", f"{v}, {again[name]}"] for name, v in result["constants"].items()]
    names = (
        "helps, nulls",
        "helps, correlation 0.9, true gain above 5 %",
        "helps or probably helps there",
        "right where it says helps",
        "right where it says probably helps",
        "interval holds the truth",
    )
    rows += [[name, _share(result[name])] for name in names]
    for at in result["helps from"]:
        nulls, gains = (at[name] for name in ("nulls", "correlation 0.9, true gain above 5 %"))
        said = f"“helps” from {100 * at['level']:.0f} % on: nulls; correlation 0.9, true gain above 5 %; right"
        rows.append([said, f"{_share(nulls)}; {_share(gains)}; {_share(at['right'])}"])
    rows += [
        [f"nats less on seeds left out, evidence {name}", v]
        for name, v in result["nats less, on seeds left out"].items()
    ]
    about = f"{result['draws']} draws of tuning, {result['fits that borrow']} fits that borrow; not a measurement"
    return table(["what", "found"], rows) + made_by(result, about)


def suggested() -> str:
    result = load("suggest")
    rows = [
        [
            name,
            f["runs"],
            f"{f['median measurements']:g}",
            "{:g} to {:g}".format(*f["quartiles"]),
            f"{f['mean measurements']:.1f}",
            f"{100 * f['found by the first setting named']:.0f} %",
            f["not found"],
            f"{f['processor seconds per measurement']:.2f}",
        ]
        for name, f in result["methods"].items()
    ]
    head = [
        "method",
        "searches",
        "measurements, median",
        "quartiles",
        "mean",
        "in 4 or fewer",
        f"none in {result['settings']['most']}",
        "seconds each",
    ]
    about = f"{result['settings']['programs']} programs, {result['settings']['draws']} draw(s) each"
    return table(head, rows) + made_by(result, about)


def killed() -> str:
    result = load("compare_kill")
    same = "yes" if result["same table to the last digit"] else "**no**"
    names = ("kills", "fits", "fits begun", "fits begun twice or more", "fits written twice", "files torn by a kill")
    rows = [[name, result[name]] for name in names]
    rows.append(["same table to the last digit", same])
    return table(["figure", "measured"], rows) + made_by(result, f"seed {result['seed']}")


def cost() -> str:
    result = load("compare_cost")
    rows = []
    for r in result["comparisons"]:
        spent = f"{r['processor seconds']:.0f}" if r["ended"] else "not known"
        wall = f"{r['seconds']:.0f}" if r["ended"] else f"did not end in {r['seconds']:.0f}"
        rows.append(
            [r["table"], r["commit"], len(r.get("methods", [])) or "", r.get("fits", ""), spent, wall, r["load before"]]
        )
    head = [
        "table",
        "commit",
        "methods",
        "fits",
        "processor seconds",
        "seconds, two fits at once",
        "other jobs waiting",
    ]
    return table(head, rows) + made_by(result, f"seed {result['seed']}, {result['comparisons'][0]['cores']} cores")


def headline() -> str:
    result, kills = load("power"), load("compare_kill")
    nulls, every = result["groups"]["nulls"], result["groups"]["all"]
    same = "the same to the last digit" if kills["same table to the last digit"] else "not the same"
    kill = f"A comparison killed {kills['kills']} times and resumed: its table"
    rows = [
        ["The verdict says “helps” where nothing is in common", _share(nulls["helps"]), "`make power`"],
        [
            "`Auto*`, error to the best of four methods in hindsight",
            _ratio(every["mixture / best of four in hindsight"]),
            "`make power`",
        ],
        [
            "`Auto*`, error to the best of nine in hindsight",
            _ratio(every["mixture / best in hindsight"]),
            "`make power`",
        ],
        [kill, same, "`benchmarks/studies/compare_kill.py`"],
    ]
    return table(["what", "figure", "command"], rows)


def _answers(found: dict[str, Any]) -> list[str]:
    """How often each answer was given where borrowing gained, where it made no difference, and where it lost."""
    said = ([f"{n} {a}" for a, n in mine.items() if n] for mine in found["answers"].values())
    return [", ".join(mine) or "-" for mine in said]


def real() -> str:
    result = load("answers")
    rows = []
    for version in ("as they are", "shuffled"):
        part = result[version]
        for name, f in {"all": part["all"], **part["scenarios"]}.items():
            rows.append(
                [
                    f"{name}, {version}",
                    *_answers(f),
                    _ratio(f["judged / no transfer"]),
                    _ratio(f["mixture / no transfer"]),
                ]
            )
    head = ["table", "answers where borrowing gained", "where it changed nothing", "where it lost", "judged", "`Auto*`"]
    return table(head, rows) + made_by(result, f"{result['as they are']['all']['draws']} draws, and as many shuffled")


BLOCKS: dict[str, Callable[[], str]] = {
    "power": power,
    "power goals": goals,
    "calibrate": calibrated,
    "compare cost": cost,
    "compare kill": killed,
    "suggest": suggested,
    "answers": answers,
    "real tables": real,
    "headline transfer": headline,
}
