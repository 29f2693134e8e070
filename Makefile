# Kiln. `make demo` and `make test` are all that a fresh Debian machine with Rust needs; both set it up first.

# Rust as rustup installs it, also where the shell has not been told, and the folder of bpftool and ip.
export PATH := $(PATH):$(HOME)/.cargo/bin:/usr/sbin:/sbin

.PHONY: help site demo test test-long test-parquet test-arm64-kernel kernel kernel-checks test-collector test-sanitized proofs proofs-mutated fuzz bench dist dist-arm64 dist-others dist-all dist-python dist-test test-build-systems test-forges test-redis test-clients fuzz-kv test-other-systems publish-check setup setup-tests corpus corpus-all test-recipes test-bare test-newest-kernel test-editor lint spelling deny
.DEFAULT_GOAL := help

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  make %-17s %s\n", $$1, $$2 }' Makefile

demo: setup corpus ## Run the main job on real objects: check, optimize, run, in the VM and the kernel
	@cargo xtask demo

test: setup-tests corpus ## Run every test
	@cargo xtask test

test-long: setup-tests corpus-all ## Run the long campaigns: 2,000 optimized programs load, both verifiers agree on 20,000 operations, 1,000 hostile programs end, millions of requests to kiln kv have one order
	@cargo test -p kiln-test --test written --test sweep -- --ignored --nocapture
	@cargo test -p kiln-kv --test linear --test extension -- millions --ignored --nocapture
	@cargo test -p kiln-sandbox --test heaps -- hostile --ignored --nocapture

# pyarrow, which reads what queries write.
target/tools/pyarrow/bin/python:
	@python3 -m venv target/tools/pyarrow && target/tools/pyarrow/bin/pip install -q pyarrow==26.0.1 || { rm -rf target/tools/pyarrow; exit 1; }

test-parquet: setup target/tools/pyarrow/bin/python ## Test Parquet files, which the default build does not write (one to three minutes more to build), and read Arrow streams with pyarrow
	@cargo test -p kiln-live --features parquet --lib rows_file
	@KILN_PYARROW_PYTHON=$(CURDIR)/target/tools/pyarrow/bin/python cargo test --workspace --locked --test arrow

test-arm64-kernel: ## Compare the JIT for 64-bit Arm with an arm64 kernel's, in a virtual machine (some minutes)
	@scripts/setup --arm64
	@scripts/arm64-kernel

kernel: setup ## Build a Linux with native operations and test them in it (15 minutes the first time; ARCH=arm64: qemu-system-arm, gcc-aarch64-linux-gnu)
	@scripts/setup --kernel
	@scripts/patched-kernel --arch $(or $(ARCH),x86_64) --linux $(or $(LINUX),6.12)
	@scripts/patched-kernel --arch $(or $(ARCH),x86_64) --linux $(or $(LINUX),6.12) --canary

kernel-checks: setup corpus-all ## The same kernel's own tests, a build after each patch, checkpatch and sparse, instructions counted, a build with KASAN and lockdep (over an hour; ARCH=arm64: own tests and counts)
	@scripts/setup --kernel
	@for step in $(if $(filter arm64,$(ARCH)),--own-tests --count,--own-tests --check --count --sanitized '--sanitized --canary'); do \
	  scripts/patched-kernel --arch $(or $(ARCH),x86_64) --linux $(or $(LINUX),6.12) $$step || exit 1; done

# ClickHouse's engine for Python.
target/tools/chdb/bin/python:
	@python3 -m venv target/tools/chdb && target/tools/chdb/bin/pip install -q chdb==4.4.0 || { rm -rf target/tools/chdb; exit 1; }

test-collector: target/tools/chdb/bin/python ## Test with a real OpenTelemetry Collector, VictoriaMetrics and ClickHouse's engine (some minutes, once)
	@scripts/setup --collector
	@cd tests/collector && go build -o ../../target/collector .
	@cd tests/collector/metrics && go build -o ../../../target/victoria-metrics github.com/VictoriaMetrics/VictoriaMetrics/app/victoria-metrics
	@KILN_COLLECTOR=$(CURDIR)/target/collector KILN_VICTORIA_METRICS=$(CURDIR)/target/victoria-metrics \
	  KILN_CHDB_PYTHON=$(CURDIR)/target/tools/chdb/bin/python cargo test --workspace --locked --test collector -- --ignored --nocapture
	@cd tests/collector/dashboard && go test ./...

test-sanitized: setup corpus ## Run VM, JIT and CLI under AddressSanitizer, the interpreter under Miri (needs nightly Rust)
	@scripts/test-sanitized

site: setup-tests ## Write the book with search, and the playground, into target/site (builds mdBook once, some minutes)
	@{ command -v mdbook || test -x target/tools/bin/mdbook; } >/dev/null || cargo install --quiet --locked mdbook --version 0.5.4 --root target/tools
	@cargo xtask site --book

test-recipes: setup-tests ## Follow every recipe in a copy: apply its diff, build, test (some minutes)
	@cargo test -p kiln-test --test recipes -- --include-ignored

test-editor: setup ## Test the settings of editors: Neovim and the extension of Visual Studio Code (about a minute)
	@scripts/test-editors

lint: setup-tests ## Run clippy over everything, with the lints of Cargo.toml as errors, and rustdoc, with its warnings as errors
	@cargo clippy --quiet --workspace --all-targets -- -D warnings
	@RUSTDOCFLAGS=-Dwarnings cargo doc --quiet --workspace --no-deps
	@CARGO_TARGET_DIR=$(CURDIR)/target/python cargo clippy --quiet --manifest-path crates/python/Cargo.toml -- -D warnings

spelling: ## Run typos with _typos.toml (pip install typos, or cargo install typos-cli)
	@typos

deny: ## Run cargo-deny with deny.toml: licenses, advisories, sources (cargo install cargo-deny)
	@cargo deny --all-features check

proofs: setup-tests ## Check the machine-checked proofs of native operations
	@proofs/check

proofs-mutated: setup-tests ## Mutation test of the proofs: every mutant of every operation row (about an hour)
	@cargo test -p kiln-isa --test proof_mutations -- --ignored --nocapture

fuzz: setup corpus ## Fuzz longer than the tests do (FUZZ_SECONDS in all, ten minutes unless set)
	@cargo xtask fuzz --seconds $(or $(FUZZ_SECONDS),600)

bench: setup corpus ## Measure against the kernel and the peers
	@cargo xtask bench

# Tools from PyPI that packages are made with.
MATURIN := $(CURDIR)/target/tools/python/bin
dist dist-arm64: export PATH := $(PATH):$(MATURIN)
$(MATURIN)/maturin:
	@python3 -m venv $(dir $(MATURIN)) && $(MATURIN)/pip install -q maturin==1.16.0

dist: $(MATURIN)/maturin ## Build the static binary and pack it into target/dist: tarball, .deb, wheel, npm, SBOM, checksums (needs cmake, g++)
	@scripts/setup --dist
	@cargo xtask dist
	@rm -rf target/dist-play && mkdir target/dist-play
	@tests/users/install target/dist target/dist-play

dist-arm64: $(MATURIN)/maturin ## The same for 64-bit Arm, cross-compiled, played under QEMU
	@scripts/setup --dist
	@cargo xtask dist --machine arm64
	@rm -rf target/dist-play && mkdir target/dist-play
	@tests/users/install target/dist target/dist-play aarch64

# zig, which links for macOS without Apple's SDK.
target/tools/zig/bin/python:
	@python3 -m venv target/tools/zig && target/tools/zig/bin/pip install -q ziglang==0.15.2 || { rm -rf target/tools/zig; exit 1; }

dist-others: target/tools/zig/bin/python ## Build kiln-check, the checker alone, for Windows and macOS into target/dist; run Windows' under Wine (needs rustup)
	@scripts/setup --other-systems
	@cargo xtask dist --other-systems
	@scripts/other-systems --try

dist-python: $(MATURIN)/maturin ## Build the wheel of the Python module (kiln-ebpf-vm) into target/dist, install and try it in a new environment
	@rm -rf target/dist-python && mkdir -p target/dist
	@CARGO_TARGET_DIR=$(CURDIR)/target/python $(MATURIN)/maturin build --quiet --locked --manifest-path crates/python/Cargo.toml --out target/dist
	@python3 -m venv target/dist-python && target/dist-python/bin/pip install -q --no-index --find-links target/dist kiln-ebpf-vm
	@target/dist-python/bin/python -c 'import kiln_ebpf; o = kiln_ebpf.Object(b"; program xdp name pass\n r0 = 2\n exit\n"); print(o.program().run(bytes(64)))'

dist-test: ## Install and use each package of target/dist in a clean root of Debian (needs root, and make dist before)
	@scripts/setup --dist
	@rm -rf target/packages-play && mkdir -p target/packages-play target/roots
	@ROOTS=$(CURDIR)/target/roots tests/packages/play target/dist target/packages-play

dist-all: dist dist-arm64 dist-others dist-test ## All of it, as a release has it

test-build-systems: ## Build the projects of examples/build-systems with CMake, Meson, bpf2go and libbpf-rs (some minutes)
	@scripts/setup --build-systems
	@cargo build --quiet -p kiln-cli
	@rm -rf target/build-systems && mkdir -p target/build-systems
	@KILN=$(or $(CARGO_TARGET_DIR),target)/debug/kiln tests/build-systems/play target/build-systems

test-redis: setup-tests ## Run Redis' own tests, as far as they fit, against kiln kv redis (a minute; downloads 3 MB once)
	@cargo build --quiet -p kiln-cli
	@tests/redis/run $(or $(CARGO_TARGET_DIR),target)/debug/kiln target/redis

test-clients: ## Run tests of pymemcache, libmemcached and redis-py, and memcaslap, against kiln kv (some minutes; PyPI, Debian)
	@scripts/setup --clients
	@cargo build --quiet -p kiln-cli
	@tests/clients/run $(or $(CARGO_TARGET_DIR),target)/debug/kiln target/clients

fuzz-kv: setup-tests ## Fuzz the protocols of kiln kv, behind sockets and in XDP: KV_TIMES times what the tests do (1,000 unless set, about an hour)
	@KILN_KV_TIMES=$(or $(KV_TIMES),1000) cargo test --workspace --locked --test hostile --test extension -- depend_on both_paths_answer one_session

test-forges: setup-tests ## Play action.yml, the GitLab component and the pre-commit hooks, and validate them (a minute; PyPI)
	@cargo build --quiet -p kiln-cli
	@rm -rf target/forges && mkdir -p target/forges
	@KILN=$(or $(CARGO_TARGET_DIR),target)/debug/kiln tests/forge/play target/forges

test-bare: setup-tests ## Play a session in a virtual machine that has a kernel, busybox and kiln only (some minutes)
	@cargo build --quiet -p kiln-cli
	@scripts/bare-machine $(or $(LINUX),7.3) $(or $(CARGO_TARGET_DIR),target)/debug/kiln

test-newest-kernel: setup-tests corpus ## Ask Debian's newest kernel about 100 objects, and print the verdicts that changed (some minutes)
	@scripts/other-kernel newest --update --small 100

test-other-systems: ## Type-check the checker for Windows, macOS and WASI, the VM for macOS and WebAssembly (needs rustup)
	@scripts/other-systems

publish-check: setup ## Pack every crate as for the registry, each built from its package
	@cargo xtask publish-check

setup: ## Install what is missing from Debian, after saying what and why
	@scripts/setup

setup-tests: ## Install what the tests and proofs need besides
	@scripts/setup --tests

corpus: setup ## Build the objects that tests and the demo use (seconds, once)
	@scripts/corpus core

corpus-all: setup ## Build every object of the kernel's own BPF tests (about a minute, once)
	@scripts/corpus all
