# `make demo` and `make test` set everything up by themselves; both are quick when repeated.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
OLDER := NUMBA_CPU_NAME=generic OPENBLAS_CORETYPE=Nehalem NPY_DISABLE_CPU_FEATURES="X86_V3 X86_V4"
NUMERIC := tests/planning/cuda tests/planning/test_pessimistic.py tests/planning/test_solve.py tests/refinements/test_chain.py \
	tests/test_packaged_problems.py

.PHONY: demo test coverage slow bench trial examples lint docs clean torture

demo: $(READY)
	$(BIN)/python -m experiments table1 gridworld safety heatmaps --seeds 3 --out out/demo

# A file's tests stay on one worker, so that the two do not compile the same functions.
# Then the numeric files again as on an older processor: nothing may depend on the last bit of BLAS or of a fused multiply-add.
test: lint
	$(BIN)/python -m pytest -n 2 --dist loadfile
	$(OLDER) $(BIN)/python -m pytest -n 2 --dist loadfile $(NUMERIC)

# Which lines no test runs, and whether they have become more; compiled code is not seen.
coverage: $(READY)
	$(BIN)/python -m pytest -n 2 --dist loadfile --cov --cov-report=term

# Ray is large, and only these tests start a cluster of it.
slow: $(READY)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[ray]"
	$(BIN)/python -m pytest -n 2 -m slow

# Kills, torn logs, restores, partitions, damage: ten minutes, and the table of what was lost.
torture: $(READY)
	$(BIN)/python -m torture --minutes 10

# Measurements with the facts of the machine into out/bench.json, docs/performance.md from them, a line of history; then targets.
bench: $(READY) $(VENV)/.ready-bench
	$(BIN)/python -m benchmarks.measure --million --out out/bench.json
	$(BIN)/python -m benchmarks.page out/bench.json benchmarks/measured/sixteen-cores-and-a-gpu.json
	$(BIN)/python -m benchmarks.planning
	$(BIN)/python -m benchmarks.robust out/robust.json
	$(BIN)/python -m benchmarks.rectangular
	$(BIN)/python -m benchmarks.exploration
	$(BIN)/python -m benchmarks.campaign

# 10 million deployments on random systems, all evaluated exactly: do the promises hold? Some minutes on two cores.
trial: $(READY)
	mkdir -p out
	$(BIN)/python -m trial --deployments 1e7 --out out/trial.json

examples: $(READY)
	$(BIN)/python examples/frozen_lake.py
	$(BIN)/python examples/warehouse.py
	$(BIN)/python examples/icu_sepsis.py
	$(BIN)/python examples/mountain_car.py
	$(BIN)/python examples/pendulum.py
	$(BIN)/python examples/first_plan.py
	$(BIN)/python examples/inventory.py
	$(BIN)/python examples/policy_trial.py
	$(BIN)/python examples/icu_sepsis_trial.py

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

# The site in out/site: built without a warning, tutorials run, links followed; then every Python block of the other pages.
docs: $(READY) $(VENV)/.ready-docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet
	$(BIN)/python docs/site/notebooks.py out/site/tutorials
	$(BIN)/python docs/site/check_site.py out/site
	$(BIN)/python docs/check.py

$(VENV)/.ready-docs: $(READY)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[docs]"
	touch $@

# The peers: HiGHS with its own interface, and Storm, which is under the GPL and never a dependency of the package.
$(VENV)/.ready-bench: $(READY) benchmarks/requirements.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -r benchmarks/requirements.txt
	touch $@

$(READY): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[test,lint]"
	touch $@

clean:
	rm -rf $(VENV) out
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
