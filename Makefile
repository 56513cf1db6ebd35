# ICML 2026 in Running Code. `make` alone prints what there is to make.
#
# Every command runs inside .venv, which the first call creates with $(PYTHON) -m venv; nothing is installed outside of it.
#   make test PYTHON=python3.12                            another interpreter (3.11 or newer)
#   make book TORCH_INDEX_URL=https://download.pytorch.org/whl/cpu    the small CPU build of torch instead of the default

PYTHON ?= python3
TORCH_INDEX_URL ?=
VENV := .venv
PY := $(VENV)/bin/python
PIP := $(PY) -m pip --disable-pip-version-check
CHAPTER ?=
SEEDS ?=
NOTEBOOKS := $(sort $(wildcard notebooks/[0-9][0-9]_*.ipynb))

# What notebooks are executed and compared under; scripts/execute.py sets the same.
NOTEBOOK_ENV := ICML26_STATIC=1 ICML26_PROFILE=cpu CUDA_VISIBLE_DEVICES= OMP_NUM_THREADS=1 MKL_NUM_THREADS=1
NBVAL := $(PY) -m pytest --nbval --nbval-sanitize-with notebooks/sanitize.cfg --nbval-current-env \
	--nbval-cell-timeout 300 -q -n 2 --dist loadfile -p no:cacheprovider

.DEFAULT_GOAL := help
.NOTPARALLEL:
.DELETE_ON_ERROR:
.PHONY: help book test venv book-env test-env notebooks normalise pages urls fetch race tables workshop new-chapter \
	colab-check constraints-check clean

help:  ## print this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):[^#]*## ?/\1|/' | awk -F'|' '{printf "  make %-18s %s\n", $$1, $$2}'

# --- the environment: stamps, so that a second call installs nothing ---------------------------------------------------

$(VENV)/pyvenv.cfg:
	@$(PYTHON) -c 'import sys; sys.exit(0 if sys.version_info >= (3, 11) else "Python 3.11 or newer is needed, $(PYTHON) is " + sys.version.split()[0] + "; name another with PYTHON=python3.12")'
	@echo "[setup] creating $(VENV) with $$($(PYTHON) --version)"
	@$(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); echo "no venv: on Debian and Ubuntu install python3-venv"; exit 1; }

$(VENV)/.torch: $(VENV)/pyvenv.cfg constraints.txt
	@if [ -n "$(TORCH_INDEX_URL)" ]; then \
	  echo "[setup] torch from $(TORCH_INDEX_URL)"; \
	  $(PIP) install -q --no-deps --index-url "$(TORCH_INDEX_URL)" "$$(grep '^torch==' constraints.txt)"; \
	fi
	@touch $@

$(VENV)/.book: $(VENV)/.torch pyproject.toml constraints.txt
	@echo "[setup] installing the package and what builds the book (some minutes the first time)"
	@start=$$(date +%s); $(PIP) install -q -c constraints.txt -e '.[book,all]' && \
	  echo "[setup] installed in $$(( $$(date +%s) - start )) s"
	@touch $@

$(VENV)/.test: $(VENV)/.torch pyproject.toml constraints.txt
	@echo "[setup] installing the package, what builds the book and what checks it (some minutes the first time)"
	@start=$$(date +%s); $(PIP) install -q -c constraints.txt -e '.[all,book,dev]' && \
	  echo "[setup] installed in $$(( $$(date +%s) - start )) s"
	@touch $(VENV)/.book $@

book-env: $(VENV)/.book
test-env: $(VENV)/.test
venv: test-env  ## create .venv with everything that make test needs

# --- the two commands -------------------------------------------------------------------------------------------------

book: book-env  ## build the whole book, warnings as errors, and say where to open it
	@start=$$(date +%s); $(PY) -c 'from jupyter_book.cli.main import main; main()' build . -W -n --keep-going && \
	  echo "[book] built in $$(( $$(date +%s) - start )) s"
	@echo "[book] open   $(CURDIR)/_build/html/index.html"
	@echo "[book] serve  $(PY) -m http.server --directory _build/html 8000   then open http://localhost:8000"

# $(call stage,name,command): a banner, the command, its verdict and its seconds. The first failure ends the run.
define stage
@printf '\n==== %s ====\n' '$(1)'; start=$$(date +%s); ( $(2) ); status=$$?; seconds=$$(( $$(date +%s) - start )); \
if [ $$status -eq 0 ]; then echo "==== $(1): passed in $$seconds s ===="; else echo "==== $(1): FAILED after $$seconds s ===="; exit $$status; fi
endef

MODELS := $(PY) -m icml26.language.fetch
LINT := $(PY) -m ruff check src tests scripts template notebooks/*.py
TYPES := $(PY) -m mypy
UNIT := $(PY) -m pytest tests -n 2 -q --durations=10 --cov=icml26 --cov-report=
PAIRS := $(PY) scripts/pairs.py && $(PY) scripts/set_urls.py --check && $(PY) scripts/workshop.py --check
COMPARE := $(NOTEBOOK_ENV) $(NBVAL) --durations=10 --junitxml=_build/nbval.xml --cov=icml26 --cov-append --cov-report= $(NOTEBOOKS)
LEDGERS := $(PY) scripts/ledgers.py --check
BUDGET := $(PY) scripts/budget.py _build/nbval.xml
# Reported, not enforced: below 90 % a change has to say why.
COVERAGE := $(PY) -m coverage report --skip-covered; $(PY) -m coverage report --fail-under=90 > _build/coverage.txt || echo "coverage is below 90 %: say why"
NONE := echo "no notebooks yet"

test: test-env  ## lint, types, tests, pair and URL checks, every notebook re-run and compared, ledgers, coverage
	@mkdir -p _build && rm -f .coverage .coverage.* _build/nbval.xml && $(PY) scripts/ledgers.py --clear
	$(call stage,models and texts,$(MODELS))
	$(call stage,lint,$(LINT))
	$(call stage,types,$(TYPES))
	$(call stage,tests,$(UNIT))
	$(call stage,pairs and URLs,$(PAIRS))
	$(call stage,notebooks re-run and compared,$(if $(NOTEBOOKS),$(COMPARE),$(NONE)))
	$(call stage,ledgers,$(if $(NOTEBOOKS),$(LEDGERS),$(NONE)))
	$(call stage,wall limit of each notebook,$(if $(NOTEBOOKS),$(BUDGET),$(NONE)))
	$(call stage,coverage,$(COVERAGE))

# --- working on the book ----------------------------------------------------------------------------------------------

notebooks: test-env  ## execute the text sources and store their outputs and ledgers [CHAPTER=09]
	@$(PY) scripts/execute.py --chapter "$(CHAPTER)"

normalise: test-env  ## take in a notebook saved from Colab: NOTEBOOK=path
	@test -n "$(NOTEBOOK)" || { echo "say which: make normalise NOTEBOOK=notebooks/NN_slug.ipynb"; exit 2; }
	@$(PY) scripts/normalise.py "$(NOTEBOOK)"

pages: test-env  ## write the generated pages: scoreboard, map, API, table of contents
	@$(PY) scripts/pages.py

urls: test-env  ## write the repository's URL from _config.yml wherever it occurs
	@$(PY) scripts/set_urls.py

fetch: test-env  ## bring the carried models and texts, and every pinned file that chapters use [CHAPTER=09]
	@$(PY) scripts/experiments.py fetch --chapter "$(CHAPTER)"

tables: test-env  ## measure a chapter's committed tables again: CHAPTER=09 [SEEDS=5], as committed without it
	@$(PY) scripts/experiments.py tables --chapter "$(CHAPTER)" $(if $(SEEDS),--seeds $(SEEDS))

race: test-env  ## measure a chapter's timing table again, on a quiet machine: CHAPTER=09
	@$(PY) scripts/experiments.py race --chapter "$(CHAPTER)" $(if $(SEEDS),--seeds $(SEEDS))

workshop: test-env  ## write workshop/student and workshop/solutions
	@$(PY) scripts/workshop.py

new-chapter: test-env  ## start a chapter from the template: NUMBER=05 SLUG=nd_rope [TITLE="…"]
	@$(PY) scripts/new_chapter.py --number "$(NUMBER)" --slug "$(SLUG)" --title "$(TITLE)"

colab-check: test-env  ## would installing the book on Colab replace anything that is there?
	@$(PY) scripts/colab_check.py

constraints-check: test-env  ## do constraints.txt and pyproject.toml fit together, on every system we can ask for?
	@$(PY) scripts/colab_check.py --constraints

clean:  ## remove the environment, built pages and caches
	rm -rf $(VENV) _build .pytest_cache .mypy_cache .ruff_cache .hypothesis .coverage .coverage.*
	find src tests scripts notebooks -name __pycache__ -type d -prune -exec rm -rf {} +
