# One command per habit. `make install`, `make run` and `make test` install everything they need into .venv.
VENV := .venv
BIN  := $(VENV)/bin

# The first of these that is new enough and can create environments. To choose another: make PYTHON=/path/to/python3.
# That of a distribution comes first. It is built with optimizations, and needs a tenth less CPU time than one that
# was compiled without them, as pyenv does.
PYTHON ?= $(shell for each in /usr/bin/python3 python3 python3.14 python3.13 python3.12 python3.11; do \
	$$each -c 'import ensurepip, sys, venv; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$each && break; \
	done)

.PHONY: openid-provider twilio-description install run docs pages any quick test fresh test-pure test-processes test-all test-postgresql schemathesis faults faults-full mutants siege siege-short wheel image bench bench-lists bench-loader bench-memory bench-stores bench-oncall bench-pages bench-queues bench-rules bench-scale bench-sources bench-timers bench-versions bench-workers lint types format lock clean

install: $(VENV)/run.stamp

run: $(VENV)/run.stamp
	@exec $(BIN)/tocsin up

# Databases of tests are in memory if there is room: most exist for milliseconds. Only the fault tests depend on the
# disk, and use it.
IN_MEMORY = $(shell df -Pk /dev/shm 2>/dev/null | awk 'NR == 2 && $$4 > 1000000 { print "TMPDIR=/dev/shm" }')

# Python keeps what it compiled, also where the environment says otherwise: each start of a test's process needs it.
unexport PYTHONDONTWRITEBYTECODE

# Prints wall time and core-seconds at the end.
TIMED = $(BIN)/python .ci/timed.py
# tests/selection.py says which tests have which mark. These have targets of their own, and are not among the others.
NO_OTHERS := not faults and not siege and not wheel and not schemathesis

# All tests that start no process.
test: $(VENV)/dev.stamp
	@env -u TEST_DATABASE_URL $(IN_MEMORY) $(TIMED) $(BIN)/python -m pytest -m "not processes and $(NO_OTHERS)" -n 2

# Tests that start tocsin, a browser or another program. Those of one file share its servers. They often wait, so that
# three tests run beside each other.
test-processes: $(VENV)/dev.stamp
	@env -u TEST_DATABASE_URL $(IN_MEMORY) $(TIMED) $(BIN)/python -m pytest -m "processes and $(NO_OTHERS)" -n 3 \
		--dist loadfile

# The tests without a database, the style and the types: before each commit.
quick: $(VENV)/dev.stamp
	@$(TIMED) $(MAKE) --no-print-directory --output-sync --jobs 3 test-pure lint types

test-pure: $(VENV)/dev.stamp
	@env -u TEST_DATABASE_URL $(IN_MEMORY) $(BIN)/python -m pytest -m pure -n 2

# Everything that a change must pass: what CI runs.
test-all:
	@.ci/run

# On a minimal Debian, as a plain user: install, send the first alert, run the tests. Needs root and mmdebstrap.
# For a Debian with a newer Python: make fresh SUITE=sid
SUITE ?= trixie

fresh:
	@env SUITE=$(SUITE) .ci/fresh_machine.sh all

# A server on which tests may create databases. They drop them afterwards.
POSTGRESQL ?= $(or $(TEST_DATABASE_URL),postgresql:///postgres)
# Only tests that use a database. Of those that start processes, only those whose start or data depend on the store.
test-postgresql: $(VENV)/dev.stamp
	@env TEST_DATABASE_URL=$(POSTGRESQL) $(IN_MEMORY) $(TIMED) $(BIN)/python -m pytest -m "both_stores and $(NO_OTHERS)" -n 2

# Generated requests against what the description says, on PostgreSQL if TEST_DATABASE_URL is set. For more requests or
# others: make schemathesis SCHEMATHESIS_EXAMPLES=100 SCHEMATHESIS_SEED=2
SCHEMATHESIS_EXAMPLES ?= 20
SCHEMATHESIS_SEED ?= 1

schemathesis: $(VENV)/dev.stamp
	@env SCHEMATHESIS_EXAMPLES=$(SCHEMATHESIS_EXAMPLES) SCHEMATHESIS_SEED=$(SCHEMATHESIS_SEED) $(IN_MEMORY) \
		$(BIN)/python -m pytest tests/openapi -m schemathesis -n 2 --timeout 600

# On PostgreSQL, with two workers, if TEST_DATABASE_URL is set.
FAULTS ?= tests/faults

# Most of the time is waiting, so that two tests run beside each other. With three, steps come later than they may.
faults: $(VENV)/dev.stamp
	@$(TIMED) $(BIN)/python -m pytest $(FAULTS) -m faults -n 2

# What each page looks like on a phone and on a desktop, into docs/pages/. Look at each one before a commit.
pages: $(VENV)/dev.stamp
	@env PAGES_FOLDER=$(CURDIR)/docs/pages REQUIRE_PARTS=1 $(IN_MEMORY) $(BIN)/python -m pytest tests/browser/test_console_pages.py -n 0

# The longer runs for the figures of docs/experiments/faults.md.
faults-full: $(VENV)/dev.stamp
	@FAULTS_FULL=1 $(BIN)/python -m pytest $(FAULTS) -m faults -n 0

# 100 changes of single places of the code that decides and writes: how many do the tests find? At most an hour. For
# the tests of another checkout too, to compare: make mutants OTHER=../before
mutants: $(VENV)/dev.stamp
	@$(IN_MEMORY) $(BIN)/python .ci/mutants.py $(if $(filter-out file,$(origin OTHER)),--other $(OTHER))

# Build the wheel, install it into an empty environment, start it there and send an alert.
wheel: $(VENV)/dev.stamp
	@$(BIN)/python -m pytest tests/packaging -m wheel -n 0

# Build the container image, unpack it and run it as an unprivileged user: one alert in, one mail out. Needs root,
# mmdebstrap and buildah: about three minutes.
image: $(VENV)/dev.stamp
	@deploy/image.sh
	@$(BIN)/python .ci/check_image.py

# Light load, unique alerts, storms and floods, on PostgreSQL and SQLite, beside peers: about a quarter of an hour.
# The figures are written into bench-results.json; `python -m bench report FILE` writes those of docs/performance.md.
bench: $(VENV)/dev.stamp
	@$(BIN)/python -m bench.peers
	@$(BIN)/python -m bench --own

# Lists and filters of 100,000 incidents, on SQLite and PostgreSQL: about two minutes.
bench-lists: $(VENV)/dev.stamp
	@$(BIN)/python -m bench.lists

# The page of 100,000 incidents, and how fast alerts are accepted beside 200 open pages, on SQLite: about two minutes.
bench-pages: $(VENV)/dev.stamp
	@$(BIN)/python -m bench.compare.pages

# Who is on call, over a year and in 10,000 policies: about a minute.
bench-oncall: $(VENV)/dev.stamp
	@$(BIN)/python -m bench.oncall

# One tenant attacks with everything at the same time, another receives its mail: SQLite, then PostgreSQL.
DURATION ?= 120

siege: $(VENV)/dev.stamp
	@$(BIN)/python -m bench.siege --duration $(DURATION)

# Smaller and shorter, with assertions on counts, CPU and memory. On PostgreSQL too if TEST_DATABASE_URL is set.
siege-short: $(VENV)/dev.stamp
	@$(BIN)/python -m pytest tests/siege -m siege -n 0

# CPU time of 1,000 and 10,000 alert rules, in one process without a database: some seconds.
bench-rules: $(VENV)/dev.stamp
	@$(BIN)/python -m bench.rules

# CPU time of reading a body of each source, per KB, in one process without a database: some seconds.
bench-sources: $(VENV)/dev.stamp
	@$(BIN)/python -m bench.cpu.sources

# The sender of `make bench` beside a second, independent one, in turn on one instance: about two minutes.
bench-loader: $(VENV)/dev.stamp
	@$(BIN)/python -m bench.compare.loaders

# One and two workers in turn, and how long they wait for locks: about four minutes.
bench-workers: $(VENV)/dev.stamp
	@$(BIN)/python -m bench.compare.workers

# The code of another folder and this one in turn, each on its own instance on PostgreSQL: about four minutes.
OTHER ?= ../before

bench-versions: $(VENV)/dev.stamp
	@$(BIN)/python -m bench.compare.versions $(OTHER)

# Memory of an embedded instance at rest, then at 50 alerts a second for so many minutes.
MINUTES ?= 15

bench-memory: $(VENV)/dev.stamp
	@$(BIN)/python -m bench.memory --minutes $(MINUTES)

# A million alerts, 100,000 open incidents, 10,000 services and rules on PostgreSQL, beside an empty instance:
# about ten minutes and 4 GB of disk.
bench-scale: $(VENV)/dev.stamp
	@$(BIN)/python -m bench.compare.scale

# What TOCSIN_PIPELINE_QUEUES costs: the same load without it and with it, twice: about three minutes.
bench-queues: $(VENV)/dev.stamp
	@$(BIN)/python -m bench.queues

# 100,000 alerts from SQLite to PostgreSQL and back, by backup and restore: about a minute.
bench-stores: $(VENV)/dev.stamp
	@$(BIN)/python -m bench.compare.stores

# 100,000 timers that are due at the same time, two workers on PostgreSQL: about two minutes.
bench-timers: $(VENV)/dev.stamp
	@$(BIN)/python -m bench.timers

# The documents that are made from the code: settings, messages, sources.
docs: $(VENV)/dev.stamp
	@$(BIN)/python .ci/write_docs.py

lint: $(VENV)/dev.stamp
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .

types: $(VENV)/dev.stamp
	@$(BIN)/mypy runtime pipeline schedules models tocsin workers web

# Twilio's description of its interface, and a server that checks requests against it. Needs Node.js.
twilio-description: $(VENV)/twilio.stamp

$(VENV)/twilio.stamp: tests/clients/twilio/package-lock.json | $(VENV)/dev.stamp
	@mkdir -p $(VENV)/twilio
	@cp tests/clients/twilio/package.json tests/clients/twilio/package-lock.json $(VENV)/twilio/
	@npm ci --prefix $(VENV)/twilio --ignore-scripts --no-audit --no-fund --silent
	@touch $@

# A certified OpenID provider, at which the tests sign people in. Needs Node.js.
openid-provider: $(VENV)/openid.stamp

$(VENV)/openid.stamp: tests/clients/openid/package-lock.json | $(VENV)/dev.stamp
	@mkdir -p $(VENV)/openid
	@cp tests/clients/openid/package.json tests/clients/openid/package-lock.json $(VENV)/openid/
	@npm ci --prefix $(VENV)/openid --ignore-scripts --no-audit --no-fund --silent
	@touch $@

# How many parameters and returns are annotated with Any.
any: $(VENV)/dev.stamp
	@$(BIN)/python .ci/count_any.py

format: $(VENV)/dev.stamp
	@$(BIN)/ruff check --fix .
	@$(BIN)/ruff format .

# Exact versions with hashes, for all platforms, without the address of a package index.
lock: $(VENV)/dev.stamp
	@$(BIN)/uv pip compile -q pyproject.toml -o requirements.lock $(LOCK)
	@$(BIN)/uv pip compile -q pyproject.toml --extra dev -o requirements-dev.lock $(LOCK)
	@$(BIN)/uv pip compile -q --group build -c requirements-dev.lock -o requirements-build.lock $(LOCK)

LOCK := --generate-hashes --python-version 3.11 --universal --no-emit-index-url --no-emit-find-links --no-header --no-annotate

# The test for pip finds an incomplete environment, as after an interruption, and creates it again.
$(VENV)/run.stamp: requirements.lock requirements-build.lock pyproject.toml
	@test -n "$(PYTHON)" || { echo "Tocsin needs Python 3.11 or later; say make PYTHON=/path/to/python3" >&2; exit 1; }
	@$(BIN)/python -m pip --version >/dev/null 2>&1 || $(PYTHON) -m venv --clear $(VENV)
	@echo "Installing Tocsin into $(VENV); this takes about half a minute, once ..."
	@$(LOCKED) -r requirements-build.lock
	@$(LOCKED) -r requirements.lock
	@$(PIP) --no-deps --no-build-isolation -e .
	@touch $@

$(VENV)/dev.stamp: $(VENV)/run.stamp requirements-dev.lock
	@echo "Installing the packages for the tests ..."
	@$(LOCKED) -r requirements-dev.lock
	@touch $@

PIP = $(BIN)/python -m pip install --quiet --quiet --disable-pip-version-check
# Nothing that the lock does not pin is installed or runs: a package without a wheel is built with our setuptools, not
# with the newest one. The locks are complete, and leave out what a package requires without need (pyproject.toml).
LOCKED = $(PIP) --no-deps --require-hashes --no-build-isolation --use-pep517

clean:
	rm -rf $(VENV) *.egg-info build
