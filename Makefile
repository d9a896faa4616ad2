# `make demo` and `make test` are all a newcomer needs; both install first.
PYTHON ?= python3
VENV := .venv
UV := 0.13.8
export UV_PROJECT_ENVIRONMENT := $(VENV)
# Extra packages for a GPU: `make EXTRA=cuda12`, see setup.md.
EXTRA ?=
# A machine may say not to keep bytecode: then each process takes three times as long to
# start.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: install demo test slow all-tests slurm lint types contract check bench \
	notebooks clean
.DEFAULT_GOAL := install

# A stamp for each extra: with another one there is something to install.
STAMP := $(VENV)/.installed$(EXTRA:%=-%)

install: $(STAMP)

# Exact versions come from uv.lock; uv itself is the only thing that pip picks.
$(STAMP): pyproject.toml uv.lock Makefile
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "icl-opto needs Python 3.11 or newer: make PYTHON=python3.12" >&2; exit 2; }
	$(PYTHON) -m venv $(VENV)
	$(VENV)/bin/python -m pip install --quiet uv==$(UV)
	$(VENV)/bin/uv sync --quiet --frozen --inexact $(if $(EXTRA),--extra $(EXTRA))
	@touch $@

demo: install
	$(VENV)/bin/icl demo --out runs/demo

# The longest files come first (tests/conftest.py). A file of tests is one worker's, which
# trains what they share; slow tests share among all workers, so that a worker which is
# free takes the next one.
PYTEST := $(VENV)/bin/python -m pytest -n auto --ignore tests/slurm
BY_FILE := --dist loadfile --no-loadscope-reorder
# There are no groups: each test is one, and they are dealt in turns.
ONE_BY_ONE := --dist loadgroup --no-loadscope-reorder
# Parity with public code, runs to the bit and the papers' numbers are tested as users
# compile them. All else compiles quickly, not well.
AS_USERS := tests/test_runs.py tests/test_compat.py tests/test_parity.py \
	tests/test_toys.py tests/test_science.py

# The second half compiles anew in every process.
test: install
	tests/quickly $(PYTEST) $(BY_FILE) -m "not slow" $(AS_USERS:%=--ignore %)
	env -u JAX_COMPILATION_CACHE_DIR $(PYTEST) $(BY_FILE) -m "not slow" $(AS_USERS)

# Each study at smoke scale; then science: an induction head forms, and is one.
slow: install
	tests/quickly $(PYTEST) $(ONE_BY_ONE) -m slow $(AS_USERS:%=--ignore %)
	tests/cached $(PYTEST) $(ONE_BY_ONE) -m slow $(AS_USERS)

# Everything as users compile it, each program once.
all-tests: install
	tests/cached $(PYTEST) $(BY_FILE)
	$(MAKE) slurm

# Sweeps on a Slurm cluster of one node, of Debian's packages, which only root installs.
# The jobs train for long enough that programs compiled well are worth their time.
slurm: install
	-tests/slurm/install
	tests/cached $(VENV)/bin/python -m pytest tests/slurm -rs

lint: install
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .

types: install
	$(VENV)/bin/pyright

contract: install
	$(VENV)/bin/lint-imports

check: lint types contract test

bench: install
	$(VENV)/bin/python benchmarks/train_step.py
	$(VENV)/bin/python benchmarks/replay.py

# Executes the notebooks on the studies in runs/.
notebooks: install
	$(VENV)/bin/python notebooks/_build.py

clean:
	rm -rf $(VENV) runs/demo
