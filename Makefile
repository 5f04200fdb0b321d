# The short way to everything. The two commands for a first visit: `make demo` and `make test`.
# Each works on a bare Debian 12: missing packages are installed first (as root or through sudo), with no question asked.
SHELL := /bin/bash
.DEFAULT_GOAL := release
.PHONY: help release dev demo test test-fast parity check format-check includes tidy asan tsan fuzz bench format clean \
        packages check-packages

CLANG_FORMAT := clang-format-14
SOURCES = $(shell find src tests bench examples -name '*.h' -o -name '*.cpp' 2>/dev/null)

help:  ## this list
	@awk -F ':.*  ## ' '/^[a-z-]+:.*  ## / { printf "make %-11s %s\n", $$1, $$2 }' Makefile

release: packages  ## build the program, build/release/cleave (the default)
	@cmake --preset release >/dev/null
	@cmake --build --preset release --target programs

dev: packages  ## build everything for a debugger, in build/dev
	@cmake --preset dev >/dev/null
	@cmake --build --preset dev

demo: release  ## train a language model on real text with 2 ranks, about two minutes
	@scripts/demo_text.sh build/demo/text.txt
	build/release/cleave train runs/demo.toml --set data.path=build/demo/text.txt --ranks 2 --overwrite

test: packages  ## build and run every test
	@cmake --preset release >/dev/null
	@cmake --build --preset release
	@scripts/run_tests.sh release

test-fast: packages  ## build everything, run the tests that take a minute together
	@cmake --preset release >/dev/null
	@cmake --build --preset release
	@scripts/run_tests.sh fast

parity: packages  ## every layout of up to 8 ranks against one rank, some minutes (make test has a slice of it)
	@cmake --preset release >/dev/null
	@cmake --build --preset release --target test_parity
	@build/release/tests/test_parity --gtest_also_run_disabled_tests --gtest_filter='*DISABLED_Whole*'

check: format-check includes tidy  ## format, direction of includes, clang-tidy

format-check: check-packages
	@$(CLANG_FORMAT) --dry-run --Werror $(SOURCES)
	@echo "format: $(words $(SOURCES)) files, no findings"

includes:
	@scripts/check_includes.sh --self-test
	@scripts/check_includes.sh

tidy: packages check-packages  ## clang-tidy over src
	@cmake --preset tidy >/dev/null
	@scripts/tidy.sh

asan: packages  ## the fast tests under the address and undefined-behaviour sanitizers
	@cmake --preset asan >/dev/null
	@cmake --build --preset asan
	@scripts/run_tests.sh asan

tsan: packages check-packages  ## the tests of concurrent code under the thread sanitizer
	@cmake --preset tsan >/dev/null
	@cmake --build --preset tsan --target threads_tests
	@scripts/run_tests.sh tsan

fuzz: packages check-packages  ## build the fuzz targets with libFuzzer, in build/fuzz/tests/fuzz
	@cmake --preset fuzz >/dev/null
	@cmake --build --preset fuzz

bench: packages  ## build and run the benchmarks
	@cmake --preset bench >/dev/null
	@cmake --build --preset bench
	@set -e; for program in build/bench/bench/*_bench; do echo "== $$program"; $$program; done

format: check-packages  ## format every source file
	@$(CLANG_FORMAT) -i $(SOURCES)

clean:  ## remove everything built
	rm -rf build

packages:
	@scripts/install_dependencies.sh

check-packages:
	@scripts/install_dependencies.sh check
