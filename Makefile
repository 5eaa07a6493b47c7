# Every target does its own set-up in .venv: once, and again when pyproject.toml or constraints.txt changes.
PYTHON ?= python3
BIN := .venv/bin
PIP := $(BIN)/pip --disable-pip-version-check install --quiet --no-compile --constraint constraints.txt

.PHONY: setup demo test test-slow lint style bench bench-walks bench-model bench-graphs bench-import bench-explain \
	bench-trust bench-scale bench-shift bench-board reproduce docs clean

setup: .venv/.ready

# torch first and by its pin, so that nothing else decides which build is installed. pip compiles on one core: Python
# does it on all of them afterwards, and without the tests of others.
.venv/.ready: pyproject.toml constraints.txt
	@echo "setting up .venv (a few minutes the first time)"
	@$(PYTHON) -m venv .venv
	@$(PIP) torch
	@$(PIP) --editable ".[dev]"
	@$(BIN)/python -m compileall -q -j 0 -x '/tests?/' .venv/lib >/dev/null 2>&1 || true
	@touch $@

demo: setup
	@$(BIN)/gpm demo --out demo

# Types are checked beside the tests: alone, mypy would leave a core idle.
test: setup style
	@$(BIN)/mypy & types=$$!; \
	$(BIN)/python -m pytest -n 2 --dist worksteal -m "not slow"; tests=$$?; \
	wait $$types || { echo "mypy found mistakes: see above, or make lint"; exit 1; }; \
	exit $$tests

# What takes minutes more, and seldom changes: several machines, four ranks, ranks that are started again, ids of 64 bits.
test-slow: setup
	@$(BIN)/python -m pytest -n 2 --dist worksteal -m slow

lint: style
	@$(BIN)/mypy

style: setup
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/lint-imports

bench: bench-walks bench-model bench-graphs bench-import

# The peers pin an old NumPy: they live in an environment of their own.
.venv-peers/.ready: benchmarks/peers.txt
	@$(PYTHON) -m venv .venv-peers
	@.venv-peers/bin/pip --disable-pip-version-check install --quiet --requirement benchmarks/peers.txt
	@touch $@

bench-walks: setup .venv-peers/.ready
	@$(BIN)/python benchmarks/walks.py --peers .venv-peers/bin/python --out benchmarks/results/walks.json

# The reference model lives among the tests, which hold the two equal. Then steps on a quiet and on a busy machine.
bench-model: setup
	@$(BIN)/python benchmarks/model.py --out benchmarks/results/model.json
	@$(BIN)/python benchmarks/steps.py

bench-graphs: setup
	@$(BIN)/python benchmarks/graphs.py --out benchmarks/results/graphs.json

bench-import: setup
	@$(BIN)/python benchmarks/importing.py --out benchmarks/results/importing.json

# An hour: hostile files, kills at random moments, a million odd names, and tables beside the datasets they come from.
bench-trust: setup
	@$(BIN)/python benchmarks/fuzz.py --out results/trust/fuzz.json
	@$(BIN)/python benchmarks/kill.py --kills 200 --aimed 200 --out results/trust/kill.json
	@$(BIN)/python benchmarks/roundtrip.py --out results/trust/roundtrip.json
	@$(BIN)/python benchmarks/tables.py karate mutag twitch-pt actor
	@$(BIN)/python benchmarks/table.py

# Half an hour and 20 GB of disk in scale-work: a graph of ogbn-products' size, walks, steps, ranks, sizes of models.
bench-scale: setup
	@for what in products walks steps ranks sizes; do $(BIN)/python benchmarks/scale.py $$what || exit 1; done
	@$(BIN)/python benchmarks/planned.py results/scale/plan.json
	@$(BIN)/python benchmarks/scale.py summary
	@$(BIN)/python benchmarks/table.py

# Minutes: a pair whose shift is known; then the tables of the docs. The paper's pairs are in table 4 of make reproduce.
bench-shift: setup
	@$(BIN)/python benchmarks/shift.py
	@$(BIN)/python benchmarks/table.py

# An hour of training: do explanations find planted motifs, do answers rest on them; then the tables of the docs.
bench-explain: setup
	@$(BIN)/python benchmarks/explain.py all
	@$(BIN)/python benchmarks/table.py

# Hours of training on one core: plain gpm train beside other models on many datasets; a second call resumes the first.
bench-board: setup
	@OMP_NUM_THREADS=1 $(BIN)/python benchmarks/board.py run
	@OMP_NUM_THREADS=1 $(BIN)/python benchmarks/fraud.py
	@$(BIN)/python benchmarks/board.py table

# Within BUDGET: runs that the tables of the paper lack, and their pages in docs/results.
BUDGET ?= 30m
reproduce: setup
	@$(BIN)/gpm reproduce --budget $(BUDGET) --out .

.venv/.docs-ready: .venv/.ready
	@$(PIP) --editable ".[docs]"
	@touch $@

docs: .venv/.docs-ready
	@$(BIN)/sphinx-build -q -W -b html docs docs/_build/html
	@echo "docs/_build/html/index.html"

clean:
	rm -rf .venv .venv-peers build dist demo docs/_build .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
