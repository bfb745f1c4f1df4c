# On a fresh machine `make hello` or `make test` sets everything up; PYTHON chooses the interpreter.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

# Hundreds of processes start here; each would compile all of voxcli again.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: hello test test-long lint type format docs bench test-gpu test-speech test-speech-full

hello: $(READY)
	$(BIN)/voxcli speak --file samples/hello.txt -o hello.wav --overwrite
	@echo "Listen to it with a player of your machine, such as: ffplay -autoexit hello.wav"

# Tests run in an order of their own each time: `pytest --randomly-seed=N`, with the N that was shown, repeats it.
test: lint type
	$(BIN)/pytest -m "not gpu and not weights and not speech and not long"

# What takes most of a minute a test: killed servers and replicas under load.
test-long: $(READY)
	$(BIN)/pytest -m "long and not speech"

lint: $(READY)
	$(BIN)/ruff check . && $(BIN)/ruff format --check .

type: $(READY)
	$(BIN)/mypy

format: $(READY)
	$(BIN)/ruff check --fix . && $(BIN)/ruff format .

docs: $(READY)
	$(BIN)/python -m voxcli.cli.docs docs

bench: $(READY)
	mkdir -p out && $(BIN)/voxcli bench --json out/bench.json --html out/bench.html --overwrite
	$(BIN)/python -m voxcli.bench.markdown out/bench.json docs/benchmarks.md

test-gpu: $(READY)
	$(BIN)/pytest -m gpu

test-speech: $(READY)
	$(BIN)/pip install -e '.[eval]' -c constraints.txt && CI=true $(BIN)/pytest -m "speech and not slow"

test-speech-full: $(READY)
	$(BIN)/pip install -e '.[eval]' -c constraints.txt && CI=true $(BIN)/pytest -m speech -s

$(READY): pyproject.toml constraints.txt setup.py $(wildcard voxcli/kernels/native*.[ch])
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/pip install -e '.[dev]' -c constraints.txt
	touch $@
