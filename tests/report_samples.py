"""Summaries made by hand: small, complete, and with names that a page must survive."""

import copy
import math

HOSTILE = [
    "<script>alert(1)</script>",
    "\"quoted\" & 'so' <b>bold</b>",
    "</script><img src=x onerror=alert(2)>",
    "{{ 7*7 }} ${x} \u202eright to left",
    "a" * 120,
    "bell\x07 and half \ud800",
]


def _curve(n=41, level=0.0, width=0.3):
    x = [i / (n - 1) * 6 - 3 for i in range(n)]
    mean = [level + math.sin(v) for v in x]
    return {
        "x": x,
        "mean": mean,
        "low": [m - width - 0.1 * abs(v) for m, v in zip(mean, x, strict=True)],
        "high": [m + width + 0.1 * abs(v) for m, v in zip(mean, x, strict=True)],
    }


def _misses(features):
    rows = [
        {"row": i, "observed": 1 + 0.1 * i, "predicted": 1 + 0.09 * i, "low": 0.8 + 0.09 * i, "high": 1.2 + 0.09 * i}
        for i in range(16)
    ]
    points = [{**r, "away": abs(r["observed"] - r["predicted"]) / 0.12} for r in rows]
    worst = [{**p, "inputs": f"{features[0]} 1, {features[1]} 0"} for p in points[-3:]]
    return {
        "form": "numbers",
        "label": "focused GP",
        "lead": "Every row without having been seen.",
        "caption": "Horizontal bars: 90 % of measurements.",
        "points": points,
        "worst": worst,
    }


def regression(tasks=("adpcm", "edge", "fft", "fir", "huffman"), primary=0, features=("gcse", "ivopts", "tree-ch")):
    names = list(tasks)
    primary = names[primary]
    others = [t for t in names if t != primary]
    methods = [
        ("single", "no transfer", 0.112, 0.011, 0.0, None, None),
        ("pooled", "pooled", 0.161, 0.02, 0.049, 0.012, 0.086),
        ("symmetric", "symmetric multi-task GP", 0.081, 0.009, -0.031, -0.061, -0.001),
        ("focused", "focused GP", 0.074, 0.008, -0.038, -0.064, -0.012),
        ("rbf", "RBF network", 0.12, 0.015, 0.008, -0.03, 0.046),
    ]
    rows = [
        {
            "method": key,
            "label": words,
            "error": error,
            "std_error": se,
            "difference": difference,
            "low": low,
            "high": high,
            "log_density": 1.3 - 10 * error,
            "coverage": 0.87,
            "seconds": 0.7,
        }
        for key, words, error, se, difference, low, high in methods
    ]
    secondaries = [
        {
            "task": t,
            "rows": 64,
            "rho": 0.9 - 0.35 * i,
            "correlation": 0.85 - 0.3 * i,
            "correlation_low": 0.7 - 0.3 * i,
            "correlation_high": min(0.97 - 0.3 * i, 1.0),
            "std_error": 0.12,
            "share": (0.85 - 0.3 * i) ** 2,
            "gain": 0.02 - 0.006 * i if i < 3 else None,
            "low": 0.005 - 0.006 * i if i < 3 else None,
            "high": 0.035 - 0.006 * i if i < 3 else None,
            "clear": i < 2,
        }
        for i, t in enumerate(others)
    ]
    levels = [0.1, 0.3, 0.5, 0.7, 0.8, 0.9, 0.95]
    shares = [
        {"method": "single", "label": "no transfer", "role": "alone", "share": [0.2, 0.4, 0.6, 0.8, 0.85, 0.95, 0.97]},
        {"method": "focused", "label": "focused GP", "role": "judged", "share": [0.1, 0.25, 0.5, 0.6, 0.75, 0.88, 0.9]},
    ]
    M = len(names)
    return {
        "format": "borrow.report",
        "version": 1,
        "borrow": "0.1.0",
        "data": {
            "kind": "regression",
            "target": "speed-up",
            "task": "program",
            "features": list(features),
            "tasks": [{"task": t, "rows": 16 if t == primary else 64} for t in names],
            "cv": "4 folds, 5 times",
        },
        "model": {"class": "FocusedGPRegressor"},
        "parts": [
            {
                "primary": primary,
                "rows": 16,
                "verdict": {
                    "answer": "helps",
                    "method": "focused",
                    "label": "focused GP",
                    "difference": -0.038,
                    "low": -0.064,
                    "high": -0.012,
                    "level": 0.95,
                    "folds": 20,
                    "sentence": f"Borrowing helps {primary}: the focused GP predicts with 34 % less error.",
                    "headline": f"The other data help {primary}: 34 % less error with the focused GP.",
                    "interval": "The error falls by 0.038, from 0.112 to 0.074; 95 % interval: 0.012 to 0.064 less.",
                    "advice": ["Use the focused GP.", f"{others[0]} carries most of it: keep it."],
                },
                "comparison": {
                    "score": "root mean squared error",
                    "level": 0.95,
                    "lead": "Every method predicted rows of the primary that it had not seen.",
                    "rows": rows,
                    "notes": [],
                    "methods": [{"label": "pooled", "words": "one Gaussian process for all rows"}],
                },
                "misses": _misses(features),
                "secondaries": {
                    "lead": "How much of the primary is in each of the other tasks.",
                    "caption": "Every other task.",
                    "correlation_caption": "Bars: two standard errors.",
                    "gain_caption": "Bars: 95 % intervals.",
                    "shown": 12,
                    "rows": secondaries,
                },
                "calibration": {
                    "form": "coverage",
                    "n": 16,
                    "levels": levels,
                    "methods": shares,
                    "all": shares,
                    "lead": "A 90 % band should hold nine of ten new measurements.",
                    "caption": "The grey lens is what chance allows with 16 rows.",
                },
            }
        ],
        "covariance": {
            "tasks": names,
            "values": [[round(math.cos(0.5 * (i - j)), 3) for j in range(M)] for i in range(M)],
            "lead": "Correlations that the symmetric model learnt.",
            "caption": "Hundredths; blue rises together.",
        },
        "predictions": {
            "form": "effects",
            "heading": "What the inputs do",
            "lead": "Average change of the prediction.",
            "label": "focused GP",
            "target": "speed-up",
            "switches": [
                {
                    "feature": f,
                    "from": "0",
                    "to": "1",
                    "value": 0.13 - 0.1 * i,
                    "low": 0.08 - 0.1 * i,
                    "high": 0.18 - 0.1 * i,
                    "alone": {"value": 0.1 - 0.09 * i, "low": -0.05 - 0.09 * i, "high": 0.25 - 0.09 * i},
                }
                for i, f in enumerate(features)
            ],
            "curves": [{"feature": features[0], "points": None, **_curve()}],
            "switch_caption": "Bars: 90 % bands.",
            "curve_caption": "Bands: 90 %.",
            "notes": [],
        },
        "suggestions": {
            "lead": "These would lower the uncertainty most.",
            "caption": "Greedy.",
            "columns": ["rank", "task", "x", "reduction"],
            "numeric": [True, False, True, True],
            "rows": [[1, primary, 0.5, 0.1], [2, others[0], 1.0, 0.05], [3, primary, -1.0, 0.02]],
        },
        "use": {
            "python": f"import borrow\n\nmodel = borrow.FocusedGPRegressor(task='program', primary={primary!r})",
            "shell": "borrow fit table.csv --target speed-up --task program --primary adpcm --save model.borrow",
        },
        "made": {
            "command": "borrow compare data.csv --target speed-up --task program",
            "digest": "sha256:" + "ab" * 32,
            "seed": 0,
            "cv": "4 folds, 5 times",
            "model": "FocusedGPRegressor(primary='adpcm')",
            "seconds": 61.5,
            "versions": {"borrow": "0.1.0", "numpy": "2.4.6"},
            "written": "2026-01-01 12:00 UTC",
            "warnings": [{"text": "the optimiser stopped after 500 iterations", "times": 3}],
        },
    }


def hostile():
    """A regression whose tasks, target and inputs are called by names that a page must survive."""
    summary = regression(tasks=HOSTILE, features=HOSTILE[:3])
    summary["data"]["target"] = summary["predictions"]["target"] = HOSTILE[0]
    summary["data"]["task"] = HOSTILE[1]
    summary["made"]["command"] = f"borrow compare '{HOSTILE[2]}' --target '{HOSTILE[0]}'"
    return summary


def curve():
    """One input."""
    summary = regression()
    panels = []
    for i, task in enumerate(["adpcm", "edge", "fft"]):
        panel = {"task": task, **_curve(level=0.2 * i), "points": {"x": [-2.0, -1.0, 0.5], "y": [-0.9, -0.8, 0.4]}}
        panels.append({**panel, "alone": _curve(width=0.8) if i == 0 else None})
    summary["predictions"] = {
        "form": "curve",
        "heading": "What the model says",
        "lead": "Prediction over the only input.",
        "label": "focused GP",
        "feature": "x",
        "target": "speed-up",
        "panels": panels,
        "caption": "Bands: 90 %.",
        "notes": [],
    }
    return summary


def surface(n=12):
    """Two inputs."""
    summary = regression()
    edges = [i / n for i in range(n + 1)]
    mean = [[math.sin(3 * (i / n)) + j / n for j in range(n)] for i in range(n)]
    std = [[0.1 + abs(i / n - 0.5) for j in range(n)] for i in range(n)]
    summary["predictions"] = {
        "form": "map",
        "heading": "What the model says",
        "lead": "Prediction over the two inputs.",
        "label": "focused GP",
        "target": "speed-up",
        "features": ["east", "north"],
        "x": edges,
        "y": edges,
        "mean": mean,
        "std": std,
        "mean_heading": "Prediction",
        "std_heading": "Its standard deviation",
        "points": {"x": [0.2, 0.8], "y": [0.3, 0.9]},
        "corners": [{"0": 0.0, "1": 0.0, "mean": 0.1, "std": 0.2}, {"0": 1.0, "1": 1.0, "mean": 1.1, "std": 0.4}],
        "caption": "Dots: measured.",
        "notes": [],
    }
    return summary


def classification():
    """Labels instead of numbers."""
    summary = regression()
    summary["data"]["kind"] = "classification"
    part = summary["parts"][0]
    for row in part["comparison"]["rows"]:
        row["calibration"] = row.pop("coverage")
    bins = [
        {"predicted": p, "observed": p**1.3, "low": max(p**1.3 - 0.2, 0), "high": min(p**1.3 + 0.2, 1), "n": 12}
        for p in (0.1, 0.4, 0.8)
    ]
    methods = [
        {"method": "single", "label": "no transfer", "role": "alone", "bins": bins},
        {"method": "focused", "label": "focused GP", "role": "judged", "bins": copy.deepcopy(bins)},
    ]
    part["calibration"] = {
        "form": "reliability",
        "methods": methods,
        "all": methods,
        "lead": "What gets 80 % should come true in eight of ten.",
        "caption": "Bars: 95 % intervals.",
    }
    return summary


def every_task():
    """No primary: every task in turn."""
    summary = regression()
    first = summary["parts"][0]
    for i, answer in enumerate(["cannot tell", "hurts"]):
        part = copy.deepcopy(first)
        part["primary"] = ["edge", "fft"][i]
        part["verdict"].update(answer=answer, difference=0.01 * i, low=-0.02 + 0.025 * i, high=0.02 + 0.01 * i)
        summary["parts"].append(part)
    return summary
