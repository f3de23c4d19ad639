# One word for each thing one does here; the work is in CMakeLists.txt, CMakePresets.json and scripts/.
# Two commands on a fresh Debian machine: make run, make test.
.PHONY: all build run test lint format-check tidy bench asan tsan fuzz ci clean configure
.DEFAULT_GOAL := all

# A heavy translation unit takes about 1 GB: no more jobs than cores, nor than gigabytes that are free.
JOBS ?= $(shell awk -v cores="$$(nproc)" '/^MemAvailable/ {gb = int($$2 / 1e6)} \
  END {n = gb < cores ? gb : cores; print n < 1 ? 1 : n}' /proc/meminfo)
WERROR ?= OFF
FUZZ_SECONDS ?= 60
# Tests that make asan and make tsan run, as regular expressions of ctest.
ASAN_TESTS ?= .
TSAN_TESTS ?= ThreadPool|Thread|Device
# clang-tidy reads the files that differ from this commit; TIDY=all reads every file.
BASE ?= HEAD~1
TIDY ?= changed

configure_with = cmake --preset $(1) -DMINIM_WERROR=$(WERROR)
test_in = ctest --test-dir $(1) -j $(JOBS) --output-on-failure --no-tests=error

all: build

configure:
	@command -v cmake >/dev/null || { echo "no cmake: scripts/setup.sh installs what the build needs" >&2; exit 1; }
	@$(call configure_with,release) >/dev/null

build: configure
	@cmake --build build -j $(JOBS) --target minim

# The demo model answers a first prompt; on a terminal the chat stays open.
run:
	@scripts/setup.sh run
	@$(MAKE) --no-print-directory build
	build/minim run "What is MSA?"
	@if [ -t 0 ] && [ -t 1 ]; then build/minim run; fi

test:
	@scripts/setup.sh test
	@$(MAKE) --no-print-directory configure
	@cmake --build build -j $(JOBS)
	@$(call test_in,build)

clean:
	rm -rf build build-asan build-tsan build-fuzz
