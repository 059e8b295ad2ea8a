# Two commands for a start: `make demo` and `make test`. They need Python 3.11 or newer and nothing else; what else there
# is goes into $(VENV). Another Python: `make test PYTHON=python3.12 VENV=.venv-3.12`.

VENV ?= .venv
PYTHON ?=
BIN := $(VENV)/bin

# The tests start hundreds of processes that load the same packages; what the first has compiled, the others need not.
unexport PYTHONDONTWRITEBYTECODE

.DELETE_ON_ERROR:
.PHONY: help demo test test-citus lint format types imports check bench docs packages clean

help:  ## show this
	@sed -n 's/^\([a-z-]*\):.*## /\1	/p' $(MAKEFILE_LIST)

demo: $(VENV)/.demo  ## see memory at work, on an embedded Postgres
	@$(BIN)/reme demo

test: $(VENV)/.dev  ## run all tests
	@$(BIN)/python -m pytest --numprocesses auto --dist worksteal $(TESTS)

test-citus: $(VENV)/.dev  ## run the tests of store, flows, faults and doctor on the Citus cluster whose coordinator REME_TEST_CITUS_URL names
	@if [ -z "$$REME_TEST_CITUS_URL" ]; then echo "test-citus is skipped: REME_TEST_CITUS_URL names no cluster"; \
	else $(BIN)/python -m pytest --numprocesses 2 --dist worksteal $(or $(TESTS),tests/store tests/flows tests/faults tests/server/test_doctor.py); fi

lint: $(VENV)/.dev  ## look for mistakes and for untidy format
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .

format: $(VENV)/.dev  ## tidy up
	@$(BIN)/ruff check --fix .
	@$(BIN)/ruff format .

types: $(VENV)/.dev  ## check the types, strictly
	@$(BIN)/mypy

imports: $(VENV)/.dev  ## check that imports point one way
	@$(BIN)/lint-imports

check: lint types imports test  ## all of these

bench: $(VENV)/.dev  ## measure recall, ingest and embedding
	@$(BIN)/python -m benchmarks.recall --memories 10000
	@$(BIN)/python -m benchmarks.ingest --memories 10000
	@$(BIN)/python -m benchmarks.embedding

docs: $(VENV)/.dev  ## make the documentation site in build/site
	@NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --quiet --site-dir build/site

packages: $(VENV)/.dev  ## make the packages in dist, as the index takes them
	@rm -rf dist
	@$(BIN)/python -m build >/dev/null
	@$(BIN)/python -m twine check --strict dist/*

clean:  ## remove the environment, and what was built
	rm -rf $(VENV) dist build .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis

$(BIN)/python:
	@python="$(PYTHON)"; [ -n "$$python" ] || python=$$(.ci/find-python) || exit 1; \
	echo "Making $(VENV) with $$("$$python" --version)"; "$$python" -m venv $(VENV)

# uv takes seconds where pip takes minutes; but an index may be named to pip alone, which then says what is wrong, too.
PIP := $(BIN)/python -m pip --disable-pip-version-check install --quiet
UV := $(BIN)/python -m uv pip install --quiet --python $(BIN)/python
ALL := '.[dev,all]' # named, because its comma would end an argument
install = { $(PIP) uv && $(UV) --editable $(1); } 2>/dev/null || $(PIP) --editable $(1)

# What was installed for which pyproject.toml; the environment of the tests serves the demo as well.
$(VENV)/.demo: pyproject.toml | $(BIN)/python
	@echo "Installing reme-core and what it needs into $(VENV)"
	@$(call install,.)
	@touch $@

$(VENV)/.dev: pyproject.toml | $(BIN)/python
	@echo "Installing reme-core, the frameworks it adapts to and the tools into $(VENV)"
	@$(call install,$(ALL))
	@touch $@ $(VENV)/.demo
