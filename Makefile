# `make demo` and `make test` set everything up by themselves; both are quick when repeated.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

.PHONY: demo test slow bench lint docs clean

demo: $(READY)
	$(BIN)/python examples/price_of_safety.py

test: lint
	$(BIN)/python -m pytest -n 2

slow: $(READY)
	$(BIN)/python -m pytest -n 2 -m slow

bench: $(READY)
	$(BIN)/python -m benchmarks.planning

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

docs: $(READY)
	$(BIN)/python docs/check.py

$(READY): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[test,lint]"
	touch $@

clean:
	rm -rf $(VENV) out
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
