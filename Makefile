# Two words do all the set-up: `make demo`, `make test`. Both make their environment first (.venv, in this folder).
.PHONY: help demo setup check test test-fast test-all coverage soak docs peers clean wheel bench-gpu bench-ray
PY := .venv/bin/python
RUN := .venv/bin/
# The tests start hundreds of processes; without bytecode each would compile demur anew.
unexport PYTHONDONTWRITEBYTECODE
QUICK := not soak and not slow and not reference

help: ## what there is
	@grep -hE '^[a-z%-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 18

demo: ## the whole job on the built-in sample, in under two minutes
	@tools/setup.sh demo
	$(RUN)demur demo --out demo-out

setup: ## the environment for working on demur
	@tools/setup.sh test

check: setup ## format, lint, types, floors
	$(RUN)ruff format --check .
	$(RUN)ruff check .
	$(RUN)mypy
	$(RUN)lint-imports

test: setup ## what every push runs: core, and one integration test of every mechanism
	$(RUN)pytest -n auto --dist loadfile --no-loadscope-reorder -m "$(QUICK)" --durations=15

soak: setup ## the fuzzers and growth tests in their long form; DEMUR_SOAK_S seconds for each door (30)
	$(RUN)pytest -n auto -q -m soak

test-all: setup ## the rest: reference grids, long walks, property tests with all their examples, two seconds at each door of the fuzzers
	DEMUR_LONG=1 $(RUN)pytest -n auto --dist loadfile --no-loadscope-reorder -m "(slow or reference or hypothesis) and not soak" --durations=40
	DEMUR_SOAK_S=$${DEMUR_SOAK_S:-2} $(RUN)pytest -n auto -q -m soak tests/fuzz/test_doors.py

test-fast: setup ## the core tier alone, on all cores
	$(RUN)pytest -n auto --dist loadfile -m "$(QUICK) and not integration and not heavy"

coverage: setup ## every test but the fuzzers' long form, with the coverage of each file
	DEMUR_LONG=1 $(RUN)pytest -n auto --dist loadfile --no-loadscope-reorder -m "not soak" --cov --cov-report=term:skip-covered

docs: setup ## write the site's reference pages (help of every verb, the library) to build/docs
	$(PY) tools/make_docs.py

peers: setup
	@tools/setup.sh bench

bench-gpu: ## exact search and an encoder on a GPU; skipped without one
	@if command -v nvidia-smi >/dev/null; then tools/setup.sh gpu && .venv-gpu/bin/python benchmarks/gpu.py; \
	else echo 'skipped: this machine has no NVIDIA driver (nvidia-smi)'; fi

bench-ray: peers  # a script named ray.py would stand before the package
	$(PY) benchmarks/on_ray.py

bench-%: peers ## make bench-NAME installs the peers and runs benchmarks/NAME.py
	$(PY) benchmarks/$*.py

wheel: ## build the wheel into dist/ (with the pip or uv that is there)
	uv build --quiet --wheel 2>/dev/null || $(or $(PYTHON),python3) -m pip wheel --quiet --no-deps -w dist .

clean: ## remove what the targets made (the environment stays)
	rm -rf demo-out dist build .coverage .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
