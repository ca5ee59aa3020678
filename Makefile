# Every target sets up what it needs by itself, in .venv. `make` alone lists the targets.
PYTHON ?= python3
WORKERS ?= 2
# Data sets of each kind of `make simulate`.
SETS ?= 10
# Planted bugs of `make mutate`: how many, and which.
N ?= 150
SEED ?= 0
# Old packages beside new ones use what the new ones deprecate (typer and click, matplotlib and pyparsing). That is not ours.
# scikit-learn 1.6 imports its own checks only with SCIPY_ARRAY_API set.
OLDEST := -W ignore::DeprecationWarning
VENV := .venv
BIN := $(VENV)/bin
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check

# Real data for tests and benchmarks: the folder named by PARTWISE_DATA, by default a neighbour of the repository.
ifeq ($(origin PARTWISE_DATA),undefined)
ifneq ($(wildcard ../shared/data/.),)
export PARTWISE_DATA := $(abspath ../shared/data)
endif
endif

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help demo test test-all test-browser test-faults test-oldest test-newest dist goldens mutate simulate bench bench-check docs lint clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-12s %s\n", $$1, $$2 }' Makefile

demo: $(VENV)/.installed ## fit a small model, print its parts and write a picture
	$(BIN)/partwise demo

test: lint ## the test command: lint, types, layers, tests (below 15 minutes on 2 cores)
	$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal

test-all: lint ## everything that `test` runs, the slow statistical tests, and a sample of planted bugs
	$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal -m 'not browser and not faults'
	$(BIN)/python -m mutation -n 15 --seed 1 --processes $(WORKERS) --least 0.8

test-browser: $(VENV)/.installed-browser ## reports in a headless Chromium, which is installed where that is allowed
	.ci/chromium
	$(BIN)/python -m pytest tests/browser -m browser

test-faults: $(VENV)/.installed ## full disks, signals, vanished workers, memory limits: real ones; as root nothing is skipped
	$(BIN)/python -m pytest tests/faults -m faults -rs

test-oldest: ## the tests with the oldest versions that pyproject.toml allows, in .venv-oldest
	@$(MAKE) VENV=.venv-oldest .venv-oldest/.installed-oldest
	SCIPY_ARRAY_API=1 .venv-oldest/bin/python -m pytest -n $(WORKERS) --dist worksteal $(OLDEST)

test-newest: ## the tests with the newest versions there are, pre-releases included, in .venv-newest
	@$(MAKE) VENV=.venv-newest .venv-newest/.installed-newest
	.venv-newest/bin/python -m pytest -n $(WORKERS) --dist worksteal

dist: $(VENV)/.installed ## wheel and sdist in dist/
	rm -rf dist
	$(BIN)/python -m hatchling build

goldens: $(VENV)/.installed ## write again the files that later versions must read (tests/goldens), after a change of formats
	$(BIN)/python tests/goldens/golden_files.py

mutate: $(VENV)/.installed ## plant N=150 bugs in kernels and samplers, chosen by SEED=0: do the tests notice?
	$(BIN)/python -m mutation -n $(N) --seed $(SEED) --processes $(WORKERS)

simulate: $(VENV)/.installed ## how well does compare choose? SETS=10 simulated data sets of each kind; continues where it was stopped
	$(BIN)/python -W ignore -m benchmarks.simulate $(SETS)

bench: $(VENV)/.installed-bench ## measure speed and memory against named peers; all, or those that BENCH= names
	$(BIN)/python -m benchmarks $(BENCH)

bench-check: $(VENV)/.installed ## has an algorithm become slower than the multiples kept in benchmarks/results/check.json?
	$(BIN)/python -m benchmarks.check

docs: $(VENV)/.installed ## check spelling and prose, and build the documentation into site/; warnings and dead links are errors
	$(BIN)/codespell README.md CHANGELOG.md CONTRIBUTING.md SECURITY.md docs src benchmarks
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict

lint: $(VENV)/.installed ## ruff, mypy --strict, import-linter
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy --strict
	$(BIN)/lint-imports --no-logo

clean: ## remove what the targets made, except .venv
	rm -rf site dist build out .venv-oldest .venv-newest .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
	find src tests benchmarks mutation docs -name __pycache__ -type d -prune -exec rm -rf {} +

# `pip install --group` needs pip 25.1, which is newer than the one that venv lays down with Python 3.11.
$(VENV)/.installed: pyproject.toml | $(BIN)/python
	$(INSTALL) --upgrade 'pip>=25.1'
	$(INSTALL) --editable '.[all]' --group dev
	@touch $@

$(VENV)/.installed-oldest: pyproject.toml .ci/oldest | $(BIN)/python
	$(INSTALL) --upgrade 'pip>=25.1'
	$(BIN)/python .ci/oldest > $(VENV)/oldest.txt
	$(INSTALL) --editable '.[all]' --group test --group docs --constraint $(VENV)/oldest.txt
	@touch $@

# Always anew: the newest of today are not those of tomorrow.
.PHONY: $(VENV)/.installed-newest
$(VENV)/.installed-newest: | $(BIN)/python
	$(INSTALL) --upgrade 'pip>=25.1'
	$(INSTALL) --upgrade --upgrade-strategy eager --pre --editable '.[all]' --group dev

$(VENV)/.installed-browser: $(VENV)/.installed
	$(INSTALL) --group browser
	@touch $@

$(VENV)/.installed-bench: $(VENV)/.installed
	$(INSTALL) --group bench
	@$(INSTALL) --group bench-compiled || echo "hpfrec and poismf need a C compiler: their lines will say that they were not measured." >&2
	@touch $@

$(BIN)/python:
	@command -v $(PYTHON) >/dev/null || { echo "partwise needs Python 3.11 or later, and there is no $(PYTHON): install it (Debian: apt install python3 python3-venv) or say make PYTHON=/path/to/python." >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "partwise needs Python 3.11 or later, and $(PYTHON) is $$($(PYTHON) -V 2>&1): say make PYTHON=/path/to/a/newer/python." >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { echo "$(PYTHON) cannot make virtual environments: install its venv module (Debian: apt install python3-venv)." >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)
