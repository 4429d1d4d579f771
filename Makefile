# `make demo` and `make test` are all a fresh machine needs: both build .venv first. See README.md.

PYTHON ?= python3
VENV := .venv
BIN := $(CURDIR)/$(VENV)/bin
STAMP := $(VENV)/.installed
# Torch is installed first and alone: resolved together with the rest it may bring gigabytes of CUDA libraries.
# Where the default index has only CUDA builds:
#   make demo TORCH='torch==2.13.0 --index-url https://download.pytorch.org/whl/cpu'
TORCH ?= torch==2.13.0
WORKERS ?= 2

# Everything is done on the CPU, one thread a process, so that figures repeat and test workers do not fight for cores.
export JAX_PLATFORMS ?= cpu
export OMP_NUM_THREADS ?= 1
export CUDA_VISIBLE_DEVICES ?=
export PYTHONHASHSEED ?= 0
export PIP_DISABLE_PIP_VERSION_CHECK := 1

DEMO := build/demo
SAMPLE := samples/mnist_cnn/train.py

.PHONY: demo test lint check bench bench-gates bench-huge fuzz docs clean
.DEFAULT_GOAL := test

$(STAMP): pyproject.toml constraints.txt
	@echo "building $(VENV) (some minutes the first time)"
	@test -x $(VENV)/bin/python || $(PYTHON) -m venv $(VENV)
	@$(BIN)/pip install -qq --no-compile $(TORCH)
	@$(BIN)/pip install -qq --no-compile -c constraints.txt -e '.[dev]'
	@touch $@

# The whole way, once: rewrite a script, port its initial weights, train both sides and compare.
demo: $(STAMP)
	@mkdir -p $(DEMO)
	@echo "== rewrite: $(SAMPLE) -> $(DEMO)/train_jax.py, $(DEMO)/weights.json"
	@$(BIN)/migrate rewrite $(SAMPLE) -o $(DEMO)/train_jax.py
	@echo "== port: $(DEMO)/init.pt -> $(DEMO)/weights.safetensors"
	@cd $(DEMO) && $(BIN)/python $(CURDIR)/$(SAMPLE) --epochs 0 --save-model && mv mnist_cnn.pt init.pt
	@cd $(DEMO) && $(BIN)/migrate port-weights init.pt --manifest weights.json -o weights.safetensors
	@echo "== prove: 20 steps on both sides from the same weights"
	@$(BIN)/migrate parity $(SAMPLE) --rewritten $(DEMO)/train_jax.py --manifest $(DEMO)/weights.json \
	  --steps 20 --report $(DEMO)/report.html; \
	  status=$$?; echo "report: $(CURDIR)/$(DEMO)/report.html"; exit $$status

lint: $(STAMP)
	@$(BIN)/ruff check --quiet .
	@$(BIN)/ruff format --check .
	@$(BIN)/lint-imports --no-cache --no-logo

check: lint
	@$(BIN)/pyright --pythonpath $(BIN)/python

# Pyright takes a minute of one core: beside the tests, which have the last word unless it finds something.
test: lint
	@mkdir -p build
	@$(BIN)/pyright --pythonpath $(BIN)/python > build/pyright.log 2>&1 & types=$$!; \
	  $(BIN)/pytest -n $(WORKERS) --durations=40 --durations-min=5; status=$$?; \
	  wait $$types || { cat build/pyright.log; status=1; }; exit $$status

bench: $(STAMP)
	@$(BIN)/python -m tests.bench
	@$(BIN)/python -m tests.bench.porting
	@$(BIN)/python -m tests.bench.rewriting

# A 20 GB sharded checkpoint (sparse files) ported with 1 GB of memory to allocate; writes 20 GB.
bench-huge: $(STAMP)
	@$(BIN)/python -m tests.bench.porting --huge 20

# Mutated checkpoints of every format: each is read, or refused with a code. Then guided by coverage, where atheris
# installs.
fuzz: $(STAMP)
	@$(BIN)/python -m tests.weight_port.fuzz --count 10000
	@if $(BIN)/pip install --quiet atheris==3.0.0 2>/dev/null; \
	then $(BIN)/python -m tests.weight_port.fuzz_guided -runs=10000 -verbosity=0; \
	else echo "atheris does not install here: no guided run"; fi

# The published thresholds of other projects beside the gate's, on the mistakes of its self-test.
bench-gates: $(STAMP)
	@$(BIN)/python -m parity.peers

docs: $(STAMP)
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --site-dir build/site
	@echo "docs: $(CURDIR)/build/site/index.html"

clean:
	rm -rf build $(VENV)
