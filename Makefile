# Kiln. `make demo` and `make test` are all that a fresh Debian machine with Rust needs; both set it up first.

# Rust as rustup installs it, also where the shell has not been told, and the folder of bpftool and ip.
export PATH := $(PATH):$(HOME)/.cargo/bin:/usr/sbin:/sbin

.PHONY: help demo test test-sanitized fuzz bench setup corpus corpus-all
.DEFAULT_GOAL := help

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-15s %s\n", $$1, $$2 }' Makefile

demo: setup corpus ## Run the main job on real objects: check, optimize, run, in the VM and the kernel
	@cargo xtask demo

test: setup corpus ## Run every test
	@cargo xtask test

test-sanitized: setup corpus ## Run VM, JIT and CLI under AddressSanitizer, the interpreter under Miri (needs nightly Rust)
	@scripts/test-sanitized

fuzz: setup corpus ## Fuzz longer than the tests do (FUZZ_SECONDS in all, ten minutes unless set)
	@cargo xtask fuzz --seconds $(or $(FUZZ_SECONDS),600)

bench: setup corpus ## Measure against the kernel and the peers
	@cargo xtask bench

setup: ## Install what is missing from Debian, after saying what and why
	@scripts/setup

corpus: setup ## Build the objects that tests and the demo use (seconds, once)
	@scripts/corpus core

corpus-all: setup ## Build every object of the kernel's own BPF tests (about a minute, once)
	@scripts/corpus all
