# Two commands: `make bench` sets up and runs the main job, `make test` sets up and passes the tests.
PYTHON ?= $(shell for p in python3.12 python3.11 python3.13 python3 python; do \
	$$p -c 'import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 14))' 2>/dev/null && echo $$p && break; done)
VENV ?= .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
OUT ?= runs/main-$(shell date -u +%Y%m%d-%H%M%S)

.PHONY: bench test test-all check lint types setup clean

setup: $(STAMP)

$(STAMP): pyproject.toml constraints.txt
	@test -n "$(PYTHON)" || { echo "error: no Python 3.11, 3.12 or 3.13 found; set PYTHON=/path/to/python"; exit 6; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@touch $@

bench: $(STAMP)
	$(BIN)/bench run --config recipes/main.toml --out $(OUT)
	$(BIN)/bench compare $(OUT)

test: $(STAMP)
	$(BIN)/python -m pytest -n 2 --dist loadfile --no-loadscope-reorder -m "not slow"

test-all: $(STAMP)
	$(BIN)/python -m pytest -n 2 --dist loadfile --no-loadscope-reorder

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(STAMP)
	$(BIN)/basedpyright --pythonpath $(BIN)/python

check: lint types

clean:
	rm -rf $(VENV) build dist *.egg-info
