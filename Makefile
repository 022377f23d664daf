# Every target does its own set-up. Needs git, Python 3.11+, JDK 17, Maven and make; nothing else.

PYTHON3 ?= python3
SEED ?= 1
VENV := .venv
PYTHON := $(VENV)/bin/python
MVN := mvn -q -B

# What Python, Java and Spark leave when they are killed stays inside the tree's ignored folder.
export TMPDIR := $(CURDIR)/build/tmp
export JDK_JAVA_OPTIONS := -Djava.io.tmpdir=$(TMPDIR)
$(shell mkdir -p $(TMPDIR))

.PHONY: setup demo test check format bench clean

setup: $(VENV)/.ready
	$(PYTHON) -m deploy.local.artifacts >&2

$(VENV)/.ready: requirements.lock pyproject.toml
	@$(PYTHON3) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "needs Python 3.11 or newer; name one with make PYTHON3=..." >&2; exit 1; }
	test -x $(PYTHON) || $(PYTHON3) -m venv $(VENV)
	$(PYTHON) -m pip install -q --disable-pip-version-check --require-hashes -r requirements.lock
	$(PYTHON) -m pip install -q --disable-pip-version-check --no-deps --no-build-isolation -e .
	touch $@

demo: setup
	$(PYTHON) -m deploy.local.demo --seed $(SEED)

test: setup
	rm -rf $(TMPDIR)/*
	$(MVN) -f plugins/java/pom.xml verify
	$(PYTHON) -m pytest

check: setup
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/ruff check .
	$(VENV)/bin/mypy
	$(MVN) -f plugins/java/pom.xml spotless:check

format: setup
	$(VENV)/bin/ruff format .
	$(VENV)/bin/ruff check --fix .

bench: setup
	$(PYTHON) -m bench.groups
	$(PYTHON) -m bench.streams
	$(PYTHON) -m bench.measure

clean:
	rm -rf $(VENV) build plugins/java/*/target deploy/local/consumer/target
