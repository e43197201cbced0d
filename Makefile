# SPDX-License-Identifier: Apache-2.0
# sysom. `make help` lists the targets; each <dir>/module.mk lists that room's sources.

.DEFAULT_GOAL := help
SHELL := /bin/bash
MAKEFLAGS += --no-builtin-rules
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
DEFAULT_VARIANT := gcc

CSTD := -std=gnu11
WARN := -Wall -Wextra -Wshadow -Wundef -Wvla -Wformat=2 -Wmissing-prototypes -Wstrict-prototypes \
	-Wpointer-arith -Wno-unused-parameter $(if $(WERROR),-Werror)
OPT := $(if $(DEBUG),-O0 -g3,-O2 -g)
HARDEN := $(if $(or $(SAN),$(DEBUG)),,-D_FORTIFY_SOURCE=2)
SANFLAGS := $(if $(SAN),-fsanitize=$(SAN) -fno-omit-frame-pointer)
CFLAGS_ALL = $(CSTD) $(WARN) $(OPT) $(HARDEN) -fno-strict-aliasing -fno-omit-frame-pointer -fPIC -D_GNU_SOURCE \
	-I. -I$(B)/gen $(SANFLAGS) $(CFLAGS)
LDFLAGS_ALL = $(SANFLAGS) -Wl,-z,relro -Wl,-z,now $(LDFLAGS)

MODULES := base foreign ring analysis wire preload sidecar aggregator cli sim tests
LIBS :=
PROGS :=
SOS :=
UNIT :=
SCRIPTS_TEST :=
FUZZ :=
BENCH :=
GEN :=

# A library room:   LIBS += ring;          ring_SRCS := ring/a.c ...       -> $(B)/libring.a
# A program:        PROGS += sysomd;       sysomd_SRCS, sysomd_USES (rooms), sysomd_LDLIBS
# A shared object:  SOS += libx.so;        libx.so_SRCS, libx.so_USES, libx.so_LDFLAGS, libx.so_CFLAGS,
#                                          libx.so_DIR (below $(B), default lib)
# A unit test:      UNIT += test_x;        test_x_SRCS (default tests/unit/test_x.c), test_x_USES, test_x_LDLIBS
# A scripted test:  SCRIPTS_TEST += tests/e2e/x.sh    (prints TAP; exit 77 skips)
# A fuzzer:         FUZZ += fuzz_x;        fuzz_x_SRCS (default tests/fuzz/fuzz_x.c), fuzz_x_USES;
#                                          corpus in tests/fuzz/corpus/fuzz_x, replayed by `make check`
# A benchmark:      BENCH += bench_x;      a program as above whose output `make bench` prints
include $(foreach m,$(MODULES),$(m)/module.mk)

obj = $(patsubst %.c,$(B)/obj/%.o,$(filter %.c,$(1)))
archives = $(foreach u,$(1),$(B)/lib$(u).a)
# every room's libraries that its users must link, e.g. wire_LDLIBS := -lzstd
libs_of = $(foreach u,$(1),$($(u)_LDLIBS))

define lib_rule
$(B)/lib$(1).a: $$(call obj,$$($(1)_SRCS)) $$($(1)_OBJS)
	@mkdir -p $$(@D); rm -f $$@
	$$(Q)$$(AR) rcs $$@ $$^
endef
define prog_rule
$(1)_SRCS ?= $(3)
$(B)/$(2)/$(1): $$(call obj,$$(or $$($(1)_SRCS),$(3))) $$(call archives,$$($(1)_USES))
	@mkdir -p $$(@D)
	$$(Q)$$(CC) $$(CFLAGS_ALL) -o $$@ $$(filter %.o,$$^) -Wl,--start-group $$(filter %.a,$$^) -Wl,--end-group $$(LDFLAGS_ALL) $$($(1)_LDFLAGS) $$(sort $$(call libs_of,$$($(1)_USES))) $$($(1)_LDLIBS) -lm -lpthread -ldl
endef
define so_rule
$(1)_objs := $$(patsubst %.c,$(B)/obj-$(1)/%.o,$$($(1)_SRCS))
$$($(1)_objs): $(B)/obj-$(1)/%.o: %.c | $$(GEN)
	@mkdir -p $$(@D)
	$$(Q)$$(CC) $$(CFLAGS_ALL) -fvisibility=hidden $$($(1)_CFLAGS) -MMD -MP -c -o $$@ $$<
$(B)/$(or $($(1)_DIR),lib)/$(1): $$($(1)_objs) $$($(1)_DEPS)
	@mkdir -p $$(@D)
	$$(Q)$$(CC) $$(CFLAGS_ALL) -shared -o $$@ $$($(1)_objs) $$(LDFLAGS_ALL) -Wl,-soname,$(1) $$($(1)_LDFLAGS) $$($(1)_LDLIBS)
-include $$($(1)_objs:.o=.d)
endef

$(foreach l,$(LIBS),$(eval $(call lib_rule,$(l))))
$(foreach p,$(PROGS),$(eval $(call prog_rule,$(p),bin,)))
$(foreach p,$(UNIT),$(eval $(call prog_rule,$(p),unit,tests/unit/$(p).c)))
$(foreach p,$(BENCH),$(eval $(call prog_rule,$(p),bench,tests/bench/$(p).c)))
$(foreach s,$(SOS),$(eval $(call so_rule,$(s))))

UNIT_BINS := $(addprefix $(B)/unit/,$(UNIT))
BENCH_BINS := $(addprefix $(B)/bench/,$(BENCH))
SO_FILES := $(foreach s,$(SOS),$(B)/$(or $($(s)_DIR),lib)/$(s))
PROG_BINS := $(addprefix $(B)/bin/,$(PROGS))
Q := $(if $(V),,@)

$(B)/obj/%.o: %.c | $(GEN)
	@mkdir -p $(@D)
	$(Q)$(CC) $(CFLAGS_ALL) $(OBJ_CFLAGS_$(firstword $(subst /, ,$*))) -MMD -MP -c -o $@ $<
-include $(shell test -d $(B)/obj && find $(B)/obj -name '*.d')

.PHONY: help all programs tests deps doctor demo check check-asan check-tsan check-gpu fuzz bench tidy \
	format compdb install clean

help: ## list the targets
	@awk -F':.*## ' '/^[a-z-]+:.*## /{printf "  %-16s %s\n",$$1,$$2}' $(MAKEFILE_LIST) | sort
	@echo; echo "  variables: SAN=address,undefined|thread  DEBUG=1  CC=clang  DEPS=no  V=1  PREFIX=/usr/local"

all: programs ## build everything that is installed
programs: $(PROG_BINS) $(SO_FILES) build/bin build/lib
tests: programs $(UNIT_BINS)

# The default variant's programs are reachable under build/bin and build/lib.
build/bin build/lib: FORCE
	@mkdir -p build; ln -sfn $(VARIANT)/$(@F) $@
FORCE:

compdb: ## write compile_commands.json for clangd
	@$(MAKE) -s -n -B -k V=1 tests 2>/dev/null | awk -v d="$(CURDIR)" '/ -c -o /{f=$$NF;gsub(/\\/,"\\\\");gsub(/"/,"\\\"");printf "%s{\"directory\":\"%s\",\"file\":\"%s\",\"command\":\"%s\"}",(n++?",\n":"[\n"),d,f,$$0}END{print n?"\n]":"[]"}' > compile_commands.json
	@echo "compile_commands.json: $$(grep -c '"file"' compile_commands.json) entries"

clean: ## remove build/
	rm -rf build
