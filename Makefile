# Each target does its own set-up, in .venv, from PyPI; it needs Python 3.11-3.13 and nothing else.
VENV ?= .venv
BIN := $(VENV)/bin
export PIP_DISABLE_PIP_VERSION_CHECK := 1

.PHONY: demo test check lint test-gpu docs clean

# the main job on an example with the shipped pack, from a kernel file to a pin
demo: $(VENV)/.installed
	$(BIN)/helitune tune examples/softmax.py --acf-pack h200-seed --budget 60 --seed 1
	$(BIN)/helitune pin -o pins/ --allow compiled

# everything that needs no GPU
test: $(VENV)/.installed-dev lint
	$(BIN)/python -m pytest -n 2 --dist worksteal -m "not gpu" tests

# the inner loop: lint, types, fast tests
check: $(VENV)/.installed-dev lint
	$(BIN)/python -m pytest -q -n 2 -m "not slow and not gpu" tests

lint: $(VENV)/.installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# the command reference, from --help
docs: $(VENV)/.installed-dev
	$(BIN)/python tests/test_docs.py

test-gpu: $(VENV)/.installed-dev
	$(BIN)/python -m pytest -m gpu tests

$(VENV)/bin/python:
	@for python in python3.11 python3.12 python3.13 python3; do \
	  if $$python -c 'import sys, venv; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))' 2>/dev/null; then \
	    echo "using $$($$python --version)"; exec $$python -m venv $(VENV); fi; done; \
	  echo "helitune needs Python 3.11, 3.12 or 3.13 with the venv module; put one on PATH" >&2; exit 1

$(VENV)/.installed: $(VENV)/bin/python pyproject.toml constraints.txt
	$(BIN)/python -m pip install -q -c constraints.txt -e .
	touch $@

$(VENV)/.installed-dev: $(VENV)/bin/python pyproject.toml constraints.txt
	$(BIN)/python -m pip install -q -c constraints.txt -e '.[test,lint]'
	touch $@ $(VENV)/.installed

clean:
	rm -rf $(VENV) build *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis
