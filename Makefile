# Everything a newcomer or CI runs. Each target sets up what it needs: a .venv with the pinned versions.
PYTHON ?= python3
SHELL := /bin/bash
BIN := .venv/bin
EXTRAS_READY := .venv/dev-ready
STUDIO_BIN := .venv-studio/bin
STUDIO_READY := .venv-studio/ready
READY := .venv/ready
DOCS_READY := .venv/docs-ready
# With compiled modules kept: tests start the package in many new processes.
TEST := PYTHONDONTWRITEBYTECODE= OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --dist worksteal
TRY := cd build/package && PIP_DISABLE_PIP_VERSION_CHECK=1 bin/python -m
# Those of `make test-lowest` and `make test-newest`.
TESTS ?= tests/unit tests/laws tests/golden
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check

.PHONY: demo shell test test-integration test-slow test-reliability test-studio test-lowest test-newest audit lint types docs docs-links package clean

demo: $(READY)
	$(BIN)/isopix demo

# Your shell with `isopix` on its path; `exit` leaves it.
shell: $(READY)
	@echo "isopix is on the path of this shell; exit leaves it"
	@source $(BIN)/activate && exec "$${SHELL:-/bin/bash}"

test: lint types $(EXTRAS_READY)
	$(TEST) -m "not slow and not integration"

test-integration: $(EXTRAS_READY)
	$(TEST) -m "integration and not slow"

# All tests.
test-slow: $(EXTRAS_READY)
	$(TEST)

# Kills, signals, full disks, damaged and hostile files; prints what was counted.
test-reliability: $(EXTRAS_READY)
	$(TEST) -rP tests/reliability tests/laws/test_resume.py

# The page of `isopix studio` and reports in a browser; tests are skipped without Chromium (Debian: apt-get install chromium).
test-studio: $(STUDIO_READY)
	PYTHONPATH=$(CURDIR) OMP_NUM_THREADS=1 $(STUDIO_BIN)/python -m pytest -p no:xdist tests/smoke/test_studio.py tests/browser

# Other versions of what isopix needs than the pinned ones, each in an environment of its own. TESTS=tests/unit/core
# runs those alone; PYTHON=python3.13 takes another Python, after `rm -rf .venv-newest`.
test-lowest test-newest: test-%: .venv-%/ready
	PYTHONPATH=$(CURDIR) OMP_NUM_THREADS=1 .venv-$*/bin/python -m pytest -n 2 -m "not slow" $(TESTS)

audit: $(EXTRAS_READY)
	$(PIP) pip-audit
	$(BIN)/pip-audit --requirement constraints.txt --no-deps --disable-pip

lint: $(EXTRAS_READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(EXTRAS_READY)
	$(BIN)/mypy

# The site, in build/docs: a warning, such as a link within it that leads nowhere, is an error.
docs: $(DOCS_READY)
	$(BIN)/sphinx-build --quiet --fail-on-warning --keep-going -b html docs build/docs
	@echo build/docs/index.html

# Links to other sites, which needs a network.
docs-links: $(DOCS_READY)
	$(BIN)/sphinx-build --quiet --fail-on-warning --keep-going -b linkcheck docs build/docs-links

# The wheel and the source distribution, in dist: each is installed in an environment that was empty, and tried. The wheel
# comes from the source distribution; another one is built from it by pip, and one from the checkout, and must be equal.
package: $(EXTRAS_READY)
	$(PIP) build twine
	rm -rf dist build/package build/wheels
	$(BIN)/python -m build --no-isolation
	$(BIN)/twine check --strict dist/*
	$(BIN)/python -m build --no-isolation --wheel --outdir build/wheels/checkout
	$(BIN)/python -m pip wheel --quiet --no-deps --no-build-isolation --wheel-dir build/wheels/sdist dist/*.tar.gz
	cmp dist/*.whl build/wheels/checkout/*.whl
	cmp dist/*.whl build/wheels/sdist/*.whl
	$(PYTHON) -m venv build/package
	$(TRY) pip install --quiet --constraint ../../constraints.txt torch==2.13.0 ../../dist/*.whl
	cd build/package && bin/isopix doctor --device cpu
	cd build/package && bin/isopix pretrain igpt.digits steps=20 --device cpu --out run
	cd build/package && bin/isopix sample run --device cpu -n 4 && bin/isopix report run
	cd build/package && bin/isopix complete igpt.digits-trained --device cpu -n 4
	$(TRY) pip uninstall --quiet --yes isopix-pretraining
	$(TRY) pip install --quiet --constraint ../../constraints.txt ../../dist/*.tar.gz
	cd build/package && bin/isopix doctor --device cpu
	cd build/package && bin/isopix sample igpt.digits-trained --device cpu -n 4

$(READY): pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(PIP) --constraint constraints.txt torch==2.13.0
	$(PIP) --constraint constraints.txt --editable .
	touch $@

$(EXTRAS_READY): $(READY)
	$(PIP) --constraint constraints.txt --editable '.[dev,bench,onnx,tensorboard,slurm]'
	touch $@

.venv-lowest/ready .venv-newest/ready: .venv-%/ready: pyproject.toml
	test -x $(@D)/bin/python || $(PYTHON) -m venv $(@D)
	$(@D)/bin/python -m pip install --quiet --disable-pip-version-check uv
	$(@D)/bin/uv pip install --quiet --python $(@D) --resolution $(if $(filter lowest,$*),lowest-direct,highest) --editable .
	$(@D)/bin/uv pip install --quiet --python $(@D) hatchling pyyaml $(if $(filter lowest,$*),'pytest<9',pytest) \
		pytest-xdist pytest-timeout hypothesis beartype
	touch $@

$(DOCS_READY): $(READY)
	$(PIP) --constraint constraints.txt --editable '.[docs]'
	touch $@

# Gradio needs an older Pillow: an environment on top of the other one, whose packages it sees.
$(STUDIO_READY): $(EXTRAS_READY) constraints-studio.txt
	test -x $(STUDIO_BIN)/python || $(PYTHON) -m venv .venv-studio
	$(BIN)/python -c "import sysconfig; print(sysconfig.get_path('purelib'))" \
		> "$$($(STUDIO_BIN)/python -c "import sysconfig; print(sysconfig.get_path('purelib'))")/isopix.pth"
	$(STUDIO_BIN)/python -m pip install --quiet --disable-pip-version-check \
		--constraint constraints-studio.txt gradio playwright
	touch $@

clean:
	rm -rf .venv .venv-studio .venv-lowest .venv-newest build dist
