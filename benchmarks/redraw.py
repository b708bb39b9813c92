"""Draws figures of studies again from their records under docs/results/; nothing is computed.

python benchmarks/redraw.py
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path[:0] = [str(Path(__file__).resolve().parent), str(Path(__file__).resolve().parent / "studies")]
import bonilla2008_figure1
import bonilla2008_school
import lawrence2004_vowels
import leen2011_classification
import liao2006_table2

from borrow import plot as figures
from pages_parts import load
from results import FIGURES


def main() -> None:
    for data in bonilla2008_figure1.NAMES:
        figures.save(bonilla2008_figure1.draw(data, load(f"bonilla2008_{data}")), FIGURES / f"bonilla2008_{data}")
    figures.save(bonilla2008_school.picture(load("bonilla2008_school")["table"]), FIGURES / "bonilla2008_school")
    labels, vowels = load("leen2011_classification"), load("lawrence2004_vowels")
    figures.save(leen2011_classification.figure_5(labels["table"]), FIGURES / "leen2011_classification")
    figures.save(lawrence2004_vowels.picture(vowels["table"], vowels["authors"]), FIGURES / "lawrence2004_vowels")
    figures.save(liao2006_table2.table_figure(load("liao2006_table2")), FIGURES / "liao2006_table2")


if __name__ == "__main__":
    main()
