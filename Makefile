# SPDX-License-Identifier: Apache-2.0
# sysom. `make help` lists the targets; each <dir>/module.mk lists that room's sources.

.DEFAULT_GOAL := help
SHELL := /bin/bash
MAKEFLAGS += --no-builtin-rules
# A file of a failed command would count as made.
.DELETE_ON_ERROR:
# `make -j all check`: both make the same files, so one after the other.
ifneq ($(word 2,$(MAKECMDGOALS)),)
.NOTPARALLEL:
endif
CC ?= cc
ifeq ($(origin CC),default)
CC := gcc
endif
SAN ?=
DEBUG ?=
WERROR ?= $(if $(CI),1,)
comma := ,

# One build tree per compiler, sanitizer and debug setting, so that nothing needs `clean`.
VARIANT := $(notdir $(CC))$(if $(SAN),-$(subst $(comma),-,$(SAN)))$(if $(DEBUG),-debug)
B := build/$(VARIANT)

CSTD := -std=gnu11
WARN := -Wall -Wextra -Wshadow -Wundef -Wvla -Wformat=2 -Wmissing-prototypes -Wstrict-prototypes \
	-Wpointer-arith -Wno-unused-parameter $(if $(WERROR),-Werror)
OPT := $(if $(DEBUG),-O0 -g3,-O2 -g)
HARDEN := $(if $(or $(SAN),$(DEBUG)),,-D_FORTIFY_SOURCE=2) -fstack-protector-strong
SANFLAGS := $(if $(SAN),-fsanitize=$(SAN) -fno-sanitize-recover=all -fno-omit-frame-pointer)
# Wherever the source lies, it makes the same bytes.
RELOCATE := -ffile-prefix-map=$(CURDIR)=.
CFLAGS_ALL = $(CSTD) $(WARN) $(OPT) $(HARDEN) -fno-strict-aliasing -fno-omit-frame-pointer -fPIC -D_GNU_SOURCE \
	-I. -I$(B)/gen $(RELOCATE) $(SANFLAGS) $(CFLAGS)
# DT_RPATH, not DT_RUNPATH: it also holds for the libraries' own libraries, so a tree of programs and
# libraries can be copied anywhere (make gpu-bundle).
RPATH = -Wl,--disable-new-dtags,-rpath,'$$ORIGIN/../lib'
LDFLAGS_ALL = $(SANFLAGS) -Wl,--as-needed -Wl,-z,relro -Wl,-z,now $(LDFLAGS)

MODULES := base foreign ring model analysis wire node bpf symbol reader sampler preload sidecar render aggregator cli sim deploy tests
LIBS :=
PROGS :=
SOS :=
UNIT :=
SCRIPTS_TEST :=
FUZZ :=
BENCH :=
GEN :=
TEST_PARTS :=
PARTS :=
BENCH_PARTS :=
INSTALL_PROGS :=
INSTALL_PARTS :=

# A library room:   LIBS += ring;          ring_SRCS := $(call in,ring,a b), ring_NEEDS (the rooms below it), ring_LDLIBS
#                                          -> $(B)/libring.a
# A program:        PROGS += sysomd;       sysomd_SRCS, sysomd_USES (rooms), sysomd_LDLIBS
# A shared object:  SOS += libx.so;        libx.so_SRCS, libx.so_USES, libx.so_LDFLAGS, libx.so_CFLAGS, libx.so_HIDE,
#                                          libx.so_DIR (below $(B), default lib)
# A unit test:      $(call unit,ring,test_x)  uses that room and those below it; test_x_SRCS (default
#                                          tests/unit/test_x.c), test_x_LDLIBS
# A scripted test:  SCRIPTS_TEST += tests/e2e/x.sh    (prints TAP; exit 77 skips)
# A fuzzer:         $(call fuzz,ring,fuzz_x)  fuzz_x_SRCS (default tests/fuzz/fuzz_x.c); work and
#                                          memory bounded by tests/fuzz/fuzz_budget.h;
#                                          corpus in tests/fuzz/corpus/fuzz_x, replayed by `make check`
# A test's program: $(call part,PARTS,wire,x)  x_SRCS -> $(B)/parts/x
# What tests or benchmarks need beside these: TEST_PARTS, BENCH_PARTS (files with rules of their own).
# Programs that `make install` copies: INSTALL_PROGS; those that only other programs run: INSTALL_PARTS.
# A benchmark:      $(call bench,ring,bench_x)  a program as above whose output `make bench` prints
in = $(patsubst %,$(1)/%.c,$(2))
# $(call part,UNIT,rooms,names)
part = $(eval $(1) += $(3))$(foreach t,$(3),$(eval $(t)_USES := $(2)))
unit = $(call part,UNIT,$(1),$(2))
fuzz = $(call part,FUZZ,$(1),$(2))
bench = $(call part,BENCH,$(1),$(2))
obj = $(patsubst %.c,$(B)/obj/%.o,$(filter %.c,$(1)))
archives = $(foreach u,$(1),$(B)/lib$(u).a)
# every room's libraries that its users must link, e.g. wire_LDLIBS := -lzstd
libs_of = $(foreach u,$(1),$($(u)_LDLIBS))
# these rooms and all below them
needs = $(sort $(1) $(foreach u,$(1),$(if $($(u)_NEEDS),$(call needs,$($(u)_NEEDS)))))
include $(foreach m,$(MODULES),$(m)/module.mk)

# Objects and archives with BPF differ from those without it.
BPF_STAMP := $(B)/with$(if $(HAS_BPF),,out)-bpf
$(BPF_STAMP):
	@mkdir -p $(@D); rm -f $(@D)/with*-bpf; touch $@

define lib_rule
$(B)/lib$(1).a: $$(call obj,$$($(1)_SRCS)) $$($(1)_OBJS) $(wildcard */*.mk) $(BPF_STAMP)
	@mkdir -p $$(@D); rm -f $$@
	$$(Q)$$(AR) rcs $$@ $$(filter %.o,$$^)
endef
define prog_rule
$(1)_SRCS ?= $(3)
$(B)/$(2)/$(1): $$(call obj,$$(or $$($(1)_SRCS),$(3))) $$(call archives,$$(call needs,$$($(1)_USES)))
	@mkdir -p $$(@D)
	$$(Q)$$(CC) $$(CFLAGS_ALL) -o $$@ $$(filter %.o,$$^) -Wl,--start-group $$(filter %.a,$$^) -Wl,--end-group $$(LDFLAGS_ALL) $$(RPATH) $$($(1)_LDFLAGS) $$(sort $$(call libs_of,$$(call needs,$$($(1)_USES)))) $$($(1)_LDLIBS) -lm -lpthread -ldl
endef
define so_rule
$(1)_objs := $$(patsubst %.c,$(B)/obj-$(1)/%.o,$$($(1)_SRCS))
$$($(1)_objs): $(B)/obj-$(1)/%.o: %.c | $$(GEN)
	@mkdir -p $$(@D)
	$$(Q)$$(CC) $$(CFLAGS_ALL) -fvisibility=hidden $$($(1)_CFLAGS) -MMD -MP -c -o $$@ $$<
$(B)/$(or $($(1)_DIR),lib)/$(1): $$($(1)_objs) $$($(1)_DEPS)
	@mkdir -p $$(@D)
	$$(Q)$$(CC) $$(CFLAGS_ALL) -shared -o $$@ $$($(1)_objs) $$(LDFLAGS_ALL) -Wl,-soname,$(1) $$($(1)_LDFLAGS) $$($(1)_LDLIBS)
	$$(Q)$$(if $$($(1)_HIDE),$(B)/parts/dynsym_hide $$@ $$($(1)_HIDE))
-include $$($(1)_objs:.o=.d)
endef

$(foreach l,$(LIBS),$(eval $(call lib_rule,$(l))))
$(foreach p,$(PROGS),$(eval $(call prog_rule,$(p),bin,)))
$(foreach p,$(PARTS),$(eval $(call prog_rule,$(p),parts,)))
$(foreach p,$(UNIT),$(eval $(p)_LDLIBS += -lcmocka)$(eval $(call prog_rule,$(p),unit,tests/unit/$(p).c)))
$(foreach p,$(BENCH),$(eval $(call prog_rule,$(p),bench,tests/bench/$(p).c)))
$(foreach s,$(SOS),$(eval $(call so_rule,$(s))))
# Under clang's fuzzer engine a target is linked with it, elsewhere with a replayer of its corpus.
ENGINE := $(findstring fuzzer,$(SAN))
$(foreach f,$(FUZZ),$(eval $(f)_SRCS := $(or $($(f)_SRCS),tests/fuzz/$(f).c) tests/fuzz/fuzz_budget.c $(if $(ENGINE),,tests/fuzz_replay.c))\
	$(eval $(f)_LDFLAGS += -Wl$(comma)--wrap=LLVMFuzzerTestOneInput)\
	$(if $(ENGINE),$(eval $(f)_LDFLAGS += -fsanitize=fuzzer))$(eval $(call prog_rule,$(f),fuzz,)))

UNIT_BINS := $(addprefix $(B)/unit/,$(UNIT))
FUZZ_BINS := $(addprefix $(B)/fuzz/,$(FUZZ))
BENCH_BINS := $(addprefix $(B)/bench/,$(BENCH))
SO_FILES := $(foreach s,$(SOS),$(B)/$(or $($(s)_DIR),lib)/$(s))
PROG_BINS := $(addprefix $(B)/bin/,$(PROGS))
Q := $(if $(V),,@)
# of the makes below this one: as many jobs as cores, unless the caller said
J = $(if $(findstring jobserver,$(MAKEFLAGS)),,-j$(shell nproc))

$(B)/obj/%.o: %.c $(BPF_STAMP) | $(GEN)
	@mkdir -p $(@D)
	$(Q)$(CC) $(CFLAGS_ALL) $(OBJ_CFLAGS_$(firstword $(subst /, ,$*))) -MMD -MP -c -o $@ $<
-include $(shell test -d $(B)/obj && find $(B)/obj -name '*.d')

.PHONY: help all programs tests deps doctor demo check check-asan check-tsan check-gpu fuzz bench tidy \
	format causes compdb install clean bench-demo bench-sampler bench-steps bench-roofline bench-links bench-inference bench-fleet bench-peers bench-diagnosis check-run \
	check-unit gpu-bundle fuzz-run package release image manifests scenarios serve-causes

help: ## list the targets
	@awk -F':.*## ' '/^[a-z-]+:.*## /{printf "  %-16s %s\n",$$1,$$2}' $(MAKEFILE_LIST) | sort
	@echo; echo "  variables: SAN=address,undefined|thread  DEBUG=1  CC=clang  DEPS=no  V=1  PREFIX=/usr/local"; \
	echo "             ONLY=part-of-a-test's-name  JOBS=4 (tests at a time)  FUZZ_SECONDS=30"; \
	echo "             demo: SEED=N SECONDS_LONG=60 MIX=serve (a serving engine) SIM=1 (no GPU even where there is one) QUIET=1 (last line only)"; \
	echo "                   UNITS=1 (the daemons of this machine's units, none of its own)"

all: ## build everything that is installed (installs missing packages; DEPS=no: don't)
	@tools/deps.sh build
	@$(MAKE) --no-print-directory $(J) programs
programs: $(PROG_BINS) $(SO_FILES) build/bin build/lib
tests: programs $(UNIT_BINS) $(FUZZ_BINS) $(TEST_PARTS) $(addprefix $(B)/parts/,$(PARTS))

deps: ## install the Debian packages that build, tests and benchmarks need (DEPS=no: don't)
	@tools/deps.sh build test package bench fuzz
	@tools/modules.sh

demo: ## the main job: an 8-rank job with a hidden fault, found and explained
	@tools/deps.sh build
	@test -x $(B)/bin/simjob || echo "demo: building (a minute or two, once; V=1 shows the commands)"
	@$(MAKE) --no-print-directory $(J) programs
	@tools/demo$(if $(filter serve,$(MIX)),-serve).sh

bench-demo: ## 20 demos with 20 seeds, and the tally
	@tools/deps.sh build
	@$(MAKE) --no-print-directory $(J) programs
	@tools/bench-demo.sh

check: ## all tests; ends with `N passed, N failed, N skipped`
	@tools/deps.sh build test package
	@tools/modules.sh
	@$(MAKE) --no-print-directory $(J) tests
	@$(MAKE) --no-print-directory check-run

check-run: # what `check` does once packages and programs are there
	@tests/run.py --build $(B) $(addprefix unit:,$(UNIT_BINS)) \
		$(addprefix fuzz:,$(FUZZ_BINS)) $(addprefix script:,$(SCRIPTS_TEST))

# Scripted tests whose programs can be sanitized, since no job with the preload is part of them.
SCRIPTS_SAN := $(addprefix tests/e2e/,config_files.sh cli_commands.sh cli_trace.sh replay_steps.sh \
	aggregator_ingest.sh aggregator_hostile.sh uplink_hostile.sh symbols.sh)

check-asan: ## unit tests, fuzz corpora and daemons under address and undefined-behaviour sanitizers
	@tools/deps.sh build test
	@$(MAKE) --no-print-directory $(J) SAN=address,undefined check-unit
# Libraries are not instrumented: what one of them does with its own locks can't be judged.
check-tsan: export TSAN_OPTIONS := ignore_noninstrumented_modules=1
check-tsan: ## the same under the thread sanitizer
	@tools/deps.sh build test
	@$(MAKE) --no-print-directory $(J) SAN=thread check-unit
check-unit: $(UNIT_BINS) $(FUZZ_BINS) $(TEST_PARTS) $(addprefix $(B)/parts/,$(PARTS)) $(PROG_BINS)
	@tests/run.py --build $(B) $(addprefix unit:,$(UNIT_BINS)) $(addprefix fuzz:,$(FUZZ_BINS)) \
		$(addprefix script:,$(SCRIPTS_SAN))

check-gpu: ## the tests that need a GPU (skip without one)
	@tests/gpu/run.sh $(B)
gpu-bundle: programs ## build/gpu-bundle: all that check-gpu needs, relocatable, at most 50 MiB
	@tools/gpu-bundle.sh $(B) build/gpu-bundle

FUZZ_SECONDS ?= 30
fuzz: ## run every fuzzer for FUZZ_SECONDS (30) with clang's engine
	@tools/deps.sh build test fuzz
	@$(MAKE) --no-print-directory $(J) CC=clang SAN=fuzzer-no-link,address,undefined fuzz-run
fuzz-run: $(FUZZ_BINS)
	@for f in $(FUZZ); do mkdir -p $(B)/corpus/$$f; echo "== $$f"; \
		$(B)/fuzz/$$f -max_total_time=$(FUZZ_SECONDS) -rss_limit_mb=2048 -timeout=10 -print_final_stats=0 \
		-artifact_prefix=$(B)/corpus/$$f- $(B)/corpus/$$f tests/fuzz/corpus/$$f >$(B)/corpus/$$f.log 2>&1 || \
		{ tail -n 60 $(B)/corpus/$$f.log; exit 1; }; tail -n 1 $(B)/corpus/$$f.log; \
	done

bench: ## print the speed and memory figures beside the peers', as ratios
	@tools/deps.sh build bench
	@$(MAKE) --no-print-directory programs $(BENCH_BINS) $(BENCH_PARTS)
	@tests/bench/run.sh $(B)
bench-sampler: ## what CPU sampling costs, beside perf record (root)
	@tools/deps.sh build bench
	@$(MAKE) --no-print-directory programs $(B)/bench/bench_sampler
	@$(B)/bench/bench_sampler
	@tests/bench/bpf_job.py --build $(B)
bench-steps: ## boundary precision and recall of step detection
	@tools/deps.sh build
	@$(MAKE) --no-print-directory $(B)/bench/bench_steps
	@tests/bench/bench_steps.sh $(B)
bench-fleet: ## beats of 10,000 nodes into one aggregator: CPU, memory, what it finds
	@tools/deps.sh build
	@$(MAKE) --no-print-directory $(B)/bench/bench_fleet
	@$(B)/bench/bench_fleet
	@$(B)/bench/bench_fleet 40 10240
bench-roofline: ## recall and false positives of the roofline
	@tools/deps.sh build
	@$(MAKE) --no-print-directory $(B)/bench/bench_roofline
	@tests/bench/bench_roofline.sh $(B)

bench-links: ## error of the link model on measured collectives, beside one least-squares line
	@tools/deps.sh build
	@$(MAKE) --no-print-directory $(J) programs
	@tests/bench/bench_links.py $(B)
bench-inference: ## a serving engine: stalls and contention found, false flags, bytes kept, TTFT and TPOT (root; BENCH_ARGS=--quick)
	@tools/deps.sh build
	@$(MAKE) --no-print-directory $(J) programs $(addprefix $(B)/lib/sim/,$(SIM_LIBS))
	@python3 tests/reap.py --ahead python3 tests/bench/inference.py $(B) $(BENCH_ARGS)
bench-peers: ## slow ranks: recall, false flags, steps to detect, speed, beside the paper's mode
	@tools/deps.sh build
	@$(MAKE) --no-print-directory $(B)/bench/bench_peers $(B)/bin/sysom
	@tests/bench/bench_peers.sh $(B)
bench-diagnosis: ## faults put into real traces: recall, right rank and layer, steps to detect, clocks, confidence
	@tools/deps.sh build test
	@$(MAKE) --no-print-directory $(J) $(B)/bin/sysom $(B)/bench/bench_peers $(B)/bench/bench_verdict
	@tests/bench/bench_peers.sh $(B)
	@tests/bench/bench_verdict.sh $(B)
	@B=$(B) tests/bench/bench_diagnosis.py $(BENCH_ARGS)
scenarios: ## real faults in running jobs, judged by the verdict (root, about 90 minutes; SHORT=1: 60); writes docs/SCENARIOS.md
	@tools/deps.sh build test
	@$(MAKE) --no-print-directory $(J) programs $(SCENARIO_PARTS)
	@B=$(B) tests/scenarios/run_scenarios.py
serve-causes: ## root causes of slow inference in a serving engine, and what the verdict says (root, 12 minutes; ROWS="pad gil")
	@tools/deps.sh build
	@$(MAKE) --no-print-directory $(J) programs $(addprefix $(B)/lib/sim/,$(SIM_LIBS))
	@python3 tests/reap.py --ahead python3 tests/scenarios/serve_causes.py $(B) $(ROWS)

causes: ## write the tables of docs/causes.md from model/causes.def and accounts.def
	@tools/causes.py
tidy: tests ## include directions and style, as a failing test
	@tools/tidy.py $(B)
format: ## clang-format every C file
	@git ls-files '*.c' '*.h' | xargs clang-format -i
doctor: ## what works here, what is off and why
	@tools/deps.sh build
	@$(MAKE) --no-print-directory $(J) programs
	@build/bin/sysom doctor

PREFIX ?= /usr/local
LIBDIR ?= $(PREFIX)/lib
# where Slurm looks for plugins
SLURM_LIBDIR ?= $(LIBDIR)/slurm
install: programs ## install to $(DESTDIR)$(PREFIX)
	install -d $(DESTDIR)$(PREFIX)/bin $(DESTDIR)$(PREFIX)/lib $(DESTDIR)$(PREFIX)/include \
		$(DESTDIR)$(PREFIX)/share/man/man1 $(DESTDIR)$(PREFIX)/share/man/man8 \
		$(DESTDIR)$(PREFIX)/share/doc/sysom $(DESTDIR)$(PREFIX)/share/sysom \
		$(DESTDIR)$(PREFIX)/lib/sysom/sim $(DESTDIR)$(PREFIX)/lib/systemd/system $(DESTDIR)$(LIBDIR) \
		$(DESTDIR)$(PREFIX)/share/bash-completion/completions $(DESTDIR)$(PREFIX)/share/zsh/site-functions
	install -m 755 $(addprefix $(B)/bin/,$(INSTALL_PROGS)) $(DESTDIR)$(PREFIX)/bin
	install -m 755 $(addprefix $(B)/bin/,$(INSTALL_PARTS)) $(DESTDIR)$(PREFIX)/lib/sysom
	install -m 755 $(B)/lib/libsysom_preload.so $(DESTDIR)$(LIBDIR)
	[ $(LIBDIR) = $(PREFIX)/lib ] || ln -sfr $(DESTDIR)$(LIBDIR)/libsysom_preload.so $(DESTDIR)$(PREFIX)/lib/sysom
	install -m 755 $(addprefix $(B)/lib/sim/,$(SIM_LIBS)) $(DESTDIR)$(PREFIX)/lib/sysom/sim
	install -D -m 755 deploy/slurm/task-prolog.sh $(DESTDIR)$(PREFIX)/lib/sysom/slurm/task-prolog.sh
	for p in $(SLURM_PLUGINS); do install -D -m 755 $(B)/lib/slurm/$$p $(DESTDIR)$(SLURM_LIBDIR)/$$p || exit 1; done
	install -d $(DESTDIR)$(PREFIX)/share/sysom/slurm
	sed 's|/usr/local/lib|$(LIBDIR)|; s|/usr/local/bin|$(PREFIX)/bin|' deploy/slurm/sysom.conf \
		>$(DESTDIR)$(PREFIX)/share/sysom/slurm/sysom.conf
	install -m 644 preload/sysom.h $(DESTDIR)$(PREFIX)/include
	install -m 644 docs/man/*.1 $(DESTDIR)$(PREFIX)/share/man/man1
	install -m 644 docs/man/*.8 $(DESTDIR)$(PREFIX)/share/man/man8
	install -m 644 conf/*.yaml $(DESTDIR)$(PREFIX)/share/sysom
	install -D -m 644 -t $(DESTDIR)$(PREFIX)/share/sysom/spans conf/spans/*.yaml
	for s in conf/*.service conf/*.socket; do sed 's|/usr/local/bin|$(PREFIX)/bin|' $$s \
		>$(DESTDIR)$(PREFIX)/lib/systemd/system/$${s##*/} || exit 1; done
	install -m 644 deploy/completion/sysom.bash $(DESTDIR)$(PREFIX)/share/bash-completion/completions/sysom
	install -m 644 deploy/completion/_sysom $(DESTDIR)$(PREFIX)/share/zsh/site-functions
	install -m 644 README.md CHANGELOG.md LICENSE $(DESTDIR)$(PREFIX)/share/doc/sysom

package: ## Debian and RPM packages of this tree in build/packages
	@tools/deps.sh build package
	@$(MAKE) --no-print-directory $(J) programs
	@B=$(B) deploy/package.sh source,deb,rpm build/packages

release: ## source, packages, image and checksums in build/release, built from the source; the same bytes each time
	@tools/deps.sh build package
	@deploy/release.sh build/release

image: package ## container image of the packages, with its SPDX list, in build/image
	@mkdir -p build/image
	@deploy/image.sh build/packages build/image/sysom.tar

manifests: ## deploy/kubernetes from deploy/chart
	@tools/deps.sh package
	@tools/manifests.sh deploy/kubernetes

# The programs of the variant that was built last are reachable under build/bin and build/lib.
build/bin build/lib: FORCE
	@mkdir -p build; ln -sfn $(VARIANT)/$(@F) $@
FORCE:

compdb: ## write compile_commands.json for clangd
	@$(MAKE) -s -n -B -k V=1 tests $(BENCH_BINS) 2>/dev/null | awk -v d="$(CURDIR)" '/ -c -o /{f=$$NF;gsub(/\\/,"\\\\");gsub(/"/,"\\\"");printf "%s{\"directory\":\"%s\",\"file\":\"%s\",\"command\":\"%s\"}",(n++?",\n":"[\n"),d,f,$$0}END{print n?"\n]":"[]"}' > compile_commands.json
	@echo "compile_commands.json: $$(grep -c '"file"' compile_commands.json) entries"

clean: ## remove build/
	rm -rf build
