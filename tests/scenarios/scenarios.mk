# SPDX-License-Identifier: Apache-2.0
# Real faults in running jobs: `make scenarios` runs all, `make check` the short form of one per layer
# (not of the software layer: an earlier run takes minutes).
SCENARIO_PARTS := $(B)/faults/dir_churn $(B)/parts/window_counters $(B)/parts/cpu_stops
TEST_PARTS += $(SCENARIO_PARTS)
SCRIPTS_TEST += $(addprefix tests/scenarios/,catalogue_check.py scenarios_short.py case_path_lookup.py)
TEST_PARTS += $(B)/faults/hostile_maps $(B)/faults/connect_flood
$(B)/faults/%: tests/faults/%.c
	@mkdir -p $(@D)
	$(Q)$(CC) $(CSTD) $(WARN) -O2 -g -D_GNU_SOURCE -I. -o $@ $< -ldl -lpthread
$(call part,PARTS,base,cpu_stops)
cpu_stops_SRCS := tests/scenarios/lib/cpu_stops.c
$(call part,PARTS,wire,window_counters)
window_counters_SRCS := tests/scenarios/lib/window_counters.c
window_counters_LDLIBS := -lnng
