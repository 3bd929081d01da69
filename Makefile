SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DELETE_ON_ERROR:

PYTHON ?= python3
# Another wheel index for torch, such as PyTorch's own CPU index; empty takes pip's default.
TORCH_INDEX ?=
VENV := .venv
PY := $(VENV)/bin/python
STAMP := $(VENV)/.stamp
# Releases that the tests judge, fetched as a user's are; tests/conftest.py says into which cache.
RELEASES := $(addprefix trl==,0.14.0 0.16.1 0.17.0 0.18.2 0.20.0 0.22.2 0.26.2 1.9.0 1.9.2 1.14.2) \
	liger==0.8.0 liger==0.8.5 verl==0.6.0 verl==0.9.1 openrlhf==0.10.2 openrlhf==0.11.2 \
	unsloth==2026.8.13 unsloth==2026.10.9
CACHE := .cache/lossgate
PUBLISHED := reports/published
PAGE := $(PY) -m benchmarks.published
PIP_INSTALL := $(PY) -m pip install -qq --retries 5 -c constraints.txt
export PIP_DISABLE_PIP_VERSION_CHECK := 1

.PHONY: run test check bench publish clean

run: $(STAMP)
	$(VENV)/bin/lossgate run trl --all

test: $(STAMP) $(CACHE)/.stamp
	$(PY) -m pytest -q -n 2 --dist loadfile

check: $(STAMP)
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .
	$(PY) -m mypy
	$(VENV)/bin/lint-imports --no-logo
	$(PY) -m pip check

bench: $(STAMP)
	$(PY) -m benchmarks.speed

# Releases come from the user's own cache: tests count those in the other.
publish: $(STAMP)
	$(PAGE) library trl > $(PUBLISHED)/trl.md
	$(PAGE) library liger==0.8.5 > $(PUBLISHED)/liger.md
	$(PAGE) library verl==0.9.1 > $(PUBLISHED)/verl.md
	$(PAGE) library openrlhf==0.11.2 > $(PUBLISHED)/openrlhf.md
	$(PAGE) library unsloth==2026.10.9 > $(PUBLISHED)/unsloth.md
	$(PAGE) matrix trl 0.17.0..1.16.0 > $(PUBLISHED)/trl-releases.md
	$(PAGE) compare trl==1.9.0 trl==1.16.0 > $(PUBLISHED)/trl-1.9.0-to-1.16.0.md
	$(PAGE) faults > $(PUBLISHED)/faults.md
	$(PAGE) speed > $(PUBLISHED)/speed.md
	$(PAGE) index > $(PUBLISHED)/README.md

# torch first: whatever asks for it later is then satisfied by the pinned build.
$(STAMP): pyproject.toml constraints.txt Makefile
	@echo "installing into $(VENV), about 1.6 GB: this takes a minute or two"
	test -x $(PY) || $(PYTHON) -m venv $(VENV)
	$(PIP_INSTALL) $(if $(TORCH_INDEX),--index-url $(TORCH_INDEX)) torch==2.13.0
	$(PIP_INSTALL) -e '.[trl,dev]'
	touch $@

$(CACHE)/.stamp: $(STAMP) harness/releases/libraries.py
	LOSSGATE_CACHE=$(CACHE) $(VENV)/bin/lossgate fetch $(RELEASES) > $(VENV)/fetched
	touch $@

clean:
	rm -rf $(VENV) .cache build dist *.egg-info
