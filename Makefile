# One command for each habit. `make run` and `make test` do all the set-up they need.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin

.PHONY: run test faults lint types format bench lock clean

run: $(VENV)/run.stamp
	@exec $(BIN)/tocsin up

test: $(VENV)/dev.stamp
	$(BIN)/python -m pytest -m "not faults"

faults: $(VENV)/dev.stamp
	$(BIN)/python -m pytest tests/faults -m faults -n 0

# An instance of its own, light load, unique alerts and storms: about two minutes.
bench: $(VENV)/dev.stamp
	$(BIN)/python -m bench --own

lint: $(VENV)/dev.stamp
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/dev.stamp
	$(BIN)/mypy pipeline schedules models tocsin workers web

format: $(VENV)/dev.stamp
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# Exact versions with hashes, for every platform; no registry's address is written.
lock: $(VENV)/dev.stamp
	$(BIN)/uv pip compile -q pyproject.toml -o requirements.lock $(LOCK)
	$(BIN)/uv pip compile -q pyproject.toml --extra dev -o requirements-dev.lock $(LOCK)

LOCK := --generate-hashes --python-version 3.11 --universal --no-emit-index-url --no-emit-find-links --no-header --no-annotate

$(VENV)/run.stamp: requirements.lock pyproject.toml
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "installing what Tocsin needs (about half a minute, once) ..."
	@$(BIN)/python -m pip install -q --disable-pip-version-check --require-hashes -r requirements.lock
	@$(BIN)/python -m pip install -q --disable-pip-version-check --no-deps -e .
	@touch $@

$(VENV)/dev.stamp: $(VENV)/run.stamp requirements-dev.lock
	@echo "installing what its tests need ..."
	@$(BIN)/python -m pip install -q --disable-pip-version-check --require-hashes -r requirements-dev.lock
	@touch $@

clean:
	rm -rf $(VENV) *.egg-info build
