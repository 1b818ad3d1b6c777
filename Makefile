# recprism: `make demo` and `make test` are all a newcomer needs.
PYTHON ?= python3
# Which versions are installed: pinned (constraints.txt), lowest (that pyproject.toml allows) or highest (that exist).
# Lowest and highest have environments of their own, .venv-lowest and .venv-highest.
DEPENDENCIES ?= pinned
VENV   := .venv$(if $(filter-out pinned,$(DEPENDENCIES)),-$(DEPENDENCIES))
BIN    := $(VENV)/bin
COMMA  := ,
PINS_pinned  := constraints.txt
PINS_lowest  := $(VENV)/lowest.txt
PINS_highest :=
PINS   := $(PINS_$(DEPENDENCIES))
$(if $(filter pinned lowest highest,$(DEPENDENCIES)),,$(error DEPENDENCIES is $(DEPENDENCIES); choose pinned, lowest or highest))
# Wheels only: where one is missing, pip says so at once instead of looking for a compiler.
PIP    := $(BIN)/python -m pip install --quiet --disable-pip-version-check --only-binary :all: $(addprefix -c ,$(PINS))
PYTEST := $(BIN)/python -m pytest -n auto --maxprocesses 8 --dist worksteal
# Markers of the tests that `make test` leaves to `make test-rest`; CONTRIBUTING.md says what they mean.
REST   := browser or docs or faults or ml1m or needs or notebooks or ray or slow
# The plainest instructions of a processor, for torch, numba, OpenBLAS and MKL.
PLAIN  := ATEN_CPU_CAPABILITY=default NUMBA_CPU_NAME=generic NUMBA_CPU_FEATURES= \
          OPENBLAS_CORETYPE=$(if $(filter aarch64 arm64,$(shell uname -m)),ARMV8,Prescott) \
          MKL_ENABLE_INSTRUCTIONS=SSE4_2 MKL_CBWR=COMPATIBLE

.PHONY: help demo test test-rest test-plain test-light lint docs pictures check-wheels check-demo errors bench wheel clean

help:            ## this list
	@grep -E '^[a-z-]+: .*## ' Makefile | sed -E 's/^([a-z-]+):.*## /  make \1\t/' | expand -t 20

demo: $(VENV)/.core       ## install into .venv, then train a recommender on real data and measure its lists
	@$(BIN)/recprism demo

test: $(VENV)/.test       ## install what the tests need and run the quick ones on all processors
	@$(call timed,$(PYTEST) -m "not ($(REST))")

test-rest: $(VENV)/.test  ## all other tests: faults, browser, documentation, notebooks, Ray, long runs
	@$(call timed,$(PYTEST) -m "$(REST)")

test-plain: $(VENV)/.test ## the tests of the documentation again, with the plainest instructions of the processor
	@$(call timed,$(PLAIN) $(PYTEST) -m docs)

test-light: wheel         ## the wheel without extras in an empty environment: its packages, their size, tests/light
	@$(BIN)/python tools/check_light.py

lint: $(VENV)/.lint       ## ruff, mypy --strict, and the prose of docs and source
	@$(BIN)/ruff check . && $(BIN)/ruff format --check . && $(BIN)/mypy && $(BIN)/python tools/check_prose.py

docs: $(VENV)/.docs       ## these pages as a site, in docs/_build; any warning is an error
	@$(BIN)/sphinx-build -W -n -E --keep-going -q docs docs/_build && echo "docs/_build/index.html"

# The run behind the pictures of report and studio; name another one with PICTURED=runs/x.
PICTURED ?= runs/ml1m

pictures: $(VENV)/.test   ## draw the pictures of the docs again; needs chromium and MovieLens-1M
	@test -e $(PICTURED) || { $(BIN)/recprism train --data ml-1m -o $(PICTURED) && $(BIN)/recprism diversify $(PICTURED) --budget 5%; }
	@$(BIN)/recprism report $(PICTURED)
	@$(BIN)/python tools/list_image.py && $(BIN)/python tools/front.py
	@$(BIN)/python tools/report_images.py $(PICTURED)/report.html && $(BIN)/python tools/studio_image.py $(PICTURED)

check-wheels: $(VENV)/.test ## every package of the tests has a wheel for each supported system and Python
	@$(BIN)/python tools/check_wheels.py

# The script runs make itself, which must not take over the options of this one.
check-demo: $(VENV)/.core ## the demo on odd machines: without network, without a home, as another user
	@env -u MAKEFLAGS -u MAKELEVEL -u MFLAGS $(BIN)/python tools/check_demo.py

errors: $(VENV)/.test     ## write docs/errors.md: what is said to bad input, from the cases of the tests
	@$(BIN)/python tests/trust/errors.py --write

bench: $(VENV)/.bench     ## every benchmark, one after the other (benchmarks/RESULTS.md has the recorded figures)
	@for script in topk metrics rerank cmb certificate train; do echo "== benchmarks/$$script.py"; $(BIN)/python benchmarks/$$script.py; done

wheel: $(VENV)/bin/python  ## build the wheel into dist/
	@$(BIN)/python -m pip wheel --quiet --disable-pip-version-check --no-deps --wheel-dir dist .

clean:           ## remove what the other targets made
	rm -rf .venv .venv-light .venv-lowest .venv-highest dist build docs/_build .mypy_cache .ruff_cache .pytest_cache .hypothesis

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "recprism needs Python 3.11 or newer; found $$($(PYTHON) --version). Try: make PYTHON=python3.11"; exit 2; }
	@echo "making $(VENV) (once; a few minutes, mostly PyTorch) ..."
	@$(PYTHON) -m venv $(VENV)

# Each stamp is one set of packages; it is made again when the pins or the project's own list change.
# It holds the seconds that the installation took.
install = start=$$(date +%s) && $(PIP) --editable $(1) && echo $$(($$(date +%s) - start)) > $@

# Runs tests, then prints how long the installation and the tests took; the shell's second line of `times` is about its
# children, as 1m2.345s 0m6.789s.
timed = start=$$(date +%s); $(1); code=$$?; times > $(VENV)/.cpu-$@; \
        installed=$$(awk '{ sum += $$1 } END { print sum + 0 }' $(VENV)/.core $(VENV)/.test); \
        cpu=$$(awk 'NR == 2 { split($$0, t, /[ms ]+/); print int(60 * (t[1] + t[3]) + t[2] + t[4]) }' $(VENV)/.cpu-$@); \
        echo "time: installation $$installed s (once), tests $$(($$(date +%s) - start)) s, $$cpu CPU seconds"; exit $$code

$(VENV)/lowest.txt: $(BIN)/python pyproject.toml tools/lowest_dependencies.py
	@$(BIN)/python tools/lowest_dependencies.py > $@

$(VENV)/.core: $(BIN)/python pyproject.toml $(PINS)
	@$(call install,'.[full]')

$(VENV)/.test: $(VENV)/.core
	@$(call install,'.[test]')

$(VENV)/.bench: $(VENV)/.test
	@$(call install,'.[test$(COMMA)adapters]')

$(VENV)/.extras: $(VENV)/.test
	@$(call install,'.[adapters$(COMMA)mlflow$(COMMA)engines$(COMMA)haystack$(COMMA)langchain$(COMMA)llamaindex$(COMMA)ray]')

$(VENV)/.lint: $(VENV)/.core
	@$(call install,'.[lint]')

$(VENV)/.docs: $(VENV)/.core
	@$(call install,'.[docs]')
