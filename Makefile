# Two commands do all the set-up on a fresh machine: `make demo` and `make test`.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: test lint types demo clean bench
.DELETE_ON_ERROR:

test: lint types
	$(BIN)/python -m pytest -n auto --dist loadfile

lint: .venv/ready
	$(BIN)/ruff check src tests benchmarks examples
	$(BIN)/ruff format --check src tests benchmarks examples

types: .venv/ready
	$(BIN)/mypy

.venv/ready: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[dev]'
	touch $@

# The demonstration needs no torch and no test tools: a lighter install of the same environment.
demo: .venv/light
	$(BIN)/pcarann demo

.venv/light: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[figures]'
	touch $@

clean:
	rm -rf .venv .mypy_cache .ruff_cache .pytest_cache .hypothesis

# Needs an idle machine. Peers that do not install are left out, and the table says so.
bench: .venv/ready
	-$(BIN)/python -m pip install --quiet --constraint constraints.txt --requirement benchmarks/requirements.txt
	$(BIN)/python benchmarks/run.py
