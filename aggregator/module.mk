# SPDX-License-Identifier: Apache-2.0
# Beats and sketches to findings, and windows to incidents and their verdicts: libraries of their own, since
# `sysom replay` runs them as well. All but main() is in libraries, for the unit tests.
LIBS += fleet incident aggregator
fleet_SRCS := $(call in,aggregator/fleet,baselines fleet fleet_admit fleet_detect fleet_json \
		fleet_joined fleet_kinds fleet_pages fleet_pull fleet_requests fleet_roles fleet_sources fleet_temporal \
		sketch_json sketch_merge sql)
fleet_NEEDS := incident wire render analysis
fleet_LDLIBS := -lsqlite3 -ljansson
incident_SRCS := $(call in,aggregator/incident,finding_json incident incident_ledgers incident_json \
		incident_judge incident_share incident_spikes incident_views incident_waits ledger_json slow_step_json \
		verdict verdict_sketch)
incident_NEEDS := wire analysis
incident_LDLIBS := -ljansson
aggregator_SRCS := $(call in,aggregator,alert commit fair ingest rep senders symbols) \
	$(call in,aggregator/api,api api_metrics api_pool api_route api_symbols) \
	$(call in,aggregator/store,retention store store_backup store_read store_sql)
aggregator_NEEDS := fleet incident symbol render http link post
aggregator_LDLIBS := -lnng -lsqlite3 -lcurl -ljansson

PROGS += sysom-aggregator
INSTALL_PROGS += sysom-aggregator
sysom-aggregator_SRCS := aggregator/aggregator.c
sysom-aggregator_USES := aggregator
sysom-aggregator_LDLIBS := -lsystemd

# a peer for the scripted tests
$(call part,PARTS,wire,aggregator_client)
aggregator_client_SRCS := tests/e2e/aggregator_client.c
aggregator_client_LDLIBS := -lnng

SCRIPTS_TEST += tests/e2e/otlp.sh tests/e2e/aggregator_ingest.sh tests/e2e/answers.sh tests/e2e/aggregator_hostile.sh tests/e2e/slow_readers.sh \
	tests/e2e/alerts.sh tests/e2e/backup.sh tests/e2e/fleet.sh \
	tests/e2e/hangs.sh tests/e2e/imbalance.sh tests/e2e/symbols.sh tests/e2e/baselines.sh

# it holds the workers and counts who waits
test_api_LDFLAGS := $(addprefix -Wl$(comma)--wrap=,MHD_suspend_connection MHD_resume_connection)

$(call unit,aggregator,test_senders test_rep test_api test_retention test_incident test_store test_alert test_commit \
	test_verdict test_fleet test_temporal)
$(call fuzz,aggregator,fuzz_findings fuzz_verdict fuzz_baselines fuzz_fleet fuzz_api fuzz_symbolize)
$(call bench,aggregator,bench_ingest bench_fleet bench_store bench_verdict)
