# Every target works from a bare checkout: it makes .venv first, where that is missing or older
# than pyproject.toml or requirements.lock. Needs Python 3.11 or newer; `make PYTHON=... test` picks one.

VENV  := .venv
BIN   := $(VENV)/bin
STAMP := $(VENV)/.installed

PYTHON ?=
CANDIDATES := $(PYTHON) python3 python3.11 python3.12 python3.13

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help demo test lint docs bench fuzz soak lock clean

help:
	@echo "make demo    a short tour that runs in the terminal"
	@echo "make test    tests, and the examples in docstrings"
	@echo "make lint    style, types, and who may import whom"
	@echo "make docs    the documentation as a site, in site/"
	@echo "make bench   measure stages and the node engine (ten minutes)"
	@echo "make fuzz    damaged bytes at every way in (an hour; FUZZ_SECONDS=10 for each way)"
	@echo "make soak    long random runs"
	@echo "make lock    renew requirements.lock: exact versions, with digests"
	@echo "make clean   remove caches and build products (keeps $(VENV))"

demo: $(STAMP)
	@$(BIN)/headrace demo

# A test that hangs in compiled code takes its worker with it; a new worker would only hang again.
test: $(STAMP)
	$(BIN)/python -m pytest -n 3 --dist loadfile --max-worker-restart 0 \
	  --doctest-modules tests src/headrace

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

docs: $(STAMP)
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet
	@echo "open site/index.html"

bench: $(STAMP)
	@$(BIN)/headrace bench stage
	@$(BIN)/headrace bench node

FUZZ_SECONDS ?= 400
fuzz: $(STAMP)
	$(BIN)/python -m tests.fuzz.run --seconds $(FUZZ_SECONDS)

soak: $(STAMP)
	HEADRACE_PROFILE=soak $(BIN)/python -m pytest -m soak --timeout 3600 tests
	HEADRACE_SCHEDULER=random $(BIN)/python -m pytest tests/node
	HEADRACE_SCHEDULER=swapped $(BIN)/python -m pytest tests/node
	HEADRACE_SCHEDULER=free_list $(BIN)/python -m pytest tests/node
	HEADRACE_SCHEDULER=assigned $(BIN)/python -m pytest tests/node

# Versions for all machines and Pythons that we support, with the digests of their files.
lock: $(STAMP)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check uv
	$(BIN)/uv pip compile --quiet --upgrade --universal --python-version 3.11 --generate-hashes \
	  --no-header --no-annotate --extra dev pyproject.toml -o requirements.lock

clean:
	rm -rf build dist site .coverage .coverage.* htmlcov
	rm -rf .pytest_cache .ruff_cache .mypy_cache .import_linter_cache .hypothesis
	find src tests examples -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true

# A name on the PATH is not yet an interpreter that runs, so each candidate is asked.
$(STAMP): pyproject.toml requirements.lock
	@if ! $(BIN)/python -m pip --version >/dev/null 2>&1; then \
	  for candidate in $(CANDIDATES); do \
	    if "$$candidate" -c 'import sys, venv; sys.exit(sys.version_info < (3, 11))' \
	        >/dev/null 2>&1; then \
	      found="$$candidate"; break; \
	    fi; \
	  done; \
	  if [ -z "$${found:-}" ]; then \
	    echo "headrace needs Python 3.11 or newer (with venv); tried: $(strip $(CANDIDATES))." >&2; \
	    echo "Install one, or name it: make PYTHON=/path/to/python3 $(MAKECMDGOALS)" >&2; \
	    exit 1; \
	  fi; \
	  echo "making $(VENV) with $$("$$found" --version)"; \
	  "$$found" -m venv $(VENV); \
	fi
	@echo "installing headrace and its tools into $(VENV)"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes \
	  --requirement requirements.lock
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	@touch $@
