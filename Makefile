# Everything that a person types. `make help` lists it.
SHELL := /bin/sh
.DEFAULT_GOAL := help

VENV := .venv
BIN := $(VENV)/bin
NAME ?= limits
JOBS ?= auto
# The published clients that the tests run as processes of their own.
SMCP := 0.4.2 0.3.3 0.2.2 0.1.2
# A Python of at least 3.11; `make PYTHON=… run` picks another. That of the system comes first: distributions build theirs with
# profiles of real programs, which makes everything here a tenth faster than one that was compiled without. One that can
# make virtual environments is taken before one that would have to be completed first.
PYTHON ?= $(shell for needs in "venv, ensurepip" sys; do \
	for p in /usr/bin/python3 python3 python3.14 python3.13 python3.12 python3.11; do \
	$$p -c "import sys, $$needs; sys.exit(sys.version_info < (3, 11))" 2>/dev/null && { echo $$p; exit; }; done; done)
PIP_INSTALL := $(BIN)/python -m pip --disable-pip-version-check install --quiet --require-hashes

.PHONY: help
help: ## list these targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  make %-8s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

$(BIN)/python:
	@test -n "$(PYTHON)" || { echo "Palaver needs Python 3.11 or newer; install it (Debian, Ubuntu: apt-get install python3 python3-venv) and run make again." >&2; exit 1; }
	@PYTHON="$(PYTHON)" sh requirements/make-venv.sh $(VENV)

$(VENV)/.run: requirements/palaver.txt pyproject.toml | $(BIN)/python
	@echo "Installing Palaver into $(VENV) …"
	@$(PIP_INSTALL) -r requirements/build.txt
	@$(PIP_INSTALL) -r requirements/palaver.txt
	@$(BIN)/python -m pip --disable-pip-version-check install --quiet --no-deps --no-build-isolation --editable .
	@touch $@

$(VENV)/.development: requirements/development.txt $(VENV)/.run
	@echo "Installing what the tests need into $(VENV) …"
	@$(PIP_INSTALL) -r requirements/development.txt
	@touch $@

$(VENV)-synapse/.installed: requirements/synapse.txt | $(BIN)/python
	@echo "Installing Synapse, a peer for the tests, into $(VENV)-synapse …"
	@PYTHON="$(PYTHON)" sh requirements/make-venv.sh $(VENV)-synapse
	@$(VENV)-synapse/bin/python -m pip --disable-pip-version-check install --quiet --require-hashes -r requirements/synapse.txt
	@touch $@

$(VENV)-smcp-%/.installed: requirements/smcp-%.txt | $(BIN)/python
	@echo "Installing a2c-smcp $*, a peer for the tests, into $(VENV)-smcp-$* …"
	@PYTHON="$(PYTHON)" sh requirements/make-venv.sh $(VENV)-smcp-$*
	@$(VENV)-smcp-$*/bin/python -m pip --disable-pip-version-check install --quiet --require-hashes -r $<
	@touch $@

# A Redis for the tests, of the system's packages.
.PHONY: redis
redis:
	@sh requirements/make-redis.sh

PEERS := redis $(VENV)-synapse/.installed $(SMCP:%=$(VENV)-smcp-%/.installed)

.PHONY: run
run: $(VENV)/.run ## install into .venv and start a node on port 7676
	@exec $(BIN)/palaver run

# Where the programs of a user are.
HOME_BIN := $(HOME)/.local/bin

.PHONY: install-cli
install-cli: $(VENV)/.run ## put palaver on your path, with a link in ~/.local/bin
	@test ! -e "$(HOME_BIN)/palaver" -o -L "$(HOME_BIN)/palaver" || { echo "$(HOME_BIN)/palaver is there already and is no link; remove it first." >&2; exit 1; }
	@mkdir -p "$(HOME_BIN)" && ln -sfn "$(CURDIR)/$(BIN)/palaver" "$(HOME_BIN)/palaver"
	@echo "palaver is in $(HOME_BIN)."
	@case ":$$PATH:" in *":$(HOME_BIN):"*) ;; *) echo "That directory is not on your path yet: export PATH=\"$(HOME_BIN):\$$PATH\"" ;; esac

.PHONY: install
install: $(VENV)/.development $(PEERS) ## install everything, start nothing

.PHONY: test
test: $(VENV)/.development $(PEERS) ## install what the tests need and run all of them
	@$(BIN)/pytest -n $(JOBS) --dist loadgroup

.PHONY: interop
interop: $(VENV)/.development $(PEERS) ## run the tests that talk with real peers
	@$(BIN)/pytest tests/interop -n $(JOBS) --dist loadgroup $(ARGS)

.PHONY: check
check: $(VENV)/.development ## formatting, lint, types, then the tests
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .
	@$(BIN)/mypy
	@$(MAKE) --no-print-directory test

.PHONY: docs
docs: $(VENV)/.run ## write the generated pages of docs/reference and config.example.toml
	@$(BIN)/palaver config example > config.example.toml
	@$(BIN)/python -m bridge.cli.reference docs/reference

.PHONY: fmt
fmt: $(VENV)/.development ## put the source in its form
	@$(BIN)/ruff format .
	@$(BIN)/ruff check --fix .

# Whom a benchmark compares us with.
BENCH_PEERS_appservice := $(VENV)-synapse/.installed
BENCH_PEERS_federation := $(VENV)-synapse/.installed
BENCH_PEERS_offices := $(VENV)-smcp-0.4.2/.installed

.PHONY: bench
bench: $(VENV)/.development $(BENCH_PEERS_$(NAME)) ## run one benchmark: make bench NAME=limits
	@test -f bench/$(NAME).py || { echo "There is no benchmark called $(NAME). There are: $$(cd bench && ls *.py | sed -n 's/\.py$$//p' | grep -v '^_' | tr '\n' ' ')" >&2; exit 1; }
	@$(BIN)/python -m bench.$(NAME) $(ARGS)

.PHONY: demo
demo: $(VENV)/.run ## start two nodes with agents, run a task across, and stay to be looked at
	@PALAVER="$(CURDIR)/$(BIN)/palaver" $(BIN)/python examples/demo.py

.PHONY: lock
lock: $(VENV)/.development ## pin the dependencies again, with their hashes
	@sh requirements/lock.sh
