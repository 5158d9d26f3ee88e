# Everything a person or the CI runs. Each target makes the virtual environment first if it is missing or out of date.
#   make PYTHON=python3.12 test      another interpreter
#   make bench ARGS='--quick'        further options for bench, fuzz, soak and pytest

PYTHON ?= $(shell tools/pick_python.sh)
VENV ?= .venv
BIN := $(VENV)/bin
# Named after the interpreter: another one makes the environment anew.
STAMP := $(VENV)/.installed-$(subst /,_,$(PYTHON))
# The same with the data path compiled; made anew when the source changes.
NATIVE := build/venv-native
NATIVE_STAMP := $(NATIVE)/.installed-$(subst /,_,$(PYTHON))
FUZZ_SECONDS ?= 60
SOAK_MINUTES ?= 10
BUSY ?= 8
ROUNDS ?= 1
ARGS ?=

.DEFAULT_GOAL := help
.PHONY: help demo test test-busy e2e-matrix lint native wheel bench fuzz fuzz-native soak proto reference clean

help: ## this list
	@sed -n 's/^\([a-z0-9-]*\):[^#]*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 12

demo: $(STAMP) ## pods as processes on our own runtime, with relay, policy, hook server and agent: who gets what, why, and back
	@$(BIN)/python -m examples.demo --keep build/demo

test: $(STAMP) ## all tests; as root also those with a real containerd, whose programs are installed if apt-get can
	@tools/e2e_programs.sh
	@tools/test.sh $(BIN) $(ARGS)

test-busy: $(STAMP) ## the same beside BUSY=8 processes that keep all CPUs busy, ROUNDS times: no test may need a quiet machine
	@tools/e2e_programs.sh
	@COVERAGE=no $(BIN)/python tools/busy.py --processes $(BUSY) --rounds $(ROUNDS) -- tools/test.sh $(BIN) $(ARGS)

e2e-matrix: $(STAMP) ## the end-to-end stories on containerd 1.6, 1.7 and 2, and with crun; writes the table in docs/support.md
	@tools/e2e_programs.sh
	@$(BIN)/python tools/e2e_matrix.py $(ARGS)

lint: $(STAMP) ## format, style, types, layers, generated files, sizes of folders, limits of time in tests, paths and hosts
	@tools/lint.sh $(BIN)

native: $(NATIVE_STAMP) ## an environment with the data path compiled: build/venv-native/bin/interpose

wheel: $(STAMP) ## a wheel for this interpreter and machine with the data path compiled, in dist/
	@tools/native.sh $(BIN)/python dist
	@ls dist

bench: $(STAMP) $(NATIVE_STAMP) ## the relay against no proxy, socat, nginx, HAProxy and grpc.aio, neighbours of hostile clients, what hook servers and dumps add, pods on our runtime and on containerd, a round over 500 pods, decisions, memory nodes
	@tools/e2e_programs.sh
	@$(BIN)/python bench/run.py $(ARGS)
	@$(BIN)/python bench/docker.py
	@$(BIN)/python bench/neighbours.py --quick
	@$(BIN)/python bench/pods.py
	@$(BIN)/python bench/dump.py
	@$(BIN)/python bench/hookserver_reconcile.py
	@$(BIN)/python bench/policy_decisions.py
	@$(BIN)/python bench/memory_zones.py

fuzz: $(STAMP) ## broken bytes for the HTTP/2, HTTP/1.1, SPDY and WebSocket parsers, broken registrations, node documents, machines, policies, reviews, kubeconfigs, manifests of pods
	@$(BIN)/python tests/fuzz/fuzz_h2.py --seconds $(FUZZ_SECONDS) $(ARGS)
	@$(BIN)/python tests/fuzz/fuzz_h1.py --seconds $(FUZZ_SECONDS)
	@$(BIN)/python tests/fuzz/fuzz_streaming.py --seconds $(FUZZ_SECONDS)
	@$(BIN)/python tests/fuzz/fuzz_registration.py --seconds $(FUZZ_SECONDS)
	@$(BIN)/python tests/fuzz/fuzz_nodeslo.py --seconds $(FUZZ_SECONDS)
	@$(BIN)/python tests/fuzz/fuzz_topology.py --seconds $(FUZZ_SECONDS)
	@$(BIN)/python tests/fuzz/fuzz_policy_texts.py --seconds $(FUZZ_SECONDS)
	@$(BIN)/python tests/fuzz/fuzz_reviews.py --seconds $(FUZZ_SECONDS)
	@$(BIN)/python tests/fuzz/fuzz_kubeconfig.py --seconds $(FUZZ_SECONDS)
	@$(BIN)/python tests/fuzz/fuzz_manifests.py --seconds $(FUZZ_SECONDS)

fuzz-native: $(NATIVE_STAMP) ## the parsers that are compiled, as machine code: broken bytes for HTTP/2 and HTTP/1.1
	@build/venv-native/bin/python tests/fuzz/fuzz_h2.py --seconds $(FUZZ_SECONDS) $(ARGS)
	@build/venv-native/bin/python tests/fuzz/fuzz_h1.py --seconds $(FUZZ_SECONDS)

soak: $(STAMP) ## calls, then 100 000 pods with a hook server, for SOAK_MINUTES each; our hook server, runtime and pod manager killed at every moment; 1000 rounds of starts that meet updates
	@$(BIN)/python tools/soak.py --minutes $(SOAK_MINUTES) $(ARGS)
	@INTERPOSE_THOROUGH=1 $(BIN)/pytest -q tests/integration/test_hookserver_crash.py tests/integration/test_policy_crash.py \
		tests/integration/test_policy_races.py tests/integration/test_policy_soak.py \
		tests/integration/test_manager_kills.py tests/e2e/test_runtime_kills.py tests/e2e/test_policy_starts.py
	@$(BIN)/python -m tests.support.lab.kill.soak --minutes $(SOAK_MINUTES)

proto: $(STAMP) ## regenerate the message classes from proto/
	@$(BIN)/python tools/gen_proto.py

reference: $(STAMP) ## regenerate docs/reference/ from the tables in the code
	@$(BIN)/python tools/gen_reference.py

clean: ## remove the virtual environment and all caches
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache .coverage build dist
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(STAMP): pyproject.toml constraints.txt
	@tools/venv.sh $(PYTHON) $(VENV) $(STAMP)

$(NATIVE_STAMP): $(STAMP) hatch_build.py $(shell find src -name '*.py')
	@tools/native.sh $(BIN)/python build/wheel-native $(NATIVE)
	@touch $@
