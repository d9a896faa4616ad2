# A newcomer needs only `make demo` and `make test`; both install first.
PYTHON ?= python3
VENV := .venv
UV := 0.13.8
export UV_PROJECT_ENVIRONMENT := $(VENV)
# Extra packages for a GPU: `make EXTRA=cuda12`, see setup.md.
EXTRA ?=
# Some machines disable bytecode files. Each process then takes three times as long to
# start.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: install demo test slow all-tests slurm lint types contract check bench \
	notebooks docs docs-serve wheel demo_copy demo_concat figs eval_order eval_noise clean
.DEFAULT_GOAL := install

# One stamp for each extra, so that a new extra triggers an install.
STAMP := $(VENV)/.installed$(EXTRA:%=-%)

install: $(STAMP)

# uv.lock pins all versions; pip installs only uv itself.
$(STAMP): pyproject.toml uv.lock Makefile
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "icl-opto needs Python 3.11 or newer: make PYTHON=python3.12" >&2; exit 2; }
	$(PYTHON) -m venv $(VENV)
	$(VENV)/bin/python -m pip install --quiet uv==$(UV)
	$(VENV)/bin/uv sync --quiet --frozen --inexact $(if $(EXTRA),--extra $(EXTRA))
	@touch $@

demo: install
	$(VENV)/bin/icl demo --out runs/demo

# The longest files come first (tests/conftest.py). One worker runs a whole file, and
# trains the runs that its tests share. Slow tests share their runs among all workers, so
# any free worker takes the next test.
PYTEST := $(VENV)/bin/python -m pytest -n auto --ignore tests/slurm
BY_FILE := --dist loadfile --no-loadscope-reorder
# No test names a group, so each test is its own group, and workers get them in turn.
ONE_BY_ONE := --dist loadgroup --no-loadscope-reorder
# These tests (parity with public code, bitwise equal runs, the papers' numbers) compile
# programs as users do. All other tests compile fast, to slower code.
AS_USERS := tests/test_runs.py tests/test_compat.py tests/test_parity.py \
	tests/test_toys.py tests/test_science.py tests/test_readme.py

# In the second command, every process compiles for itself.
test: install
	tests/quickly $(PYTEST) $(BY_FILE) -m "not slow" $(AS_USERS:%=--ignore %)
	env -u JAX_COMPILATION_CACHE_DIR $(PYTEST) $(BY_FILE) -m "not slow" $(AS_USERS)

# Each study at smoke scale, then science tests: an induction head forms and acts as one.
slow: install
	tests/quickly $(PYTEST) $(ONE_BY_ONE) -m slow $(AS_USERS:%=--ignore %)
	tests/cached $(PYTEST) $(ONE_BY_ONE) -m slow $(AS_USERS)

# All tests, compiled as users do; each program compiles once.
all-tests: install
	tests/cached $(PYTEST) $(BY_FILE)
	$(MAKE) slurm

# Sweeps on a Slurm cluster of one node. Only root can install it (Debian packages).
# These jobs train for so long that well compiled programs save time.
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

# Executes the notebooks with the studies in runs/.
notebooks: install
	$(VENV)/bin/python notebooks/_build.py

# The site in site/, strict: a warning is an error. Its packages are a group of their own.
DOCS := $(VENV)/.installed-docs
MKDOCS := NO_MKDOCS_2_WARNING=1 $(VENV)/bin/python -m mkdocs

$(DOCS): $(STAMP)
	$(VENV)/bin/uv sync --quiet --frozen --inexact --group docs
	@touch $@

docs: $(DOCS)
	$(MKDOCS) build --quiet

docs-serve: $(DOCS)
	$(MKDOCS) serve

# Builds the wheel, and uses it in an empty environment outside of the repository.
wheel: install
	tests/wheel

# In-context learning as gradient descent: few runs, to a figure. Seed 10 of linear
# self-attention stays in the second basin, and 11 does not. It takes a minute.
demo_concat: install
	$(VENV)/bin/icl figure gd/ood_curve --seeds 11

demo_copy: install
	$(VENV)/bin/icl figure gd/order_sensitivity --seeds 10

# All figures of gradient descent, and the tables of two of its studies.
GD := alignment_metrics second_basin ood_curve order_sensitivity noise_robustness \
	attention_separation compare_gd_vs_transformer
figs: install
	for name in $(GD); do $(VENV)/bin/icl figure gd/$$name; done

GD_TABLE = $(VENV)/bin/python -m sweeps.studies.gradient_descent.tables
eval_order: install
	$(VENV)/bin/python -m sweeps order --scale small --out runs/order
	$(GD_TABLE) runs/order results_order.csv

eval_noise: install
	$(VENV)/bin/python -m sweeps noise --scale small --out runs/noise
	$(GD_TABLE) runs/noise results_noise.csv

clean:
	rm -rf $(VENV) runs/demo site
