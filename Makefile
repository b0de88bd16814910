.DEFAULT_GOAL := help
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c

VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.jackline-ready
ROOMS := domain journal projections evidence commands policies api watchers
PYTHON ?=

.PHONY: help setup demo test test-kubernetes-real check lint types arrows format bench sim soak mutants openapi docs constraints clean

help: ## print this help
	@echo "Jackline: a run survives the death of its worker."
	@echo
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sort | awk -F ':.*## ' '{ printf "  make %-20s %s\n", $$1, $$2 }'

setup: $(STAMP) ## make .venv with every pinned dependency and both distributions in it

# Editable on purpose: the checkout's folders, the test suite and the console script are then one and the same code.
$(STAMP): constraints.txt pyproject.toml client/pyproject.toml
	@python=$$(PYTHON='$(PYTHON)' tools/find-python) && \
		{ [ -x $(BIN)/python ] || "$$python" -m venv $(VENV); }
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r constraints.txt
	PYTHONWARNINGS=ignore $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation \
		-e . -e ./client
	@touch $@

demo: setup ## show it on real work: three runs, a worker killed with -9, another that continues
	$(BIN)/jackline demo

# One process more than there are cores, a file of tests in one of them: many tests wait for real processes.
test: setup ## run every test; ARGS are handed to pytest
	$(BIN)/python -m pytest --numprocesses "$$(( $$(getconf _NPROCESSORS_ONLN) + 1 ))" --dist loadfile $(ARGS)

# Not part of the suite: etcd and kube-apiserver have to be on the path. It keeps the fake API server honest.
test-kubernetes-real: setup ## play the scenarios of watchers on a real API server
	$(BIN)/python -m tests.watchers.real_apiserver $(ARGS)

check: lint types arrows test ## everything that must hold before a commit

lint: setup ## style and formatting
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: setup ## static types
	$(BIN)/mypy

arrows: setup ## which room may know which
	$(BIN)/lint-imports

format: setup ## put the code into the one format, and repair what can be repaired
	$(BIN)/ruff check --fix-only .
	$(BIN)/ruff format .

bench: setup ## measure Jackline on this machine (minutes)
	$(BIN)/python -m benchmarks

SIM_S ?= 120
sim: setup ## every small world and many random ones, SIM_S seconds each (120); every death, every planted fault; takes SEED
	$(BIN)/python -m simulation --exhaustive $(SIM_S)
	$(BIN)/python -m simulation --crashes
	$(BIN)/python -m simulation --worlds 2000 --steps 50 --seed 0
	$(BIN)/python -m simulation --seconds $(SIM_S) $(if $(SEED),--seed $(SEED))
	$(BIN)/python -m simulation --planted

SOAK_S ?= 600
soak: setup ## random worlds, kills, power cuts and lost answers for SOAK_S seconds (600); takes SEED, PARTS, SCALE
	SOAK_S=$(SOAK_S) SEED='$(SEED)' PARTS='$(PARTS)' SCALE='$(SCALE)' $(BIN)/python -m tools.soak

# Not part of the suite: it takes minutes. A run that was stopped goes on where it was; results are in mutants/.
mutants: setup ## plant faults in domain/ and see which no test notices; takes MODULES ("lease run"), ARGS=--write
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r tools/mutants.txt
	$(BIN)/python -m tools.mutants $(MODULES) $(ARGS)

openapi: setup ## regenerate docs/openapi.json and the TypeScript types
	$(BIN)/python -m tools.openapi

docs: setup ## regenerate docs/origins.md, docs/facts.md and docs/command-line.md
	$(BIN)/python -m tools.documents

constraints: setup ## pin again: the newest of everything that pyproject.toml and client/pyproject.toml allow
	$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --upgrade --no-emit-index-url \
		--no-annotate --no-header --no-emit-package jackline --group dev pyproject.toml client/pyproject.toml \
		--output-file constraints.txt
	$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --upgrade --no-emit-index-url \
		--no-annotate --no-header --group mutants --constraint constraints.txt --output-file tools/mutants.txt

clean: ## remove everything that make made
	rm -rf $(VENV) build dist mutants .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis
	find . -name '*.egg-info' -prune -exec rm -rf {} + -o -name __pycache__ -prune -exec rm -rf {} +
