# Every target sets up what it needs; `make help` lists them.
PY := .venv/bin/python
READY := .venv/.ready
SOURCES := src box tests examples

.DEFAULT_GOAL := help
.PHONY: help setup demo lab lab-vllm test test-real test-sim test-planted test-mutants test-thorough sim check bench fmt docs screenshots

help:  ## this list
	@sed -n 's/^\([a-z-]*\):.*##  *\(.*\)/\1\t\2/p' $(MAKEFILE_LIST) | expand -t 16

setup: $(READY)  ## make .venv with the command llmao in it

$(READY): pyproject.toml
	@echo "Setting up .venv, with what the tests need: about two minutes, once."
	@if command -v uv >/dev/null; then \
	  uv venv -q --allow-existing --python '>=3.11' .venv && uv pip install -q --python $(PY) -e '.[test]'; \
	else \
	  python3 -m venv .venv && $(PY) -m pip install -q --disable-pip-version-check -e '.[test]'; \
	fi
	@touch $(READY)

demo: $(READY)  ## llmao in front of a simulated fleet, on a loopback port
	.venv/bin/llmao demo

lab: $(READY)  ## a real LiteLLM on PostgreSQL, on loopback, until Ctrl-C (installs both)
	$(PY) -m tests.real.lab up --vllms 0

lab-vllm: $(READY)  ## a real vLLM with a tiny model and the bearer in VLLM_API_KEY, until Ctrl-C
	$(PY) -m tests.real.lab vllm

test: $(READY) check  ## the checks and the light tests
	$(PY) -m pytest -n auto --dist loadfile -m 'not real and not sim and not thorough'

test-real: $(READY)  ## the tests against a real LiteLLM and a real vLLM (installs them)
	$(PY) -m pytest -m real tests/real --ignore tests/real/test_kill9.py
	$(PY) -m pytest -m real -n 2 tests/real/test_kill9.py

test-sim: $(READY)  ## simulated worlds, the three Sieve families, planted bugs, the demo
	$(PY) -m pytest -m sim -n 2 --dist loadfile tests/sim/test_demo_story.py tests/sim/test_planted.py
	$(PY) -m pytest -m sim tests/sim --ignore tests/sim/test_demo_story.py --ignore tests/sim/test_planted.py

test-planted: $(READY)  ## planted bugs, one at a time in a copy: which test finds each
	$(PY) -m tests.planted

test-mutants: $(READY)  ## mutants of the deciding part of core, against its tests
	.venv/bin/mutmut run --max-children 1
	.venv/bin/mutmut results

sim: $(READY)  ## a long soak: 1000 simulated worlds of two hours
	.venv/bin/llmao sim --seeds 1000 --hours 2

test-thorough: $(READY)  ## the property tests with many examples
	HYPOTHESIS_PROFILE=thorough $(PY) -m pytest -m 'not real' tests/core

check: $(READY)  ## style, types, import contracts, duplicates, generated documents
	.venv/bin/ruff check $(SOURCES)
	.venv/bin/ruff format --check $(SOURCES)
	.venv/bin/mypy src tests examples
	.venv/bin/lint-imports --no-cache
	.venv/bin/pylint --recursive=y src box examples
	$(PY) -m llmao_core.testing.render --check

bench: $(READY)  ## every benchmark; the figures go into docs/performance.md by hand
	for bench in tests/bench/bench_*.py; do $(PY) -m tests.bench.$$(basename $$bench .py) || exit 1; done

screenshots: $(READY)  ## take the pictures of the documents anew (needs Chromium)
	$(PY) -m tests.web.screenshots

docs: $(READY)  ## render the generated documents anew
	$(PY) -m llmao_core.testing.render --write
	$(PY) -m llmao_core.testing.kit_docs --write

fmt: $(READY)  ## format, and fix what can be fixed
	.venv/bin/ruff check --fix $(SOURCES)
	.venv/bin/ruff format $(SOURCES)
