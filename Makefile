# On a fresh machine `make hello` or `make test` sets everything up; PYTHON chooses the interpreter.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
SPEAKS := $(VENV)/.speaks
READY := $(VENV)/.ready
PLAIN := not gpu and not weights and not speech and not long
PIP := $(BIN)/python -m pip --disable-pip-version-check

# Runs pip. A terminal shows meanwhile how long it has taken and how much is there: packages are downloaded into a
# folder of the environment. Whoever watches ends with the shell, whatever ends that.
define INSTALL
@mkdir -p $(VENV)/.tmp; \
if [ -t 1 ]; then began=$$(date +%s); while kill -0 $$$$ 2> /dev/null; do \
  kb=$$(du -sk $(VENV) 2> /dev/null | cut -f1); \
  printf '\r    %d s, %d MB ' $$(($$(date +%s) - began)) $$(($${kb:-0} / 1024)); sleep 1; \
done & watcher=$$!; fi; \
code=0; TMPDIR=$$(cd $(VENV)/.tmp && pwd) $(PIP) -qq install $(1) || code=$$?; \
if [ -t 1 ]; then kill $$watcher; printf '\r%40s\r' ''; fi; \
rm -rf $(VENV)/.tmp; exit $$code
endef

# Hundreds of processes start here; each would compile all of voxcli again.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: hello test test-long lint type format docs bench test-gpu test-speech test-speech-full

hello: $(SPEAKS)
	@echo "4/4 Speaking samples/hello.txt (a few seconds)"
	@$(BIN)/voxcli speak --file samples/hello.txt -o hello.wav --overwrite
	@echo
	@echo "Listen to hello.wav with any player. Then type:"
	@echo
	@echo "  . $(VENV)/bin/activate"
	@echo "  voxcli speak \"Good morning.\" --voice emma -o morning.wav"

# Tests run in an order of their own each time: `pytest --randomly-seed=N`, with the N that was shown, repeats it.
# Three workers, since tests often wait, below a folder of a short name, since sockets lie there.
test: lint type
	@folder=$$(mktemp -dt vXXXX); $(BIN)/pytest -n 3 --dist worksteal --basetemp=$$folder -m "$(PLAIN)"; \
	code=$$?; rm -rf $$folder; exit $$code

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
	$(PIP) install -q 'voxcli[eval]' -c constraints.txt && CI=true $(BIN)/pytest tests/speech -m "speech and not slow"

test-speech-full: $(READY)
	$(PIP) install -q 'voxcli[eval]' -c constraints.txt && CI=true $(BIN)/pytest -m speech -s

# What speaking needs. `make hello TORCH_INDEX=ADDRESS` takes torch from another index, such as that of its CPU build.
$(SPEAKS): pyproject.toml constraints.txt setup.py $(wildcard voxcli/kernels/native*.[ch])
	@echo "1/4 Making a Python environment in $(VENV) (20 MB, some seconds)"
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@size="190 MB"; \
	case "$$(uname -s)" in Linux) test -n "$(TORCH_INDEX)" || size="up to 3 GB with CUDA; README says how to get the CPU build";; esac; \
	echo "2/4 Installing torch ($$size; a minute or more)"
	$(call INSTALL,torch -c constraints.txt $(if $(TORCH_INDEX),--index-url $(TORCH_INDEX)))
	@echo "3/4 Installing voxcli and what it needs (80 MB to download, and a minute to compile for the CPU)"
	$(call INSTALL,-e . -c constraints.txt)
	@touch $@

$(READY): $(SPEAKS)
	$(PIP) install -q 'voxcli[dev]' -c constraints.txt
	touch $@
