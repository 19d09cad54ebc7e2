# Every target makes the environment that it needs, from nothing but Python >= 3.10, a C++20 compiler, make and
# a package index. `make help` lists the targets.

SHELL := /bin/bash
ROOT := $(CURDIR)
PYTHON ?= $(shell tools/find_python.sh)
VENV ?= .venv
BIN = $(VENV)/bin
TESTS ?= tests
ARGS ?=
STRICT = -X dev -W error

export PIP_DISABLE_PIP_VERSION_CHECK = 1

.PHONY: help build test contract demo lint format bench bench-peers asan debug nomem test-all clean
.DEFAULT_GOAL := help

help:
	@sed -n 's/^## //p' Makefile

# One environment a stamp: pip runs again only when the requirements change.
$(VENV)/.test: pyproject.toml tools/requirements.py
	tools/make_venv.sh $(VENV) "$(PYTHON)" test
	@touch $@

$(VENV)/.examples: $(VENV)/.test
	tools/make_venv.sh $(VENV) "$(PYTHON)" test examples
	@touch $@

$(VENV)/.lint: $(VENV)/.test
	tools/make_venv.sh $(VENV) "$(PYTHON)" test lint
	@touch $@

## make build     the extension, in place; compiles only what changed
build: $(VENV)/.test
	$(BIN)/python setup.py -q build_ext --inplace

## make test      the whole suite, leak harness on, warnings as errors   (TESTS=path, ARGS="-k name")
test: build
	PYTHONPATH=$(ROOT) $(BIN)/python $(STRICT) $(BIN)/pytest $(TESTS) $(ARGS)

## make demo      trains a word language model on Python's own manual and writes a sample
demo: $(VENV)/.examples build
	PYTHONPATH=$(ROOT) $(BIN)/python examples/word_language_model/main.py $(ARGS)

$(VENV)-cupy/.contract: pyproject.toml tools/requirements.py
	tools/make_venv.sh $(VENV)-cupy "$(PYTHON)" test cuda13
	$(VENV)-cupy/bin/python -m pip install -q "nvidia-cuda-nvrtc==13.*"  # compiles the kernels without a device
	@touch $@

## make contract  what the package uses of CuPy held against the real one, which needs no device
contract: build $(VENV)-cupy/.contract
	PYTHONPATH=$(ROOT) $(VENV)-cupy/bin/python -m pytest tests/cuda_standin/test_contract.py $(ARGS)

## make lint      clang-format, ruff, mypy and the C-API linter
lint: $(VENV)/.lint build
	$(BIN)/clang-format --dry-run -Werror $$(tools/cxx_files.sh)
	$(BIN)/ruff check .
	$(BIN)/mypy torchlite
	$(BIN)/python tools/capi_lint.py

## make format    rewrites csrc/ as clang-format wants it
format: $(VENV)/.lint
	$(BIN)/clang-format -i $$(tools/cxx_files.sh)

## make bench     torchlite beside the peers that are installed, ratios first
bench: build
	PYTHONPATH=$(ROOT) $(BIN)/python tools/bench/run.py $(ARGS)

## make bench-peers  the environment that make bench takes PyTorch from
bench-peers:
	tools/make_venv.sh .venv-peers "$(PYTHON)"
	.venv-peers/bin/python -m pip install -q torch==2.13.0

## make asan      the suite under AddressSanitizer and UndefinedBehaviorSanitizer
asan: $(VENV)/.test
	tools/asan.sh $(BIN)/python $(TESTS) $(ARGS)

## make debug     the suite under a debug build of CPython, its reference total watched
debug:
	tools/debug.sh $(TESTS) $(ARGS)

## make nomem     fails the n-th allocation, for every n, of programs that use every kind of object
nomem: build
	PYTHONPATH=$(ROOT) $(BIN)/python tests/nomem/run.py $(ARGS)

## make test-all  the suite on every CPython from 3.10 to 3.13 found on this machine
test-all:
	tools/test_all.sh $(TESTS) $(ARGS)

## make clean     removes everything that the other targets made
clean:
	rm -rf build dist .venv .venv-* .cache .pytest_cache .ruff_cache .mypy_cache .hypothesis *.egg-info
	rm -f torchlite/_C*.so
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
