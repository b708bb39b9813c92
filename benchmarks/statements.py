"""How many statements the package has, part by part, beside b0d6f37; and how many belong to what that did not have.

    python benchmarks/statements.py              writes docs/results/statements.json
    python benchmarks/statements.py --small      counts this source alone and writes nothing

A statement is a node of Python's `ast` that is one: an import, a docstring, a field and a `def` count as an assignment
does. FEATURES lists, by the issue that asked for it, what was not there at b0d6f37: whole files, or classes and
functions of a file, each counted once. What was rebuilt without doing more is in no list. So "like for like" is what is
left, and it is too much where a new feature sits inside a function that was there before: such are not taken apart.
"""

from __future__ import annotations

import argparse
import ast
import re
import subprocess
import sys
import tarfile
from collections import Counter
from fnmatch import fnmatchcase
from io import BytesIO
from itertools import groupby
from typing import Any

from results import ROOT, write_result

BASE = "b0d6f37"

#: Parts of the tree as it is now, with the files that did that work at b0d6f37; the first pattern that matches decides.
PARTS: dict[str, list[str]] = {
    "numerics": ["linalg*.py", "hyper.py", "device.py", "memory.py", "progress.py", "report/files.py"],
    "data": ["data.py", "reading*.py", "table.py"],
    "kernels": ["kernels/*"],
    "tasks": ["shards*.py"],
    "covariance": ["covariance/*"],
    "inference": ["inference/*", "likelihoods.py", "models/hyper_uncertainty.py"],
    "estimators": ["models/estimator.py", "models/classifier.py", "models/task_settings.py"],
    "models/focused": ["models/focused*.py", "models/relatedness.py"],
    "models/multitask": ["models/multitask*.py", "models/task_covariance.py"],
    "models/hierarchical": ["models/hierarchical*.py"],
    "models/ivm": ["models/ivm*.py"],
    "models/rbf": ["models/rbf*.py"],
    "models/gp": ["models/baselines/gp*.py"],
    "models/reference": ["models/baselines/*.py"],
    "transfer": ["transfer/*"],
    "store": ["store/*"],
    "datasets": ["datasets/*", "demo_compiler.py"],
    "report": ["report/*"],
    "cli": ["cli.py", "commands/*", "demo.py"],
    "plot": ["figures.py"],
    "testing": [],
    "the rest": ["*"],
}

Items = dict[str, str]
#: What b0d6f37 did not have, by the issue that asked for it: {feature: {file: "" for all of it, or its names}}.
FEATURES: dict[str, dict[str, Items]] = {
    "14": {
        "batteries of the contracts, shipped": {"testing.py": ""},
        "contracts as types": {
            "covariance/contracts.py": "AnySites Posterior Covariance",
            "inference/contracts.py": "",
            "tasks/contracts.py": "",
        },
        "registry": {"estimators/registry.py": "", "models/__init__.py": "", "transfer/methods.py": "MethodLabels"},
        "settings checked by a table": {"estimators/settings.py": "check_allowed positive one_of is_among check_seed"},
    },
    "15": {
        "the primary's own part": {"models/focused/primary.py": ""},
        "averaged classifiers": {
            "models/focused/relations.py": "log_odds",
            "models/focused/search.py": "average",
            "models/gp/task_model.py": "NoTransfer",
            "inference/hyper_uncertainty.py": "OtherModel",
        },
        "relations asked for again, and weighed with their priors": {
            "models/focused/relations.py": "prior_gains ask_again",
        },
        "own functions and who shares, by evidence (symmetric)": {
            "models/multitask/sharing.py": "",
            "models/multitask/task_covariance.py": "penalty_of_sharing curvature_of_sharing SharingTasks",
        },
        "hyper-parameters integrated in bands": {
            "inference/hyper_uncertainty.py": "UncertaintyByTask stretch_of_tasks stretched with_unknown_level "
            "student_points curvature_of_values",
            "models/gp/model.py": "single_uncertainty uncertainty_by_task single_lengthscales explore",
            "models/focused/model.py": "model_uncertainty rows_of_equal_cost",
            "models/multitask/model.py": "model_uncertainty",
            "models/ivm/problems.py": "Regression.uncertainty",
        },
        "own GPs beside a shared kernel, by rows left out (IVM, hierarchical)": {
            "models/gp/own.py": "",
            "models/ivm/estimators.py": "without_quarters IVMFit.expected_noise",
            "models/hierarchical/fit.py": "_own_models Fit.expected_noise",
        },
        "relations with intervals and odds": {
            "models/focused/relatedness.py": "RelationInterval Relation RelationByRho Path Profile _believed_inverse "
            "_normal",
        },
        "noise that does not collapse": {
            "data/scaling.py": "grid_width rounding_variance least_noise",
            "inference/priors.py": "NoisePrior independent_noise_prior",
        },
        "classes put together, probabilities with bands": {
            "estimators/classifier.py": "ClassLink LeaveOneOutAnswers TaskClassifier.probability_covariance "
            "TaskClassifier.probability_quantiles LabelModel.probability_draws EPLabels.without_each _cavities",
            "models/ivm/estimators.py": "IVMLabels.corrected",
        },
        "no answer hangs on names, places or units": {"data/content.py": "", "data/labels.py": "places_of"},
        "common mean of the hierarchical model at once": {"models/hierarchical/model.py": "with_exact_mean"},
    },
    "16": {
        "decision, claim, intervals": {
            "transfer/decide.py": "",
            "transfer/folds.py": "of_all_rows",
            "transfer/comparison.py": "Comparison.best_alone Comparison._by_folds Comparison._closed "
            "Comparison.evidence Comparison._gains Comparison._besides",
            "transfer/compare.py": "methods_to_repeat left_out_of in_closed_form has_closed_form",
        },
        "evidence of relations": {
            "estimators/regressor.py": "GPFit.evidence_of_relations GPRegressor.evidence_of_relations "
            "TaskRegressor.moments_at",
            "covariance/dense.py": "DensePosterior.evidence_given",
            "covariance/shared.py": "SharedPosterior.evidence_given",
        },
        "what each secondary is worth": {
            "transfer/attribute.py": "Worth coalitions chains attribute shares_of pairs near_copies of_correlation",
            "transfer/comparison.py": "Comparison.fit_of Comparison.losses Comparison._worths",
            "transfer/compare.py": "_worth",
        },
        "weighed predictions": {"transfer/auto.py": "AutoRegressor.predict_quantiles AutoRegressor.noise_at"},
        "references and estimators of the user's own": {
            "transfer/references.py": "",
            "transfer/methods.py": "call_of _own",
        },
        "groups, times, wanted inputs, minutes": {
            "transfer/inputs.py": "",
            "transfer/folds.py": "_blocks_of_time",
            "transfer/problem.py": "read_times Problem.elsewhere",
            "transfer/compare.py": "clusters_of",
        },
        "suggest: goals": {"transfer/suggest.py": "_sides _said discriminating divergence expected_improvement"},
        "verdict: advice, several primaries": {
            "transfer/verdict.py": "judged_together weights_in_words sentence_of against_folds odds advice_of _strong",
        },
    },
    "17": {
        "text, dates, gaps, units as inputs": {"data/encode.py": "", "data/encoder.py": "", "data/written.py": ""},
        "the same in files, with lines and remedies": {
            "cli/columns.py": "in_lines _name_lines in_order read_wide chosen_kind as_inputs as_fitted has_words "
            "measured said_of_rows",
            "cli/info.py": "as_input",
            "cli/compare.py": "rows_wanted",
            "transfer/problem.py": "_without_units like_classes",
            "data/read.py": "warn_constant_columns warn_identifier_columns _as_fitted columns_of",
            "estimators/base.py": "with_encoder",
        },
        "tasks never seen": {
            "transfer/unseen.py": "",
            "data/read.py": "_with_unseen",
            "estimators/base.py": "over_tasks TaskEstimator._scored",
        },
        "notebooks: plot, HTML, frames": {
            "estimators/view.py": "draw draw_tasks _points _chosen _tasks learnt _short _cut through_one",
            "estimators/base.py": "TaskEstimator.plot TaskEstimator.plot_tasks TaskEstimator._repr_html_inner "
            "TaskEstimator._repr_mimebundle_ TaskEstimator._learnt",
            "data/table.py": "Table.to_pandas Table.to_polars Table.plot Table.to_html",
            "transfer/comparison.py": "Comparison.plot",
            "transfer/verdict.py": "Verdict.to_html",
        },
        "report: rows that surprise, code to copy, tables as CSV": {
            "report/misses.py": "",
            "report/content.py": "_use _of_winner _model_parts _in_order_of",
            "report/svg.py": "scatter longest drawn is_cut",
            "report/page.py": "as_csv coded",
        },
        "command line: resumed, lines in a pipe, help at once": {
            "cli/output.py": "resumable encoding_of in_a_line",
            "cli/app.py": "Commands load",
            "cli/__init__.py": "undisturbed",
        },
    },
    "18": {
        "crafted models refused": {"store/checks.py": "", "store/container.py": "_regular _ask _page"},
        "ledger: checksums and shapes": {
            "transfer/ledger.py": "refuse_odd_lines check_about check_line _refuse_unknown _refuse_shape "
            "_refuse_irregular _lock",
        },
        "files: fields counted, inputs not overwritten": {
            "cli/read.py": "Records find_records check_quotes check_utf8 Source._blocks Source._check_fields "
            "Source.lines",
            "cli/columns.py": "refuse_separators first_of",
            "cli/output.py": "check_files _identity Stopped",
            "numerics/files.py": "_mode _sweep _sync_folder",
        },
        "memory measured, given back; threads counted; parents watched": {
            "numerics/memory.py": "container_free _left",
            "numerics/device.py": "MemoryGivenBack",
            "numerics/threads.py": "_Limit _Holder one_thread",
            "tasks/workers.py": "sweep_folders end_with _folder_prefix",
        },
        "numbers, labels and weights beyond bounds": {"data/read.py": "refuse_sizes _unmasked"},
    },
    "19": {
        "many tasks' own fits as one batch": {
            "models/gp/model.py": "OwnFit fit_each _fit_shard fit_together Batch",
            "numerics/optimise.py": "maximise_each _updated",
            "covariance/shared.py": "SecondPass.evidence_alone SharedPosterior.evidence_alone",
        },
        "search by blocks, by scoring, on fewer rows": {
            "numerics/optimise.py": "maximise_by_blocks ScoringSearch corrected",
            "models/focused/scoring.py": "blocks_of observed_curvature",
            "models/focused/search.py": "fewer_rows",
            "models/multitask/search.py": "fewer_rows go_on",
            "models/gp/task_model.py": "on_few_rows",
        },
        "EP extrapolated": {"inference/ep.py": "AndersonExtrapolation"},
        "EM from rows": {"models/hierarchical/model.py": "ScatterRoot Problem.groups Problem.by_rows"},
    },
    "20": {
        "EM under low rank and Nystrom": {
            "models/multitask/em.py": "update_by_factor maximise_over_kernel shrunk",
            "models/multitask/task_covariance.py": "LowRank.of_matrix",
            "models/multitask/estimators.py": "MultiTaskGPRegressor._for_em",
        },
    },
}  # fmt: skip


def statements(node: ast.AST) -> int:
    """Statements of a tree, its own included."""
    return sum(isinstance(n, ast.stmt) for n in ast.walk(node))


def kinds(tree: ast.AST) -> Counter[str]:
    """What statements are there for: to tell (docstrings, imports, the heads of definitions, fields) or to act."""
    found: Counter[str] = Counter()
    for n in ast.walk(tree):
        if isinstance(n, (ast.Module, ast.ClassDef, ast.FunctionDef)):
            found["docstrings"] += ast.get_docstring(n) is not None
        found["imports"] += isinstance(n, (ast.Import, ast.ImportFrom))
        found["definitions"] += isinstance(n, (ast.FunctionDef, ast.ClassDef))
        if isinstance(n, ast.FunctionDef):
            found["functions"] += 1
            found["lines of functions' docstrings"] += len((ast.get_docstring(n) or "").splitlines())
        found["fields"] += isinstance(n, ast.AnnAssign) and n.value is None
        found["all"] += isinstance(n, ast.stmt)
    found["act"] = found["all"] - sum(found[k] for k in ("docstrings", "imports", "definitions", "fields"))
    return found


def trees_at(commit: str | None) -> dict[str, ast.Module]:
    """Every file of the package as a tree, by its path in it; None for the source as it lies here."""
    if commit is None:
        files = {p.relative_to(ROOT / "src" / "borrow").as_posix(): p for p in (ROOT / "src" / "borrow").rglob("*.py")}
        return {name: ast.parse(path.read_text()) for name, path in sorted(files.items())}
    done = subprocess.run(["git", "archive", commit, "src/borrow"], cwd=ROOT, check=True, capture_output=True)
    with tarfile.open(fileobj=BytesIO(done.stdout)) as archive:
        members = [m for m in archive.getmembers() if m.name.endswith(".py")]
        read = {m.name.removeprefix("src/borrow/"): archive.extractfile(m) for m in members}
        return {name: ast.parse(file.read()) for name, file in sorted(read.items()) if file is not None}


def part_now(name: str) -> str:
    """The part of the tree that a file is in, as it is now."""
    folders = name.split("/")[:-1]
    own = "/".join(folders) or name.removesuffix(".py")
    return own if own in PARTS else "the rest"


def part_then(name: str) -> str:
    """The part of today's tree that does what a file did at b0d6f37."""
    return next(part for part, patterns in PARTS.items() if any(fnmatchcase(name, p) for p in patterns))


def found_in(tree: ast.Module, names: str) -> list[tuple[str, ast.AST]]:
    """The classes, functions and methods of these names, empty where there is none; the whole file for no names."""
    if not names:
        return [("", tree)]
    own: dict[str, ast.AST] = {n.name: n for n in tree.body if isinstance(n, (ast.ClassDef, ast.FunctionDef))}
    for kind in [n for n in tree.body if isinstance(n, ast.ClassDef)]:
        own |= {f"{kind.name}.{m.name}": m for m in kind.body if isinstance(m, ast.FunctionDef)}
    return [(name, own.get(name, ast.Module([], []))) for name in names.split()]


#: Where rows lie and passes over tasks are taken, at b0d6f37 and now.
SPREAD = {
    "then": "shards.py shards_dask.py covariance/spread.py covariance/design.py covariance/carrier.py "
    "covariance/layout.py covariance/factors.py models/hierarchical_spread.py models/hierarchical_device.py "
    "models/ivm_spread.py",
    "now": "tasks/contracts.py tasks/dask.py tasks/placed.py tasks/workers.py covariance/two_pass.py "
    "covariance/layout.py",
}


def is_guard(node: ast.stmt) -> bool:
    """An `if` that raises one sentence, or fails with it, and does nothing else."""
    if not isinstance(node, ast.If) or node.orelse or len(node.body) != 1:
        return False
    called = node.body[0].value if isinstance(node.body[0], ast.Expr) else None
    fails = isinstance(called, ast.Call) and isinstance(called.func, ast.Name) and called.func.id == "fail"
    return fails or isinstance(node.body[0], ast.Raise)


def guards(trees: dict[str, ast.Module]) -> dict[str, int]:
    """Guards, those that stand beside another, and how many statements fewer there were if such were tables."""
    runs: Counter[int] = Counter()
    for node in (n for tree in trees.values() for n in ast.walk(tree)):
        for block in (
            b for name in ("body", "orelse", "finalbody") if isinstance(b := getattr(node, name, None), list)
        ):
            runs.update(sum(1 for _ in own) for guard, own in groupby(block, is_guard) if guard)
    beside = {k: n for k, n in runs.items() if k > 1}
    fewer = sum((2 * k - 1) * n for k, n in beside.items())
    return {
        "guards": sum(k * n for k, n in runs.items()),
        "beside": sum(k * n for k, n in beside.items()),
        "fewer": fewer,
    }


def called_once(trees: dict[str, ast.Module]) -> int:
    """Functions whose name stands in one place alone beside their own `def`, in the package and its templates."""
    texts = [p.read_text() for ending in ("py", "j2") for p in (ROOT / "src" / "borrow").rglob(f"*.{ending}")]
    uses = Counter(word for text in texts for word in re.findall(r"\w+", text))
    defined = [n.name for t in trees.values() for n in ast.walk(t) if isinstance(n, ast.FunctionDef)]
    return sum(uses[name] == 2 and not name.startswith("__") for name in defined)


def count(now: dict[str, ast.Module], then: dict[str, ast.Module]) -> dict[str, Any]:
    """Everything that the record holds."""
    parts: dict[str, Counter[str]] = {part: Counter() for part in PARTS}
    for name, tree in now.items():
        parts[part_now(name)]["now"] += statements(tree)
    for name, tree in then.items():
        parts[part_then(name)]["then"] += statements(tree)
    features, taken, absent = [], Counter[tuple[str, str]](), []
    for issue, of_issue in FEATURES.items():
        for feature, items in of_issue.items():
            total: Counter[str] = Counter()
            for name, names in items.items():
                for own, node in found_in(now.get(name, ast.Module([], [])), names):
                    taken[name, own] += 1
                    absent += [f"{name}: {own}"] if not statements(node) else []
                    parts[part_now(name)]["new"] += statements(node)
                    total += kinds(node)
            features.append({"issue": issue, "what": feature, "statements": total["all"], "act": total["act"]})
    if twice := [f"{name}: {own}" for (name, own), k in taken.items() if k > 1]:
        raise SystemExit(f"counted twice: {', '.join(twice)}")
    both = {"then": then, "now": now}
    total_of = {side: sum((kinds(t) for t in trees.values()), Counter()) for side, trees in both.items()}
    return {
        "parts": [{"part": p, **{k: c[k] for k in ("then", "now", "new")}} for p, c in parts.items() if c.total()],
        "features": features,
        "kinds": {side: dict(found) for side, found in total_of.items()},
        "absent": absent,
        "spread": {
            side: sum(statements(both[side][f]) for f in SPREAD[side].split() if f in both[side]) for side in both
        },
        **guards(now),
        "called once": called_once(now),
        "new": {kind: sum(f[kind] for f in features) for kind in ("statements", "act")},
    }


def main(argv: list[str] | None = None) -> dict[str, Any]:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--small", action="store_true", help="this source alone; write nothing")
    small = parser.parse_args(argv).small
    now = trees_at(None)
    result = count(now, {} if small else trees_at(BASE))
    if result["absent"]:
        raise SystemExit(f"FEATURES names what is not there: {', '.join(result['absent'])}")
    del result["absent"]
    if not small:
        write_result("statements", {"seed": None, "before": BASE, **result})
    total, new = result["kinds"]["now"]["all"], result["new"]["statements"]
    sys.stdout.write(f"{total:,} statements, {new:,} of them of features that {BASE} did not have\n")
    for p in result["parts"]:
        sys.stdout.write(f"{p['part']:22s} {p['then']:6d} {p['now']:6d} {p['new']:6d} {p['now'] - p['new']:6d}\n")
    return result


if __name__ == "__main__":
    main()
