# Two commands do all the set-up on a fresh machine: `make demo` and `make test`.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: test lint types demo docs gallery clean bench fuzz reliability
.DELETE_ON_ERROR:

# In the order of the files: doctests come last, and are short, so that no worker is long alone at the end.
test: lint types
	$(BIN)/python -m pytest -n auto --dist loadfile --no-loadscope-reorder

lint: .venv/ready
	$(BIN)/ruff check src tests benchmarks examples website
	$(BIN)/ruff format --check src tests benchmarks examples website

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

# A site in build/site that asks nothing of other machines; a warning is an error.
docs: .venv/ready
	$(BIN)/python website/samples.py
	$(BIN)/python website/build.py
	@echo "Open build/site/index.html."

# The pictures of docs/gallery, from all examples in full: minutes.
gallery: .venv/ready
	$(BIN)/python website/gallery.py

clean:
	rm -rf build .venv .mypy_cache .ruff_cache .pytest_cache .hypothesis

# Needs an idle machine. Peers that do not install are left out, and the table says so.
bench: .venv/ready
	-$(BIN)/python -m pip install --quiet --constraint constraints.txt --requirement benchmarks/requirements.txt
	$(BIN)/python benchmarks/run.py

# 200 000 files with something changed in them, kills, threads and a long stream: half an hour on two cores.
fuzz: .venv/ready
	$(BIN)/python tests/reliability/full_run.py

# docs/reliability.md, from a run of the tests that it names and the records of `make fuzz`.
reliability: .venv/ready
	-$(BIN)/python -m pytest -n auto --dist loadfile --junitxml build/tests.xml $$($(BIN)/python website/reliability.py)
	$(BIN)/python website/reliability.py build/tests.xml
