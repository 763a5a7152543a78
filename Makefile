# Each target is one command; README lists the plain ones for people without make.
PYTHON ?= python3
# python3 gets .venv; another interpreter (PYTHON=python3.12) gets an environment of its own.
space  := $() $()
named  := $(subst $(space),-,$(PYTHON))
VENV   := $(if $(filter python3 python,$(named)),.venv,.venv-$(notdir $(patsubst %/bin/python3,%,$(named))))
READY  := $(VENV)/.ready
# The folder's path may hold anything, also what make or a shell would take for its own: no recipe and no target names it.
export PATH := $(CURDIR)/$(VENV)/bin:$(value PATH)
export JUPYTER_CONFIG_PATH := $(CURDIR)/autograder
# JAX reads this once, on import; without it the C++ side writes warnings into cells.
export TF_CPP_MIN_LOG_LEVEL ?= 2
COURSE := $(VENV)/.course
# FULL=1: tests take every case, not a sample of every kind.
export FULL AREAS BASE SEED
# Files and exercises that somebody names: recipes take them from the environment, so names may have spaces and quotes.
export FROM CLASS EDITION INTO NEW TRY
# EXTRA=tpu adds libtpu, once, with which chapters compile for TPUs that are not here; postgres is for several graders.
EXTRA  ?=
EXTRAS := tpu postgres
ifneq ($(filter-out $(EXTRAS),$(EXTRA)),)
$(error There is no EXTRA=$(filter-out $(EXTRAS),$(EXTRA)): there are $(EXTRAS))
endif
ADDED  := $(sort $(EXTRA:%=$(VENV)/.extra-%) $(wildcard $(EXTRAS:%=$(VENV)/.extra-%)))
# Without a TPU, libtpu looks for one and writes into cells, unless it is told where it is.
ifneq ($(filter %tpu,$(ADDED)),)
ifeq ($(wildcard /dev/accel* /dev/vfio/[0-9]*),)
export TPU_ACCELERATOR_TYPE ?= v5litepod-16
export TPU_WORKER_HOSTNAMES ?= localhost
endif
endif
# uv, where it is on PATH, installs in seconds what takes pip minutes. Neither is quiet: what it prints is a sign of life.
# Unpacking takes longest; from 25.1 on pip has a bar for that too.
UV      := $(shell command -v uv 2>/dev/null)
INSTALL := $(if $(UV),uv pip install --python $(VENV)/bin/python,$(VENV)/bin/python -m pip install --disable-pip-version-check)
ASSIGNMENT ?= ch01_rooflines
# Containers run as root, which JupyterLab refuses unless told.
ROOT_USER := $(if $(filter 0,$(shell id -u 2>/dev/null)),--allow-root)

.PHONY: lab book pdf check env

# A name for `course`, which pip installs into $(VENV)/bin.
lab: $(READY) $(ADDED)
	@python -m autograder.own_work $(if $(PORT),--port=$(PORT) --ServerApp.port_retries=0)

book: $(READY) $(ADDED) $(if $(wildcard solutions/ch*.md),$(COURSE))
	python -c 'from jupyter_book.cli.main import main; main()' build . -W -n --keep-going

# What Chromium prints of the built pages; needs tests/browser/requirements.txt.
pdf: book
	python book/pdf.py

check: $(READY)
	python -m autograder.grade_own

env: $(READY) $(ADDED)
	@echo "The course is installed. Now type: $(VENV)/bin/course"

# An edition has no tools/, and its students' folder neither file: no target is there that cannot run.
-include autograder/teaching.mk tools/course.mk

# nbgrader's copies of the exercises: the site shows these where somebody has written into notebooks/, which is left alone.
$(COURSE): $(READY) $(wildcard solutions/ch*.md autograder/making/*.py)
	-python -m autograder.release --course && touch $(COURSE)

$(READY): requirements.txt pyproject.toml
	@"$(PYTHON)" -c '' 2>/dev/null || { echo "There is no working $(PYTHON) here: install Python 3.11, 3.12, 3.13 or 3.14, or name one with PYTHON=…" >&2; exit 1; }
	@"$(PYTHON)" -c 'import sys; v = sys.version_info[:2]; sys.exit(0 if (3, 11) <= v <= (3, 14) else "The course needs Python 3.11, 3.12, 3.13 or 3.14, and $(PYTHON) is %d.%d: name another one, as in  make $(MAKECMDGOALS) PYTHON=python3.12" % v)'
	@"$(PYTHON)" -c 'import venv, ensurepip' 2>/dev/null || { echo "$(PYTHON) has no venv module: install it (on Debian and Ubuntu: apt install python3-venv), then run make again." >&2; exit 1; }
	@echo "Installing the course's packages into $(VENV), once: about 1 GB, some minutes. Then make goes on with $(or $(MAKECMDGOALS),lab)."
	"$(PYTHON)" -m venv $(VENV)
	$(if $(UV),,$(INSTALL) --quiet "pip>=25.1")
	$(INSTALL) -r requirements.txt
	$(INSTALL) --no-deps --no-build-isolation -e .
	@touch $(READY)

$(VENV)/.extra-postgres: $(READY)
	$(INSTALL) --no-build-isolation -e '.[postgres]'
	@touch $@

$(VENV)/.extra-tpu: $(READY)
	@$(VENV)/bin/python -c 'import platform as p, sys; sys.exit(0 if (p.system(), p.machine()) == ("Linux", "x86_64") else "libtpu exists for Linux on x86-64 only: leave out EXTRA=tpu")'
	@echo "Installing libtpu, 205 MB to download and 640 MB unpacked, proprietary under the terms of Google Cloud."
	$(INSTALL) --no-build-isolation -e '.[tpu]'
	@touch $@
