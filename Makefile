# Every target sets up what it needs: a virtual environment in .venv with pinned versions.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.PHONY: install demo test test-portable test-all lint chromium faketime bench bench-losses bench-eval bench-train bench-search chaos clean keys loss-tables docs gallery

install: $(STAMP)

$(STAMP): pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet -c constraints.txt torch torchvision
	$(BIN)/python -m pip install --quiet -c constraints.txt -e ".[dev]"
	$(BIN)/python -m pip install --quiet -c constraints.txt --no-deps pretrainedmodels
	touch $(STAMP)

demo: install
	$(BIN)/lookalike demo

# What is generated from the schema of the configuration; a test compares.
keys: install
	$(BIN)/python -m lookalike.config.reference > docs/keys.md
	$(BIN)/lookalike train --schema > recipes/schema.json

# The tables of docs/losses.md, after a loss is added or changed.
loss-tables: install
	$(BIN)/python -m website.loss_tables

# The documentation site in site/; a warning, such as a link without a target, is an error.
docs: install
	$(BIN)/python -m website.build

# The pages of the gallery with what the examples print and draw; a test compares.
gallery: install
	$(BIN)/python -m website.gallery

lint: install
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

test: install chromium lint
	$(BIN)/pytest -n 2 --dist loadfile

# The numeric tests as other processors compute them: instruction sets, threads, a planted ulp.
test-portable: install
	$(BIN)/python tests/portable/run.py

test-all: install chromium lint
	$(BIN)/pytest -n 2 --dist loadfile -m ""
	$(MAKE) test-portable

# The browser for the page tests: by apt where we may, else those tests skip and say why.
chromium:
	@command -v chromium >/dev/null || [ "$$(id -u)" != 0 ] || ! command -v apt-get >/dev/null || \
		(apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq chromium >/dev/null)

# Wrong clocks for the campaign: by apt where we may, else those scenarios do not run and say why.
faketime:
	@command -v faketime >/dev/null || [ "$$(id -u)" != 0 ] || ! command -v apt-get >/dev/null || \
		(apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq faketime >/dev/null)

# Random faults over the whole product for MINUTES; the counts go to docs/reliability.md.
MINUTES ?= 20
chaos: install faketime
	$(BIN)/python -m tests.chaos --minutes $(MINUTES) --write

bench: bench-losses bench-eval bench-train bench-search

bench-losses: install
	$(BIN)/python benchmarks/losses.py

bench-eval: install
	$(BIN)/python benchmarks/evaluation.py

bench-train: install
	$(BIN)/python benchmarks/training.py
	$(BIN)/python benchmarks/frozen.py
	$(BIN)/python benchmarks/samplers.py
	$(BIN)/python benchmarks/feeding.py

bench-search: install
	$(BIN)/python benchmarks/search.py
	$(BIN)/python benchmarks/embedding.py
	$(BIN)/python benchmarks/serving.py

clean:
	rm -rf $(VENV) build dist site *.egg-info .mypy_cache .ruff_cache .pytest_cache
