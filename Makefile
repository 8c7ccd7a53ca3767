# `make test` does all the set-up on a fresh machine, then checks everything.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: test lint types clean
.DELETE_ON_ERROR:

test: lint types
	$(BIN)/python -m pytest

lint: .venv/ready
	$(BIN)/ruff check src tests
	$(BIN)/ruff format --check src tests

types: .venv/ready
	$(BIN)/mypy

.venv/ready: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[dev]'
	touch $@

clean:
	rm -rf .venv .mypy_cache .ruff_cache .pytest_cache .hypothesis
