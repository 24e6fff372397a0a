# gpusim: needs only make and Python 3.11 or newer; everything else goes into $(VENV).
VENV ?= .venv
WORKERS ?= 2
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --quiet --disable-pip-version-check

# The first of these that is new enough. Another one: make PYTHON=python3.12
ifndef PYTHON
PYTHON := $(shell for p in python3 python3.13 python3.12 python3.11; do \
	if $$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then echo $$p; break; fi; done)
endif

# Stamps carry the interpreter's name, so that another PYTHON makes a new environment.
LOCKED := $(VENV)/.locked-$(notdir $(PYTHON))
INSTALLED := $(VENV)/.installed-$(notdir $(PYTHON))
DOCUMENTING := $(VENV)/.documenting-$(notdir $(PYTHON))

.PHONY: help setup demo test quick versions lint coverage bounds bench bench-pair docs lock clean distclean
.DEFAULT_GOAL := help

help:  ## print this list
	@sed -n 's/^\([a-z-]*\):.*## /  make \1|/p' $(firstword $(MAKEFILE_LIST)) | column -t -s '|' 2>/dev/null \
		|| sed -n 's/^\([a-z-]*\):.*## /  make \1: /p' $(firstword $(MAKEFILE_LIST))

setup: $(INSTALLED)  ## set up, nothing else

demo: $(INSTALLED)  ## set up, then simulate two programs on an H200 and print their reports
	$(BIN)/gpusim run matmul/tiled
	$(BIN)/gpusim run vector_add

# What finds most for its time: the rules of the house; decoding and lowering; every executor and recorded instruction;
# control flow, matrices, bank conflicts and sectors as an H200 had them; the counters of every program at its small size;
# the memory system; and one look at each of a launch, its metrics, the configurations and the command line.
QUICK := tests/test_rooms.py tests/test_repository.py \
	$(addprefix tests/isa/test_,$(addsuffix .py,cubin listing lower lower_programs lower_refusals opcodes program)) \
	tests/gpusim/test_exec_*.py tests/oracle/test_oracle.py \
	$(addprefix tests/gpusim/test_,$(addsuffix .py,hardware flow_replay matrix_replay coalescer memory_system sm_timing)) \
	tests/validate/test_replay.py \
	$(addprefix tests/gpusim/test_,$(addsuffix .py,simulate device metrics result config config_files cli))
# A file at a time in each process, in the order of tests/conftest.py.
PYTEST := $(BIN)/python -m pytest --timeout=600 --numprocesses=$(WORKERS) --dist=loadfile --no-loadscope-reorder

test: lint-and-compile  ## set up, check style and types, run all tests in two processes (WORKERS=n for more)
	$(PYTEST) $(PYTEST_ARGS)

quick: lint-and-compile  ## set up, check style and types, run the tests that tell most: a minute, once all is compiled
	$(PYTEST) $(QUICK) $(PYTEST_ARGS)

versions:  ## run the tests of make quick on the lowest and the newest Python and Numba that pyproject.toml declares
	$(PYTHON) tests/versions.py --numprocesses=$(WORKERS) --dist=loadfile $(QUICK) $(PYTEST_ARGS)

# The engine is compiled while style and types are checked, so that the tests' processes find it compiled.
.PHONY: lint-and-compile
lint-and-compile: $(INSTALLED)
	@$(BIN)/gpusim run vector_add >/dev/null 2>&1 & $(MAKE) --no-print-directory lint; checked=$$?; wait; exit $$checked

lint: $(INSTALLED)  ## set up, check style and types
	$(BIN)/ruff check .
	$(BIN)/pyrefly check

coverage: $(INSTALLED)  ## set up, measure which branches of isa its tests take
	$(BIN)/python -m coverage run -m pytest tests/isa
	$(BIN)/python -m coverage report

# What runs the most kernels: bundled programs, recorded corpora, checks, CUDA C++, asynchronous copies, matrices.
BOUNDS := bounds corpus numba_corpus cuda_kernels checks async_copy tensor_copy cluster group_matrix matrix_replay \
	simulate memory_system free_configurations
bounds: $(INSTALLED)  ## set up, run all kernels of the tests with every index of the engine checked
	GPUSIM_BOUNDS_CHECK=1 $(BIN)/python -m pytest --timeout=3600 --numprocesses=$(WORKERS) --dist=loadfile \
		$(BOUNDS:%=tests/gpusim/test_%.py)

bench: $(INSTALLED)  ## set up, print what runs cost the host: the tables of docs/performance.md
	$(BIN)/python -m tests.bench.performance

bench-pair: $(INSTALLED)  ## fail if a workload takes 15 % longer than in the commit before (or BASE=COMMIT)
	@$(if $(BASE),BASE=$(BASE)) $(BIN)/python -m tests.bench.pair

docs: $(DOCUMENTING)  ## set up, build the site into build/site, offline, and check its links and, in Chromium, its pages
	$(BIN)/python docs/site/build.py build/site
	GPUSIM_SITE=build/site $(BIN)/python -m pytest tests/test_site_browser.py -q -p no:xdist

UV_COMPILE := uv pip compile pyproject.toml --quiet --universal --python-version 3.11 --generate-hashes \
	--no-emit-index-url --no-emit-find-links --custom-compile-command 'make lock'
# The site's packages have a lock of their own: what the other one does not hold, made to fit to it.
DOCS_LOCK := docs/site/requirements.lock
lock:  ## renew requirements.lock from pyproject.toml (LOCK_ARGS=--upgrade for newer versions)
	$(PYTHON) -m venv $(VENV)-lock
	$(VENV)-lock/bin/python -m pip --quiet --disable-pip-version-check install uv
	$(VENV)-lock/bin/$(UV_COMPILE) --output-file requirements.lock --extra test --extra build $(LOCK_ARGS)
	$(VENV)-lock/bin/$(UV_COMPILE) --output-file $(DOCS_LOCK) --extra docs --constraint requirements.lock \
		$$(sed -n 's/^\([a-z0-9-]*\)==.*/--no-emit-package \1/p' requirements.lock) $(LOCK_ARGS)

clean:  ## remove caches and compiled code
	rm -rf build dist .pytest_cache .ruff_cache .hypothesis .cache
	find isa gpusim programs validate tests -name __pycache__ -type d -prune -exec rm -rf {} +

distclean: clean  ## remove the environments as well
	rm -rf $(VENV) $(VENV)-lock $(VENV)-3.*

$(LOCKED): requirements.lock
	@$(or $(PYTHON),false) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null \
		|| { echo 'gpusim needs Python 3.11 or newer; name one with: make PYTHON=/path/to/python3' >&2; exit 1; }
	@test ! -L $(VENV) || { echo '$(VENV) is a link, and setting up would empty what it leads to: remove it' >&2; exit 1; }
	@echo 'Setting up $(VENV): downloads some 300 MB once ...'
	@$(PYTHON) -m venv --clear $(VENV)
	@sed -n '/^uv==/,/[^\\]$$/p' requirements.lock >$(VENV)/uv.lock
	@$(PIP) install --require-hashes --requirement $(VENV)/uv.lock
	@$(BIN)/uv pip install --quiet --python $(BIN)/python --require-hashes \
		--requirement requirements.lock || $(PIP) install --require-hashes --requirement requirements.lock
	@touch $@

$(INSTALLED): $(LOCKED) pyproject.toml
	@$(PIP) install --no-deps --no-build-isolation --editable .
	@touch $@

$(DOCUMENTING): $(INSTALLED) $(DOCS_LOCK)
	@$(BIN)/uv pip install --quiet --python $(BIN)/python --no-deps --require-hashes --requirement $(DOCS_LOCK) \
		|| $(PIP) install --no-deps --require-hashes --requirement $(DOCS_LOCK)
	@touch $@
