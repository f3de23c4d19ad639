# One word for each thing one does here; the work is in CMakeLists.txt, CMakePresets.json and scripts/.
# Two commands on a fresh Debian machine: make run, make test.
.PHONY: all sources build compile run test lint format-check tidy bench asan tsan fuzz ci clean configure
.DEFAULT_GOAL := all

# A heavy translation unit takes about 1 GB: no more jobs than cores, nor than gigabytes that are free.
JOBS ?= $(shell awk -v cores="$$(nproc)" '/^MemAvailable/ {gb = int($$2 / 1e6)} \
  END {n = gb < cores ? gb : cores; print n < 1 ? 1 : n}' /proc/meminfo)
WERROR ?= OFF
FUZZ_SECONDS ?= 60
# Targets that always get a minute: they read what users and models write.
FUZZ_LONG = tokenizer_fuzz detokenizer_fuzz template_fuzz output_parser_fuzz json_schema_fuzz
# Tests that make asan and make tsan run, as regular expressions of ctest; those that ASan leaves out.
ASAN_TESTS ?= .
ASAN_SKIP ?= ^$$
TSAN_TESTS ?= ThreadPool|Threads|BatchMates|T_f2_|T_c1_|T_h2_
TSAN_PROGRAMS ?= base_test device_test
# Programs that make asan builds. CI takes those that it has time for; the fuzz targets run every parser under ASan and UBSan.
ASAN_PROGRAMS ?= all
CI_ASAN = ASAN_PROGRAMS=base_test ASAN_TESTS='^base\.'
# clang-tidy reads the files that differ from this commit; TIDY=all reads every file.
BASE ?= HEAD~1
TIDY ?= changed

configure_with = cmake --preset $(1) -DMINIM_WERROR=$(WERROR)
test_in = ctest --test-dir $(1) -j $(JOBS) --output-on-failure --no-tests=error

all: build

configure:
	@command -v cmake >/dev/null || { echo "no cmake: scripts/setup.sh installs what the build needs" >&2; exit 1; }
	@$(call configure_with,release) >/dev/null

# What structured output is built from; a build without it works, and says so.
sources:
	@scripts/fetch_sources.sh || true

build: sources
	@$(MAKE) --no-print-directory compile

compile: configure
	@cmake --build build -j $(JOBS) --target minim

# The demo model answers a first prompt; on a terminal the chat stays open. Structured output is not fetched for this.
run:
	@scripts/setup.sh run
	@$(MAKE) --no-print-directory compile
	build/minim run "What is MSA?"
	@if [ -t 0 ] && [ -t 1 ]; then build/minim run; fi

test:
	@scripts/setup.sh test
	@timeout 300 scripts/fetch_m3_template.sh >/dev/null || \
	  echo "no MiniMax-M3 template could be fetched: its test will be skipped" >&2
	@$(MAKE) --no-print-directory sources
	@$(MAKE) --no-print-directory configure
	@cmake --build build -j $(JOBS)
	@$(call test_in,build)

# Format, layers and seal of the whole tree; clang-tidy on what changed.
lint: format-check configure
	@python3 scripts/check_layers.py
	@cmake --build build -j $(JOBS) --target minim_kernels
	@scripts/isa_sealed.sh build
	@scripts/tidy.sh build $(JOBS) $(if $(filter all,$(TIDY)),,$(BASE))

format-check:
	@git ls-files -z 'src/*.cpp' 'src/*.h' 'src/*.inl' 'tests/*.cpp' 'tests/*.h' 'bench/*.cpp' 'bench/*.h' 'fuzz/*.cpp' | \
	  xargs -0 clang-format-14 --dry-run -Werror

# Kernels, loading and decoding against what this machine's memory and processor allow, native templates
# against the interpreter. BENCH_MODEL: a random checkpoint of the M3 shape, made once.
BENCH_MODEL ?= build/bench/random-m3
BENCH_GIB ?= 1.2

bench:
	@scripts/setup.sh test
	@$(MAKE) --no-print-directory configure
	@cmake --build build -j $(JOBS) --target kernels_bench sampler_bench load_bench decode_bench engine_bench template_bench
	@[ -d $(BENCH_MODEL) ] || { scripts/make_random_checkpoint.py --size-gib $(BENCH_GIB) --out $(BENCH_MODEL).part && \
	  mv $(BENCH_MODEL).part $(BENCH_MODEL); }
	build/bench/kernels_bench
	build/bench/sampler_bench
	build/bench/template_bench
	build/bench/load_bench $(BENCH_MODEL)
	build/bench/decode_bench $(BENCH_MODEL)
	build/bench/engine_bench $(BENCH_MODEL)

asan:
	@$(call configure_with,asan) >/dev/null
	@cmake --build build-asan -j $(JOBS) --target $(ASAN_PROGRAMS)
	@ASAN_OPTIONS=allocator_may_return_null=1 $(call test_in,build-asan) -R '$(ASAN_TESTS)' -E '$(ASAN_SKIP)'

tsan:
	@$(call configure_with,tsan) >/dev/null
	@cmake --build build-tsan -j $(JOBS) --target $(TSAN_PROGRAMS)
	@$(call test_in,build-tsan) -R '$(TSAN_TESTS)'

fuzz:
	@$(call configure_with,fuzz) >/dev/null
	@cmake --build build-fuzz -j $(JOBS)
	@scripts/fuzz.sh build-fuzz $(FUZZ_SECONDS) $(JOBS) 60 "$(FUZZ_LONG)"

# Warnings are errors in the build that people use; sanitizers make g++ see some that are not there.
# ctest's summary of the full test run comes last.
ci:
	@scripts/setup.sh test
	@$(MAKE) --no-print-directory sources
	$(MAKE) lint WERROR=ON
	$(MAKE) fuzz FUZZ_SECONDS=10
	$(MAKE) tsan
	$(MAKE) asan $(CI_ASAN)
	$(MAKE) test WERROR=ON

clean:
	rm -rf build build-asan build-tsan build-fuzz
