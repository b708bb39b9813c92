"""Every estimator at its defaults, and what people use instead, on ordinary data: who wins, by how much, at what cost.

    python benchmarks/studies/ordinary.py                      # all scenarios, ten repetitions, resumes
    python benchmarks/studies/ordinary.py --only 'jura*' --methods focused,symmetric --draws 3
    python benchmarks/studies/ordinary.py --base PATH          # the same methods of another checkout, as "before"
    python benchmarks/studies/ordinary.py --shuffled           # the secondaries' targets shuffled within each task

Error is the root mean squared error, for labels the log loss; every error is divided by that of `SingleTaskGP*` on the
same draw ("no transfer"), and ratios are averaged geometrically. Scenarios are those of `scenarios.py`, which were
written down before any default changed. A record per draw and method, with the commit that made it, is kept under
out/, so that a run goes on where it stopped; the summary goes to docs/results/ordinary.json.
"""

from __future__ import annotations

import os

os.environ["OPENBLAS_NUM_THREADS"] = os.environ["OMP_NUM_THREADS"] = "1"

import argparse
import fnmatch
import inspect
import json
import pickle
import subprocess
import sys
import tempfile
import time
import warnings
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent))
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from alternatives import ALTERNATIVES, can
from scenarios import CHOICE, REPETITIONS, SCENARIOS, STRESS, Draw
from sklearn.metrics import log_loss, roc_auc_score

from results import RESULTS, ROOT, provenance, write_result

STORE = ROOT / "out" / "ordinary.jsonl"
EVERY = {**SCENARIOS, **STRESS}
REGRESSORS = {
    "no transfer": "SingleTaskGPRegressor",
    "pooled": "PooledGPRegressor",
    "symmetric": "MultiTaskGPRegressor",
    "focused": "FocusedGPRegressor",
    "hierarchical": "HierarchicalGPRegressor",
    "IVM": "MultiTaskIVMRegressor",
    "RBF network": "MultiTaskRBFRegressor",
    "Auto": "AutoRegressor",
}
CLASSIFIERS = {
    "no transfer": "SingleTaskGPClassifier",
    "pooled": "PooledGPClassifier",
    "symmetric": "MultiTaskGPClassifier",
    "focused": "FocusedGPClassifier",
    "hierarchical": "HierarchicalGPClassifier",
    "IVM": "MultiTaskIVMClassifier",
    "Dirichlet process": "DirichletProcessClassifier",
    "shared structure": "SharedStructureClassifier",
    "regularised": "RegularizedMultiTaskClassifier",
    "Auto": "AutoClassifier",
}
OURS = list(dict.fromkeys([*REGRESSORS, *CLASSIFIERS]))
#: Methods that need one task that matters.
ONE_PRIMARY = ("focused", "Auto")


def settings_of(name: str, draw: Draw) -> tuple[str, dict[str, Any]] | None:
    """One of our estimators at its defaults, by its name and what it is given; None where it is not made for such."""
    names = REGRESSORS if draw.kind == "regression" else CLASSIFIERS
    if name not in names or (name in ONE_PRIMARY and draw.primary is None):
        return None
    return names[name], {"primary": draw.primary} if name in ONE_PRIMARY else {}


def run_ours(name: str, draw: Draw) -> dict[str, Any] | None:
    """Scores of one of our estimators on a draw."""
    asked = settings_of(name, draw)
    if asked is None:
        return None
    one = name == "no transfer" and draw.primary is not None  # the others' rows would be fitted for nothing
    rows = draw.task == draw.primary if one else np.full(len(draw.y), True)
    found = fit_and_predict(*asked, draw.X[rows], draw.y[rows], draw.task[rows], draw.X_test, draw.task_test)
    return scored(draw, found)


def scored(draw: Draw, found: dict[str, Any]) -> dict[str, Any]:
    """What was predicted, with how well in its place."""
    return {**scores(draw, *found.pop("predicted")), **found}


def fit_and_predict(cls: str, settings: dict[str, Any], X: Any, y: Any, task: Any, new: Any, new_task: Any) -> Any:
    """An estimator of whichever source is loaded, fitted and asked; as plain data."""
    import borrow

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model, started = getattr(borrow, cls)(**settings), time.process_time()
        model.fit(X, y, tasks=task)
        fitted = time.process_time() - started
        if cls.endswith("Regressor"):
            predicted = model.predict(new, tasks=new_task, return_std=True, include_noise=True)
        else:
            predicted = (model.predict_proba(new, tasks=new_task)[:, 1],)
    return {"predicted": predicted, "seconds": fitted, "warnings": sorted({str(w.message)[:200] for w in caught})}


def run_before(base: Path, name: str, draw: Draw) -> dict[str, Any] | None:
    """The same by another checkout, in a process of its own: the table is drawn here, whatever data that one knows."""
    asked = settings_of(name, draw)
    if asked is None:
        return None
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / "asked"
        place.write_bytes(pickle.dumps((*asked, draw.X, draw.y, draw.task, draw.X_test, draw.task_test)))
        code = [
            "import pickle, time, warnings; from pathlib import Path; from typing import Any",
            inspect.getsource(fit_and_predict),
            f"place = Path({str(place)!r})",
            "place.write_bytes(pickle.dumps(fit_and_predict(*pickle.loads(place.read_bytes()))))",
        ]
        own = {**os.environ, "PYTHONPATH": str(base.resolve() / "src")}
        subprocess.run([sys.executable, "-c", "\n".join(code)], env=own, check=True)
        return scored(draw, pickle.loads(place.read_bytes()))


def run_alternative(name: str, draw: Draw) -> dict[str, Any] | None:
    """Scores of what a person would use instead."""
    if not can(name, draw):
        return None
    started = time.process_time()
    predicted = ALTERNATIVES[name](draw)
    return {**scores(draw, predicted), "seconds": time.process_time() - started, "warnings": []}


def scores(draw: Draw, predicted: Any, std: Any = None) -> dict[str, Any]:
    """Error; for numbers coverage of the 90 % band and mean log density where there is a deviation; for labels AUC."""
    if draw.kind == "classification":
        p = np.clip(predicted, 1e-6, 1.0 - 1e-6)
        each = [(draw.y_test[at], p[at]) for at in (draw.task_test == t for t in np.unique(draw.task_test))]
        area = [roc_auc_score(y, q) for y, q in each if 0 < y.sum() < len(y)]
        return {
            "error": float(log_loss(draw.y_test, p, labels=[0, 1])),
            "auc": float(np.mean(area)),
            "mean probability": float(p.mean()),
            "base rate": float(draw.y_test.mean()),
        }
    r = draw.y_test - predicted
    out = {"error": float(np.sqrt(np.mean(r**2)))}
    if std is not None:
        out["coverage"] = float(np.mean(np.abs(r) <= 1.6448536269514722 * std))
        out["log density"] = float(np.mean(-0.5 * (r / std) ** 2 - np.log(std) - 0.5 * np.log(2 * np.pi)))
    return out


def part_of(record: dict[str, Any]) -> str:
    """Where a record belongs: to the scenarios, with shuffled secondaries, or to the functions drawn."""
    if record["scenario"] in STRESS:
        return "drawn"
    return "shuffled" if record["shuffled"] else "as they are"


def key_of(record: dict[str, Any]) -> tuple[Any, ...]:
    return record["version"], record["scenario"], record["shuffled"], record["seed"], record["method"]


def load(path: Path) -> dict[tuple[Any, ...], dict[str, Any]]:
    """Records by what they are of; a line torn when a run was stopped is left out."""
    found = {}
    for line in path.read_text().splitlines() if path.exists() else []:
        try:
            record = json.loads(line)
        except ValueError:
            continue
        found[key_of(record)] = record
    return found


def measure(given: argparse.Namespace) -> None:
    """Fit whatever has no record yet."""
    STORE.parent.mkdir(exist_ok=True)
    done, commit = load(STORE), provenance()["commit"]
    if given.base:
        said = subprocess.run(["git", "rev-parse", "--short", "HEAD"], cwd=given.base, capture_output=True, check=True)
        commit = said.stdout.decode().strip()
    with STORE.open("a") as file:
        for seed in range(given.first, given.first + given.draws):
            for scenario in (s for s in EVERY if fnmatch.fnmatch(s, given.only)):
                draw = None
                for method in given.methods:
                    about = ("before" if given.base else "now", scenario, given.shuffled, seed, method)
                    if about in done:
                        continue
                    if draw is None:
                        draw = EVERY[scenario](seed)
                        draw = draw.shuffled(seed) if given.shuffled else draw
                    if given.base:
                        found = run_before(given.base, method, draw)
                    else:
                        found = (run_ours if method in OURS else run_alternative)(method, draw)
                    if found is None:
                        continue
                    names = ("version", "scenario", "shuffled", "seed", "method")
                    file.write(json.dumps({**dict(zip(names, about, strict=True)), "commit": commit, **found}) + "\n")
                    file.flush()
                    sys.stdout.write(f"{scenario} {seed} {method}: {found['error']:.4g}, {found['seconds']:.1f} s\n")
                    sys.stdout.flush()


def ratios(records: list[dict[str, Any]]) -> dict[tuple[str, str, str], dict[int, float]]:
    """error / error of no transfer by (version, scenario, method) and seed; "before" has its own no transfer."""
    alone = {(r["version"], r["scenario"], r["seed"]): r["error"] for r in records if r["method"] == "no transfer"}
    out: dict[tuple[str, str, str], dict[int, float]] = defaultdict(dict)
    for r in records:
        base = alone.get(("now", r["scenario"], r["seed"]))
        if base is not None:
            out[r["version"], r["scenario"], r["method"]][r["seed"]] = r["error"] / base
    return out


def geometric(values: Any) -> float:
    return float(np.exp(np.mean(np.log(np.asarray(list(values))))))


def summarise(records: list[dict[str, Any]]) -> dict[str, Any]:
    """Per scenario and method: ratio to no transfer, worst draw, coverage, log density, AUC, seconds; and over all."""
    found = ratios(records)
    by_cell: dict[tuple[str, str, str], list[dict[str, Any]]] = defaultdict(list)
    for r in records:
        by_cell[r["version"], r["scenario"], r["method"]].append(r)
    rows = []
    for (version, scenario, method), own in sorted(by_cell.items()):
        ratio = found.get((version, scenario, method), {})
        row: dict[str, Any] = {"version": version, "scenario": scenario, "method": method, "draws": len(own)}
        row["error"] = float(np.mean([r["error"] for r in own]))
        if ratio:
            middle = float(np.median(list(ratio.values())))
            row |= {"ratio": geometric(ratio.values()), "median": middle, "worst": max(ratio.values())}
        for name in ("coverage", "log density", "auc", "mean probability", "base rate"):
            values = [r[name] for r in own if name in r]
            if values:
                row[name] = float(np.mean(values))
        row["seconds"] = float(np.median([r["seconds"] for r in own]))
        row["commits"] = sorted({r["commit"] for r in own})
        rows.append(row)
    return {"scenarios": rows, "overall": overall(rows), "same draws": on_same_draws(found)}


def on_same_draws(found: dict[tuple[str, str, str], dict[int, float]]) -> list[dict[str, Any]]:
    """Now and before on the draws that both have: ratios to no transfer of now, geometric over draws and scenarios."""
    rows = []
    for method in sorted({m for version, _, m in found if version == "before"}):
        pairs = [
            (found.get(("now", s, m), {}), own) for (v, s, m), own in found.items() if (v, m) == ("before", method)
        ]
        both = [[(now[k], own[k]) for k in own if k in now] for now, own in pairs]
        means = np.array([[geometric(v) for v in zip(*part, strict=True)] for part in both if part])
        now, before = (geometric(column) for column in means.T)
        draws = [min(map(len, filter(None, both))), max(map(len, both))]
        rows.append({"method": method, "scenarios": len(means), "draws": draws, "now": now, "before": before})
    return rows


def overall(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Over all scenarios, per method."""
    total = []
    for version, method in sorted({(r["version"], r["method"]) for r in rows}):
        mine = [r for r in rows if (r["version"], r["method"]) == (version, method) and "ratio" in r]
        if mine:
            found = {"version": version, "method": method, "scenarios": len(mine)}
            found["ratio"] = geometric(r["ratio"] for r in mine)
            found["worst scenario"] = max((r["ratio"], r["scenario"]) for r in mine)
            found["worst draw"] = max((r["worst"], r["scenario"]) for r in mine)
            confirmed = [r["ratio"] for r in mine if r["scenario"] not in CHOICE]
            found["ratio, confirming scenarios"] = geometric(confirmed) if confirmed else None
            total.append(found)
    return total


def with_record(content: dict[str, Any], records: list[dict[str, Any]]) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Cells of the written record that were not measured again stay, with their commits; and all records that count."""
    known = json.loads((RESULTS / "ordinary.json").read_text())
    for name in (n for n in ("as they are", "shuffled", "drawn") if n in known):
        rows = content.get(name, {"scenarios": []})["scenarios"]
        measured = {(r["version"], r["scenario"], r["method"]) for r in rows}
        kept = [r for r in known[name]["scenarios"] if (r["version"], r["scenario"], r["method"]) not in measured]
        rows = sorted([*rows, *kept], key=lambda r: (r["version"], r["scenario"], r["method"]))
        same = content.get(name, {}).get("same draws") or known[name].get("same draws", [])
        content[name] = {"scenarios": rows, "overall": overall(rows), "same draws": same}
        records = [*records, *({"commit": r["commits"][0]} for r in kept for _ in range(r["draws"]))]
    return content, records


def show(summary: dict[str, Any]) -> None:
    """The table, ratios first."""
    for r in summary["overall"]:
        worst, draw = r["worst scenario"], r["worst draw"]
        sys.stdout.write(
            f"{r['version']:7s} {r['method']:24s} {r['ratio']:.3f} over {r['scenarios']:2d} scenarios; worst "
            f"{worst[0]:.2f} ({worst[1]}), worst draw {draw[0]:.2f} ({draw[1]})\n"
        )
    for r in summary.get("same draws", []):
        told = f"{r['now'] / r['before']:.3f} x before on the same draws ({r['now']:.3f}, {r['before']:.3f})"
        sys.stdout.write(f"{r['method']:24s} {told}, {r['scenarios']} scenarios\n")
    for r in summary["scenarios"]:
        more = "".join(f", {n} {r[n]:.3g}" for n in ("coverage", "log density", "auc", "mean probability") if n in r)
        ratio = f"{r['ratio']:.3f} (worst {r['worst']:.2f})" if "ratio" in r else "    -"
        sys.stdout.write(
            f"{r['scenario']:26s} {r['version']:7s} {r['method']:24s} {ratio}, error {r['error']:.4g}{more}, "
            f"{r['seconds']:.2f} s, {r['draws']} draws\n"
        )


def main(arguments: list[str] | None = None) -> dict[str, Any]:
    parser = argparse.ArgumentParser()
    parser.add_argument("--draws", type=int, default=REPETITIONS)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--only", default="*", help="pattern of scenarios")
    parser.add_argument("--methods", default=",".join([*OURS, *ALTERNATIVES]))
    parser.add_argument("--shuffled", action="store_true")
    parser.add_argument("--base", type=Path, help="a checkout of another commit, measured as version 'before'")
    parser.add_argument("--summary", action="store_true", help="measure nothing")
    parser.add_argument("--keep", action="store_true", help="cells of the record not measured again stay in it")
    given = parser.parse_args(arguments)
    given.methods = [m for m in given.methods.split(",") if m]
    unknown = set(given.methods) - {*OURS, *ALTERNATIVES}
    if unknown:
        parser.error(f"no method {sorted(unknown)}; there are {[*OURS, *ALTERNATIVES]}")
    if not given.summary:
        measure(given)
    records = list(load(STORE).values())
    parts = {name: [r for r in records if part_of(r) == name] for name in ("as they are", "shuffled", "drawn")}
    content = {name: summarise(part) for name, part in parts.items() if part}
    if given.keep:
        content, records = with_record(content, records)
    for name, summary in content.items():
        sys.stdout.write(f"\n== {name} ==\n")
        show(summary)
    if given.only == "*":
        write_result("ordinary", {"seed": "the number of the draw", **content}, records)
    return content


if __name__ == "__main__":
    main()
