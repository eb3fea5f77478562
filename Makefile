# make demo   the simulated cell and the policy on a CPU; ARGS='--seconds 20 --json demo.json'
# make test   ruff, then pytest; ARGS='-k policy'
# make lint   ruff alone
# Each prepares .venv first, from requirements.lock: Python 3.11 or 3.12 and a C++ compiler do.

find_python = for python in python3 python3.12 python3.11; do $$python -c \
  'import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 13))' 2>/dev/null \
  && echo $$python && break; done
PYTHON := $(or $(PYTHON),$(shell $(find_python)))
ENVIRONMENT := .venv
BIN := $(ENVIRONMENT)/bin
INTERFACES := $(wildcard msg/*.msg srv/*.srv action/*.action)
BUILD := setup.py pyproject.toml package.xml CMakeLists.txt $(wildcard cmake/* scripts/*)
SHARE := $(wildcard launch/* config/*)

# A sourced ROS or an active environment must not reach into this one, and nothing started here
# may talk to a robot on the network.
unexport _ROS_WHEELS_BOOTSTRAP_COMPLETE PYTHONHOME PYTHONPATH VIRTUAL_ENV LD_LIBRARY_PATH
unexport AMENT_PREFIX_PATH CMAKE_PREFIX_PATH COLCON_PREFIX_PATH ROS_DISTRO
export ROS_AUTOMATIC_DISCOVERY_RANGE := LOCALHOST

.PHONY: demo test lint setup clean
.DELETE_ON_ERROR:

demo: setup
	$(BIN)/cosmos3 demo $(ARGS)

test: lint
	$(BIN)/python -m pytest $(ARGS)

lint: setup
	$(BIN)/ruff check

setup: $(ENVIRONMENT)/.share

$(ENVIRONMENT)/.packages: requirements.lock
	@test -n '$(PYTHON)' || { echo 'Python 3.11 or 3.12 is needed: make PYTHON=/path/to/python3.12' >&2; exit 1; }
	@echo 'Installing the packages of requirements.lock into $(ENVIRONMENT) (6 GB)'
	$(PYTHON) -m venv $(ENVIRONMENT)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile \
	  -r requirements.lock
	@touch $@

$(ENVIRONMENT)/.build: $(ENVIRONMENT)/.packages $(BUILD) $(INTERFACES)
	@echo 'Building the interfaces (a minute or two)'
	$(BIN)/python -m pip install --quiet --disable-pip-version-check \
	  --no-build-isolation --no-deps --editable .
	@touch $@

$(ENVIRONMENT)/.share: $(ENVIRONMENT)/.build $(SHARE)
	cp -r launch config $(ENVIRONMENT)/share/cosmos3_ros/
	@touch $@

clean:
	rm -rf $(ENVIRONMENT)
