# A thin face on meson and ninja. `make` builds build/baton.
#   make up [MODEL=file.gguf] [ARGS=...]   a local cluster on port 8000
#   make test      every smoke-tier test     make check    checks without a run
#   make bench [BENCH=name]                  make fuzz     fuzzers for a while
#   make sim       old seeds and a swarm     make swarm    the acceptance tier
#   make soak      [MINUTES=60] real clusters under random load and faults
#   make install   PREFIX=/usr/local
MODEL ?= models/demo.gguf
PORT ?= 8000
PREFIX ?= /usr/local
MINUTES ?= 60
DEPS ?= yes
NODE_ENV_DIR = test/e2e

all: build/baton

build/.deps-build: scripts/deps
	@[ "$(DEPS)" = no ] || scripts/deps build
	@mkdir -p build && touch $@

build/.deps-test: scripts/deps
	@[ "$(DEPS)" = no ] || scripts/deps test
	@mkdir -p build && touch $@
	@rm -f build/.sources # what tests need may be there now: meson looks again

build/build.ninja: build/.deps-build
	@meson setup build --prefix=$(abspath $(PREFIX)) >build/setup.log 2>&1 || { cat build/setup.log; exit 1; }

# Sources are found by pattern: meson looks again when a file came or went.
build/baton: build/build.ninja FORCE
	@tools/glob 'src/**/*.c' 'test/**/*.c' 'bench/**/*.c' 'tools/**/*.c' >build/.sources.new
	@cmp -s build/.sources.new build/.sources || { \
	    meson setup --reconfigure build >build/setup.log 2>&1 || { cat build/setup.log; exit 1; }; \
	    mv build/.sources.new build/.sources; }
	@[ -x build/baton ] || echo 'building: a minute or two'
	@ninja -C build baton >build/make.log 2>&1 || { cat build/make.log; exit 1; }

up: build/baton
	build/baton up --model "$(MODEL)" --port $(PORT) $(ARGS)

test: build/.deps-test build/baton
	scripts/test

check: build/.deps-test build/baton
	tools/check --all

bench: build/.deps-test build/baton
	scripts/bench $(BENCH)

fuzz: build/.deps-test
	scripts/fuzz

sim: build/baton
	scripts/sim

swarm: build/.deps-test build/baton
	scripts/swarm

soak: build/baton
	scripts/soak $(MINUTES)

install: build/baton
	meson configure build -Dprefix=$(abspath $(PREFIX)) && ninja -C build --quiet baton && meson install -C build --no-rebuild

clean:
	rm -rf build

FORCE:
.PHONY: all up test check bench fuzz sim swarm soak install clean FORCE
