# recprism: `make demo` and `make test` are all a newcomer needs.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
PIP    := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt

.PHONY: help demo test lint docs errors bench wheel clean

help:            ## this list
	@grep -E '^[a-z]+: .*## ' Makefile | sed -E 's/^([a-z]+):.*## /  make \1\t/' | expand -t 16

demo: $(VENV)/.core       ## install into .venv, then train a recommender on real data and measure its lists
	@$(BIN)/recprism demo

test: $(VENV)/.test       ## install what the tests need and run them on all processors
	@$(BIN)/python -m pytest -n auto --maxprocesses 8 --dist worksteal

lint: $(VENV)/.lint       ## ruff and mypy --strict
	@$(BIN)/ruff check . && $(BIN)/ruff format --check . && $(BIN)/mypy

docs: $(VENV)/.docs       ## these pages as a site, in docs/_build; any warning is an error
	@$(BIN)/sphinx-build -W -n -E --keep-going -q docs docs/_build && echo "docs/_build/index.html"

errors: $(VENV)/.test     ## write docs/errors.md: what is said to bad input, from the cases of the tests
	@$(BIN)/python tests/trust/errors.py --write

bench: $(VENV)/.bench     ## every benchmark, one after the other (benchmarks/RESULTS.md has the recorded figures)
	@for script in topk metrics rerank cmb certificate train; do echo "== benchmarks/$$script.py"; $(BIN)/python benchmarks/$$script.py; done

wheel: $(VENV)/bin/python  ## build the wheel into dist/
	@$(BIN)/python -m pip wheel --quiet --disable-pip-version-check --no-deps --wheel-dir dist .

clean:           ## remove what the other targets made
	rm -rf $(VENV) dist build docs/_build .mypy_cache .ruff_cache .pytest_cache .hypothesis

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "recprism needs Python 3.11 or newer; found $$($(PYTHON) --version). Try: make PYTHON=python3.11"; exit 2; }
	@echo "making $(VENV) (once; a few minutes, mostly PyTorch) ..."
	@$(PYTHON) -m venv $(VENV)

# Each stamp is one set of packages; it is made anew when the pins or the project's own list change.
$(VENV)/.core: $(BIN)/python pyproject.toml constraints.txt
	@$(PIP) --editable .
	@touch $@

$(VENV)/.test: $(VENV)/.core
	@$(PIP) --editable '.[test]'
	@touch $@

$(VENV)/.bench: $(VENV)/.test
	@$(PIP) --editable '.[test,adapters]'
	@touch $@

$(VENV)/.lint: $(VENV)/.core
	@$(PIP) --editable '.[lint]'
	@touch $@

$(VENV)/.docs: $(VENV)/.core
	@$(PIP) --editable '.[docs]'
	@touch $@
