# `make demo` and `make test` are all a newcomer needs; both install first.
PYTHON ?= python3
VENV := .venv
UV := 0.13.8
export UV_PROJECT_ENVIRONMENT := $(VENV)
# Extra packages for a GPU: `make EXTRA=cuda12`, see setup.md.
EXTRA ?=

.PHONY: install demo test slow slurm lint types contract check bench notebooks clean
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

test: install
	$(VENV)/bin/python -m pytest -n auto --dist loadgroup -m "not slow" --ignore tests/slurm

# Science: an induction head forms, and is one. Each study at smoke scale.
slow: install
	$(VENV)/bin/python -m pytest -m slow --ignore tests/slurm

# Sweeps on a Slurm cluster of one node, of Debian's packages, which only root installs.
slurm: install
	-tests/slurm/install
	$(VENV)/bin/python -m pytest tests/slurm -rs

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
