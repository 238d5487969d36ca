# One entry point for everything; what is larger than a line lives in xtask.
CARGO ?= cargo
SEEDS ?= 200000..201000
XTASK = $(CARGO) run --quiet --release --package xtask --

# Compiles policies to WebAssembly.
CLANG ?= clang

# The script that boots guests whose kernels speak soft-RoCE.
RXE_PEER ?= ../shared/tools/rxe-peer.sh

# What `make fuzz` fuzzes, and how long each.
TARGET ?= decode roce setup cm forwarded copy_messages names nic_packets roce_packets
SECONDS ?= 60

# The tests of what the threads of `ub` share.
THREADS := slot::tests ready_queue::tests

# The steps of `make test` behind lint.
TESTS := test-workspace test-engines test-udp test-udp-engines

# Options of `make sanitizers`: SANITIZERS="--only thread --front verbs".
SANITIZERS ?=

# The interpreter of `make wheel` and `make test-wheel`.
PYTHON ?= python3

# The environment of `make test-torch`.
TORCH_ENV ?= target/torchenv

PREFIX ?= /usr/local
DESTDIR ?=
INSTALL ?= install
BUILT := $(abspath $(or $(CARGO_TARGET_DIR),target))/release

.PHONY: run test tests $(TESTS) lint bench soak order-check injected-bugs fuzz replay miri loom \
	compiled sanitizers deny minimum docs book interop policies verbs nccl bench-nccl wheel \
	test-wheel test-torch install-rvma install-verbs install-nccl clean

run:       ## Build, copy a 256 MiB file by remote WRITE over 16 paths, print a short table.
	$(CARGO) build --release --package fairway-cli --package xtask
	$(XTASK) demo

test: lint ## Everything CI runs; the live tests once more with two engines a side, and over UDP alone.
	$(MAKE) --jobs=1 $(TESTS)

test-workspace:
	$(CARGO) test --workspace

test-engines:
	FAIRWAY_TEST_ENGINES=2 $(CARGO) test --package fairway --tests

test-udp:
	FAIRWAY_DATAPATH=udp $(CARGO) test --package fairway --package fairway-rdma --tests

test-udp-engines:
	FAIRWAY_DATAPATH=udp FAIRWAY_TEST_ENGINES=2 $(CARGO) test --package fairway --tests

tests:     ## Name the steps of `make test` behind lint, each a target of its own.
	@echo $(TESTS)

lint:      ## Formatting, clippy with warnings denied, and how the code reads (xtask tidy --help).
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets --all-features -- --deny warnings
	$(CARGO) run --quiet --package fairway-tidy

bench:     ## The figures of docs/performance.md, as ratios within one run.
	$(CARGO) build --release --package fairway-cli --package xtask
	$(XTASK) bench

soak:      ## The storm over a range of seeds: make soak SEEDS=200000..201000
	$(XTASK) storm --seeds $(SEEDS)

order-check: ## Schedules of small programs against the rules of order, for about ten minutes.
	$(CARGO) run --release --package fairway-storm --example order_check -- deep

injected-bugs:  ## Inject each known bug and demand that the storm, or the test of memory order, finds it.
	$(CARGO) run --quiet --release --package xtask --features injected-bugs -- injected-bugs
	$(CARGO) test --quiet --release --package fairway-roce --features injected-bugs --test world injected_bugs

fuzz:      ## Fuzz every target for a minute each, or one: make fuzz TARGET=nic_packets SECONDS=600
	cd fuzz && for target in $(TARGET); do \
		mkdir -p grown/$$target && \
		$(CARGO) +nightly fuzz run --sanitizer none $$target grown/$$target corpus/$$target -- \
			-max_len=256 -max_total_time=$(SECONDS) -print_final_stats=1 || exit 1; \
	done

replay:    ## The kept inputs of every fuzz target, and some random ones, without a fuzzer.
	$(CARGO) test --package fairway-fuzz

miri:      ## Undefined behaviour in lock-free code, registered memory, pools and pointers of C (needs a nightly toolchain with miri, rust-src).
	MIRIFLAGS="$(MIRIFLAGS)" $(CARGO) +nightly miri test --package fairway-ring
	MIRIFLAGS="-Zmiri-disable-weak-memory-emulation $(MIRIFLAGS)" $(CARGO) +nightly miri test \
		--package fairway-runtime --lib -- memory::tests payload::tests
	MIRIFLAGS="$(MIRIFLAGS)" $(CARGO) +nightly miri test --package fairway-device --lib
	MIRIFLAGS="$(MIRIFLAGS)" $(CARGO) +nightly miri test --package fairway-ub --lib -- $(THREADS)
	MIRIFLAGS="$(MIRIFLAGS)" $(CARGO) +nightly miri test --package fairway-verbs --lib -- \
		pointer::tests post::tests

loom:      ## Every interleaving of small models of the lock-free code.
	RUSTFLAGS="--cfg loom" $(CARGO) test --package fairway-ring --release --lib

compiled:  ## The tests of policy modules with the compiling engine, once as its choice and once beside the interpreter.
	$(CARGO) test --package fairway-sandbox --features compiled
	FAIRWAY_POLICY_ENGINE=compiled $(CARGO) test --package fairway-sandbox --features compiled

sanitizers: ## The C fronts under AddressSanitizer and ThreadSanitizer (needs a nightly toolchain with rust-src).
	$(XTASK) sanitizers $(SANITIZERS)

deny:      ## Licences, sources and known vulnerabilities of dependencies (needs cargo-deny, cargo-audit and the network).
	$(CARGO) deny check
	$(CARGO) audit
	$(CARGO) audit --file fuzz/Cargo.lock

interop:   ## Programs and the datapath rdma against soft-RoCE guests: make interop RXE_PEER=path
	$(CARGO) build --release --package fairway-cli --package xtask
	$(XTASK) verbs
	$(XTASK) interop --peer $(RXE_PEER)
	$(XTASK) interop --peer $(RXE_PEER) --loss 2%

minimum:   ## Everything compiles with the oldest Rust that is supported (needs rustup toolchain install 1.88).
	$(CARGO) +1.88 check --workspace

docs:      ## The documentation of all crates, warnings denied.
	RUSTDOCFLAGS="--deny warnings" $(CARGO) doc --workspace --no-deps

book:      ## docs/ as a book in target/book (needs cargo install mdbook, and python3 for the diagrams).
	python3 docs/diagrams/draw.py
	mdbook build

policies:  ## The examples of policies as modules (needs clang, lld, and rustup target add wasm32-unknown-unknown).
	for name in aimd p2c; do $(CLANG) --target=wasm32 -O2 -nostdlib -ffreestanding -Wall -Wextra \
		-Wl,--no-entry,--strip-all,-z,stack-size=8192 \
		-o examples/policies/c/$$name.wasm examples/policies/c/$$name.c || exit 1; done
	cd examples/policies/rust && $(CARGO) build --release --examples --config \
		'target.wasm32-unknown-unknown.rustflags = ["--remap-path-prefix=$(CURDIR)=fairway"]'
	for name in aimd swift rack filling drr eqds mprdma reps; do \
		cp examples/policies/rust/target/wasm32-unknown-unknown/release/examples/$$name.wasm \
		examples/policies/rust/ || exit 1; done

install-rvma: ## The C library librvma, its header, pkg-config file and man pages: make install-rvma PREFIX=/usr
	$(CARGO) build --release --package fairway-rvma
	$(MAKE) --directory front/rvma install PREFIX="$(PREFIX)" DESTDIR="$(DESTDIR)" \
		BUILT="$(BUILT)"

verbs:     ## libibverbs.so.1 and librdmacm.so.1 for `fairway run`, in target/release/fairway-verbs.
	$(XTASK) verbs

install-verbs: ## The fairway tool and the verbs library behind it: make install-verbs PREFIX=/usr
	$(CARGO) build --release --package fairway-cli
	$(XTASK) verbs
	$(INSTALL) -d $(DESTDIR)$(PREFIX)/bin $(DESTDIR)$(PREFIX)/lib/fairway \
		$(DESTDIR)$(PREFIX)/share/man/man1
	$(INSTALL) -m 755 $(BUILT)/fairway $(DESTDIR)$(PREFIX)/bin/fairway
	$(INSTALL) -m 755 $(BUILT)/fairway-verbs/libibverbs.so.1 $(DESTDIR)$(PREFIX)/lib/fairway/
	ln -sf libibverbs.so.1 $(DESTDIR)$(PREFIX)/lib/fairway/librdmacm.so.1
	$(INSTALL) -m 644 man/fairway*.1 $(DESTDIR)$(PREFIX)/share/man/man1

wheel:     ## The wheel of the Python package, in target/wheels (needs the network, for maturin and auditwheel).
	$(XTASK) wheel --python $(PYTHON)

test-wheel: ## Installs the wheel outside of the repository, with numpy and more of PyPI, and runs its tests there.
	$(XTASK) wheel --test --python $(PYTHON)

test-torch: ## The backend of torch.distributed, with torch of PyPI in TORCH_ENV (1.5 GB; needs the network once).
	[ -x $(TORCH_ENV)/bin/python ] || $(PYTHON) front/python/tools/torch_env.py $(TORCH_ENV)
	$(CARGO) build --release --package fairway-python
	$(TORCH_ENV)/bin/python front/python/tools/torch_tests.py $(BUILT)/lib_fairway.so

nccl:      ## libnccl-net-fairway.so, the network plug-in of NCCL, in target/release.
	$(CARGO) build --release --package fairway-nccl
	cp $(BUILT)/libnccl_net_fairway.so $(BUILT)/libnccl-net-fairway.so

bench-nccl: nccl ## The plug-in beside TCP over loopback, with a C program in NCCL's place.
	$(CC) -std=c11 -O2 -o $(BUILT)/nccl-bench front/nccl/tests/c/bench.c \
		front/nccl/tests/c/plugin.c -pthread -ldl
	FAIRWAY_NCCL_IFNAME=lo $(BUILT)/nccl-bench $(BUILT)/libnccl-net-fairway.so 12

install-nccl: nccl ## The network plug-in of NCCL: make install-nccl PREFIX=/usr
	$(INSTALL) -d $(DESTDIR)$(PREFIX)/lib
	$(INSTALL) -m 755 $(BUILT)/libnccl-net-fairway.so $(DESTDIR)$(PREFIX)/lib/

clean:
	$(CARGO) clean
