# The commands of a developer, one short target each; `make` lists them.
#
# The environment needs Python 3.11+ as python3, and is updated when a lock file changes. If another Python of the machine is
# clearly faster, the environment uses that one; `make PYTHON=...` chooses. `run`, `demo` and `bench` install the runtime
# packages only; `test` and `lint` add the development tools to the same .venv.
SHELL := /bin/bash
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

PYTHON ?= python3
VENV := .venv
VENV_LOAD := .venv-load
BIN := $(VENV)/bin
PIP_INSTALL = install --quiet --disable-pip-version-check --no-input

# For environments with their own pip, and for those without: these use the pip of $(PYTHON).
define pip_into
if [ -x $(1)/bin/pip ]; then $(1)/bin/python -m pip $(PIP_INSTALL) $(2); \
else $(PYTHON) -m pip --python $(1)/bin/python $(PIP_INSTALL) $(2); fi
endef
pip = $(call pip_into,$(VENV),$(1))

CHAOS_MINUTES ?= 20

LOCK = $(BIN)/uv pip compile pyproject.toml --universal --python-version 3.11 --generate-hashes \
	--no-emit-index-url --no-emit-find-links --custom-compile-command "make lock" --quiet $(UPGRADE)

.PHONY: help run demo test coverage lint format bench load chaos diagrams dashboards codecs wheels lock clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Python 3.11 or newer is needed: make PYTHON=/path/to/python3.11"; exit 1; }
	@chosen="$(if $(filter undefined file,$(origin PYTHON)),$$($(PYTHON) ops/packaging/fastest_python.py || echo $(PYTHON)),$(PYTHON))"; \
	"$$chosen" -m venv $(VENV) >/dev/null 2>&1 || { rm -rf $(VENV); "$$chosen" -m venv --without-pip $(VENV); }
	@[ -x $(BIN)/pip ] || $(PYTHON) -m pip --version >/dev/null 2>&1 || { rm -rf $(VENV); echo "pip is needed: install python3-venv or python3-pip"; exit 1; }

$(VENV)/.runtime: requirements.lock pyproject.toml api/client/stanchion/version.py | $(BIN)/python
	@echo "Installing the pinned runtime packages into $(VENV) (the first time takes a minute or two) ..."
	@$(call pip,--require-hashes -r requirements.lock)
	@$(call pip,--no-deps --no-build-isolation --editable .)
	@$(BIN)/python -m compileall -q engine actors api ops
	@touch $@

$(VENV)/.dev: requirements-dev.lock $(VENV)/.runtime
	@echo "Installing the pinned development packages into $(VENV) ..."
	@$(call pip,--require-hashes -r requirements-dev.lock)
	@touch $@

run: $(VENV)/.runtime ## start everything: API :8000, vision host :8001, ISO 8583 :8583, metrics :9464 (Ctrl-C stops)
	@exec $(BIN)/stanchion up

demo: $(VENV)/.runtime ## walk through the life of a card with a live commentary; KEEP=1: a day of traffic in an installation that keeps running
	@exec $(BIN)/stanchion demo $(if $(KEEP),--keep)

# Three workers, each with its own servers: many tests wait for processes, so two would leave two cores idle. The tests of
# a file share servers, so they stay on one worker; one worker runs all tests of the installation (tests/order.py).
test: $(VENV)/.dev ## run all tests, import contracts included
	@$(BIN)/python -m pytest -q -n 3 --dist loadfile

coverage: $(VENV)/.dev ## the engine's tests with branch coverage; fails below 98 %
	@$(BIN)/python -m coverage erase
	@$(BIN)/python -m coverage run -m pytest -q -n 2 --dist loadfile tests/engine
	@$(BIN)/python -m coverage combine --quiet
	@$(BIN)/python -m coverage report

lint: $(VENV)/.dev ## style, spelling, types and import directions
	@$(BIN)/ruff check .
	@$(BIN)/typos
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports

format: $(VENV)/.dev ## rewrite the sources in the project's style
	@$(BIN)/ruff check --fix --quiet . || true
	@$(BIN)/ruff format .

bench: $(VENV)/.runtime ## measure decisions per second and CPU per decision, beside three other designs (about ten minutes)
	@exec $(BIN)/python -m loadtests.bench

$(VENV_LOAD)/.load: requirements-load.lock
	@echo "Installing the pinned packages of the load generator into $(VENV_LOAD) ..."
	@$(PYTHON) -m venv $(VENV_LOAD) >/dev/null 2>&1 || { rm -rf $(VENV_LOAD); $(PYTHON) -m venv --without-pip $(VENV_LOAD); }
	@$(call pip_into,$(VENV_LOAD),--require-hashes -r requirements-load.lock)
	@touch $@

load: $(VENV)/.runtime $(VENV_LOAD)/.load ## load a separate installation with Locust (LOAD="--shape step --seconds 60", ...)
	@exec $(BIN)/python -m loadtests.load $(LOAD)

chaos: $(VENV)/.dev ## inject real faults into an installation for CHAOS_MINUTES (20), and report which promises held
	@exec $(BIN)/python -m ops.chaos --minutes $(CHAOS_MINUTES)

diagrams: $(VENV)/.runtime ## write the page with the states of an authorization from their table
	@$(BIN)/python -m ops.state_diagrams

$(VENV)/.dashboards: requirements-dashboards.lock $(VENV)/.runtime
	@$(call pip,--require-hashes -r requirements-dashboards.lock)
	@touch $@

dashboards: $(VENV)/.dashboards ## write Grafana's dashboards, and start Prometheus and Grafana for the running installation
	@$(BIN)/python -m ops.grafana
	@exec $(BIN)/python -m ops.dashboards $(DASHBOARDS)

codecs: $(VENV)/.dev ## record what an ISO 8583 implementation from npm encodes, for the tests (needs Node.js and npm)
	@mkdir -p $(VENV)/npm
	@cp tests/support/conformance/npm/package*.json $(VENV)/npm
	@npm ci --silent --no-fund --no-audit --prefix $(VENV)/npm
	@NODE_PATH=$(VENV)/npm/node_modules $(BIN)/python -m tests.support.conformance.npm.record

wheels: $(VENV)/.runtime ## build the packages stanchion and stanchion-client into dist/
	@rm -rf dist
	@$(BIN)/hatchling build --target wheel --directory dist
	@cd api/client && $(abspath $(BIN))/hatchling build --target wheel --directory $(CURDIR)/dist

lock: $(VENV)/.dev ## renew the lock files from pyproject.toml (UPGRADE=--upgrade takes newer versions)
	@$(LOCK) --group build --output-file requirements.lock
	@$(LOCK) --group build --extra otel --constraints requirements.lock --output-file requirements-otel.lock
	@$(LOCK) --group build --group dev --extra otel --constraints requirements.lock --output-file requirements-dev.lock
	@$(subst pyproject.toml,,$(LOCK)) --group load --constraints requirements.lock --output-file requirements-load.lock
	@$(subst pyproject.toml,,$(LOCK)) --group dashboards --constraints requirements.lock --output-file requirements-dashboards.lock
	@if grep -nE 'https?:|file:' requirements*.lock; then echo "a lock file contains an address"; exit 1; fi

clean: ## remove the environment, caches and the state in var/
	@rm -rf $(VENV) $(VENV_LOAD) var dist .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis .coverage*
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +
