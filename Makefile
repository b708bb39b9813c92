# The two commands of the README: `make demo` and `make test`. Each sets up .venv on its own: the demonstration with what a
# user of the command line has (.venv/app), everything else with what the project is developed with too (.venv/dev).
PYTHON ?= python3
BIN := .venv/bin
INSTALL := -m pip install --quiet --disable-pip-version-check

.PHONY: demo test docs lint types unit lowest door golden check-pages attack mutants studies power bench screens clean

.venv/app: pyproject.toml
	$(PYTHON) -m venv .venv
	$(BIN)/python $(INSTALL) --editable '.[app]'
	@touch $@

.venv/dev: .venv/app
	$(BIN)/python $(INSTALL) --editable '.[dev]'
	@touch $@

demo: .venv/app
	$(BIN)/borrow demo --output out/demo

test: lint types unit

# The site, out/site/index.html; a warning is an error.
docs: .venv/dev
	$(BIN)/mkdocs build --strict

lint: .venv/dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: .venv/dev
	$(BIN)/mypy

unit: .venv/dev
	OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2

# The lowest versions that pyproject.toml allows, in an environment of their own, and the part of the suite where other
# packages show. Old packages may use what newer ones have deprecated: that is shown, and is no error.
LOWEST := reading table encode unseen translate sklearn cli commands source wrong_calls store report verdict plot
out/lowest/installed: pyproject.toml tests/lowest.py
	rm -rf out/lowest
	$(PYTHON) -m venv out/lowest
	$(PYTHON) tests/lowest.py > out/lowest/lowest.txt
	out/lowest/bin/python $(INSTALL) --constraint out/lowest/lowest.txt --editable '.[app,plot]' pandas \
		'pyarrow<19' pytest pytest-xdist hypothesis
	@touch $@

lowest: out/lowest/installed
	OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1 out/lowest/bin/python -m pytest -n 2 -W default::DeprecationWarning \
		$(LOWEST:%=tests/test_%.py)

# Five tables as people have them through every command and through Python, with `borrow[app]` and nothing else; minutes.
out/door/installed: pyproject.toml
	rm -rf out/door
	$(PYTHON) -m venv out/door
	out/door/bin/python $(INSTALL) --editable '.[app]'
	@touch $@

door: out/door/installed
	OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1 out/door/bin/python tests/door/drive.py

# Whether the pages show what the records under docs/results say; also inside `make test`.
check-pages: .venv/dev
	$(BIN)/python benchmarks/pages.py --check

# Whether answers are those of b0d6f37, but for the differences that benchmarks/golden_changes.json lists with their reasons.
golden: .venv/dev
	$(BIN)/python benchmarks/golden.py

# Hostile tables, files, stores and signals for so many minutes; prints tried and failed, and leaves a small reproduction
# of each failure in out/attack. SAVE=--save writes docs/results/attack.json as well; SEED=2 tries other cases.
MINUTES ?= 5
SEED ?= 1
SAVE ?=
attack: .venv/dev
	$(BIN)/python tests/attack/campaigns.py --minutes $(MINUTES) --seed $(SEED) $(SAVE)

# Single changes of the source that some test should notice: 300 of them, survivors by line. Goes on where it was.
# SAVE=--save writes docs/results/mutants.json as well.
mutants: .venv/dev
	$(BIN)/python tests/mutants.py $(SAVE)

# Pictures of what a visitor sees, under docs/figures.
screens: .venv/dev
	$(BIN)/python benchmarks/screens.py

# Long, under six hours on two cores: every study of the docs (results and figures under docs/). Goes on where it was;
# `benchmarks/studies/run_all.py --plan` says how long each takes.
studies: .venv/dev
	$(BIN)/python benchmarks/studies/run_all.py

# Hours: the table of docs/transfer.md, 3,000 simulated comparisons on fresh seeds; goes on where it stopped.
power: .venv/dev
	$(BIN)/python benchmarks/studies/power.py

bench: .venv/dev
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
