SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DELETE_ON_ERROR:

PYTHON ?= python3
# Another wheel index for torch, such as PyTorch's own CPU index; empty takes pip's default.
TORCH_INDEX ?=
VENV := .venv
PY := $(VENV)/bin/python
STAMP := $(VENV)/.stamp
PIP_INSTALL := $(PY) -m pip install -qq --retries 5 -c constraints.txt
export PIP_DISABLE_PIP_VERSION_CHECK := 1

.PHONY: run test check bench publish clean

run: $(STAMP)
	$(VENV)/bin/lossgate run trl --all --jobs 2

test: $(STAMP)
	$(PY) -m pytest -q -n 2 --dist loadfile

check: $(STAMP)
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .
	$(PY) -m mypy
	$(VENV)/bin/lint-imports --no-logo
	$(PY) -m pip check

bench: $(STAMP)
	$(PY) -m pytest -q benchmarks --benchmark-only --benchmark-columns=median,iqr,rounds

publish: $(STAMP)
	$(PY) -m benchmarks.publish

# torch first: whatever asks for it later is then satisfied by the pinned build.
$(STAMP): pyproject.toml constraints.txt Makefile
	@echo "installing into $(VENV), about 1.6 GB: this takes a minute or two"
	test -x $(PY) || $(PYTHON) -m venv $(VENV)
	$(PIP_INSTALL) $(if $(TORCH_INDEX),--index-url $(TORCH_INDEX)) torch==2.13.0
	$(PIP_INSTALL) -e '.[trl,dev]'
	touch $@

clean:
	rm -rf $(VENV) build dist *.egg-info
