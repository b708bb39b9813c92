# The two commands of the README: `make demo` and `make test`. Each sets up .venv on its own.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: demo test docs lint types unit golden attack studies bench clean

.venv/installed: pyproject.toml
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	@touch $@

demo: .venv/installed
	$(BIN)/borrow demo --output out/demo

test: lint types unit

# The site, out/site/index.html; a warning is an error.
docs: .venv/installed
	$(BIN)/mkdocs build --strict

lint: .venv/installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: .venv/installed
	$(BIN)/mypy

unit: .venv/installed
	OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2

# Whether answers are those of b0d6f37, but for the differences that benchmarks/golden_changes.json lists with their reasons.
golden: .venv/installed
	$(BIN)/python benchmarks/golden.py

# Hostile files for so many minutes; prints tried and failed, and leaves a small reproduction of each failure in out/attack.
MINUTES ?= 5
attack: .venv/installed
	$(BIN)/python tests/attack/campaigns.py --minutes $(MINUTES)

# Long: every study of the docs (results and figures under docs/), and the benchmark.
studies: .venv/installed
	$(BIN)/python benchmarks/studies/leen2011_variance.py
	$(BIN)/python benchmarks/studies/leen2011_synthetic.py
	$(BIN)/python benchmarks/studies/leen2011_negative_transfer.py
	$(BIN)/python benchmarks/studies/leen2011_classification_choice.py
	$(BIN)/python benchmarks/studies/leen2011_classification.py
	$(BIN)/python benchmarks/studies/bonilla2008_figure1.py
	$(BIN)/python benchmarks/studies/bonilla2008_school.py
	$(BIN)/python benchmarks/studies/bonilla2008_jura.py
	$(BIN)/python benchmarks/compiler_data.py
	$(BIN)/python benchmarks/studies/liao2006_table2.py
	$(BIN)/python benchmarks/studies/liao2006_figure2.py
	$(BIN)/python benchmarks/studies/lawrence2004_sines.py
	$(BIN)/python benchmarks/studies/lawrence2004_regression.py
	$(BIN)/python benchmarks/studies/lawrence2004_vowels.py
	$(BIN)/python benchmarks/studies/yu2005_toy.py
	$(BIN)/python benchmarks/studies/yu2005_text.py
	$(BIN)/python benchmarks/studies/yu2005_new_topics.py
	$(BIN)/python benchmarks/studies/verdict.py
	$(BIN)/python benchmarks/studies/compare_kill.py

bench: .venv/installed
	$(BIN)/python benchmarks/report_picture.py
	$(BIN)/python benchmarks/focused.py
	$(BIN)/python benchmarks/classification.py
	$(BIN)/python benchmarks/multitask.py
	$(BIN)/python benchmarks/rbf.py
	$(BIN)/python benchmarks/ivm.py
	$(BIN)/python benchmarks/hierarchical.py
	$(BIN)/python benchmarks/how_far.py
	$(BIN)/python benchmarks/dask_scale.py
	$(BIN)/python benchmarks/cli_csv.py
	-$(BIN)/python benchmarks/gpu.py  # says so and measures nothing where there is no GPU

clean:
	rm -rf .venv out .mypy_cache .ruff_cache .pytest_cache .hypothesis
