SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DELETE_ON_ERROR:

PYTHON ?= python3
# Another wheel index for torch, such as PyTorch's own CPU index; empty takes pip's default.
TORCH_INDEX ?=
VENV := .venv
PY := $(VENV)/bin/python
STAMP := $(VENV)/.stamp
OLD := .cache/trl-1.9.0
OLD_PACKAGES = $$($(OLD)/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
PIP_INSTALL := $(PY) -m pip install -qq --retries 5 -c constraints.txt
export PIP_DISABLE_PIP_VERSION_CHECK := 1

.PHONY: run test check bench publish clean

run: $(STAMP)
	$(VENV)/bin/lossgate run trl --all --jobs 2

test: $(STAMP) $(OLD)/.stamp
	$(PY) -m pytest -q -n 2 --dist loadfile

check: $(STAMP)
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .
	$(PY) -m mypy
	$(VENV)/bin/lint-imports --no-logo
	$(PY) -m pip check

bench: $(STAMP)
	$(PY) -m benchmarks.oracle_speed

publish: $(STAMP)
	mkdir -p reports/published
	$(VENV)/bin/lossgate run trl --jobs 2 --quiet --format markdown > reports/published/trl.md

# torch first: whatever asks for it later is then satisfied by the pinned build.
$(STAMP): pyproject.toml constraints.txt Makefile
	@echo "installing into $(VENV), about 1.6 GB: this takes a minute or two"
	test -x $(PY) || $(PYTHON) -m venv $(VENV)
	$(PIP_INSTALL) $(if $(TORCH_INDEX),--index-url $(TORCH_INDEX)) torch==2.13.0
	$(PIP_INSTALL) -e '.[trl,dev]'
	touch $@

# A release with public faults, in an environment of its own laid over this one, for the tests to find them in.
$(OLD)/.stamp: $(STAMP) constraints.txt
	rm -rf $(OLD)
	$(PY) -m venv --without-pip $(OLD)
	$(PY) -m pip install -qq --retries 5 --no-deps --target $(OLD_PACKAGES) trl==1.9.0 \
		requests==2.34.2 urllib3==2.8.0 certifi==2026.10.19.post1 charset-normalizer==3.5.3
	$(PY) -c 'import sysconfig; print(sysconfig.get_path("purelib"))' > $(OLD_PACKAGES)/main-environment.pth
	touch $@

clean:
	rm -rf $(VENV) $(OLD) build dist *.egg-info
