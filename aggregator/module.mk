# SPDX-License-Identifier: Apache-2.0
# all but main() is a library, for the unit tests
LIBS += aggregator
# From windows to incidents and their verdicts: also a library of its own, for `sysom replay window`.
LIBS += incident
incident_SRCS := aggregator/digest.c aggregator/finding_json.c aggregator/incident.c aggregator/incident_judge.c \
	aggregator/host_timeline.c aggregator/incident_json.c aggregator/incident_share.c aggregator/incident_views.c aggregator/ledger_json.c aggregator/incident_books.c aggregator/coll_split.c aggregator/picture.c aggregator/text.c aggregator/verdict.c \
	aggregator/verdict_sketch.c aggregator/wait_class.c aggregator/window_ledger.c
incident_LDLIBS := -ljansson
# From beats and sketches to findings: the same, for `sysom replay events --live`.
LIBS += fleet
fleet_SRCS := aggregator/baselines.c aggregator/clocks.c aggregator/cross.c aggregator/cross_colls.c \
	aggregator/cross_findings.c aggregator/cross_rows.c aggregator/cross_skew.c aggregator/fleet.c aggregator/fleet_admit.c \
	aggregator/fleet_detect.c aggregator/fleet_json.c aggregator/fleet_kinds.c aggregator/fleet_pages.c aggregator/fleet_pull.c aggregator/fleet_roles.c \
	aggregator/fleet_sources.c aggregator/fleet_temporal.c aggregator/hang.c \
	aggregator/sketch_json.c aggregator/sketch_merge.c aggregator/sql.c aggregator/temporal.c aggregator/waterline.c
fleet_LDLIBS := -lsqlite3 -ljansson
aggregator_SRCS := $(incident_SRCS) $(fleet_SRCS) aggregator/alert.c aggregator/api.c aggregator/api_metrics.c \
	aggregator/api_pool.c aggregator/api_route.c aggregator/api_symbols.c aggregator/commit.c \
	aggregator/fair.c aggregator/ingest.c aggregator/rep.c aggregator/senders.c aggregator/sp.c aggregator/store.c aggregator/store_read.c aggregator/store_sql.c \
	aggregator/symbols.c
aggregator_LDLIBS := -lnng -lsqlite3 -lmicrohttpd -lcurl -ljansson

PROGS += sysom-aggregator
INSTALL_PROGS += sysom-aggregator
sysom-aggregator_SRCS := aggregator/aggregator.c
sysom-aggregator_USES := aggregator symbol wire analysis base
sysom-aggregator_LDLIBS := -lsystemd

# a peer for the scripted tests
TEST_PARTS += $(B)/parts/aggregator_client
$(B)/parts/aggregator_client: tests/e2e/aggregator_client.c $(B)/libwire.a $(B)/libanalysis.a $(B)/libbase.a
	@mkdir -p $(@D)
	$(Q)$(CC) $(CFLAGS_ALL) -o $@ $^ $(LDFLAGS_ALL) $(wire_LDLIBS) $(base_LDLIBS) -lnng -lm -lpthread

SCRIPTS_TEST += tests/e2e/aggregator_ingest.sh tests/e2e/aggregator_hostile.sh tests/e2e/slow_readers.sh tests/e2e/alerts.sh tests/e2e/fleet.sh \
	tests/e2e/hangs.sh tests/e2e/imbalance.sh tests/e2e/symbols.sh tests/e2e/baselines.sh

FUZZ += fuzz_findings fuzz_baselines
fuzz_findings_USES := aggregator wire analysis base
fuzz_baselines_USES := aggregator wire analysis base
FUZZ += fuzz_sp
fuzz_sp_USES := aggregator base
FUZZ += fuzz_fleet
fuzz_fleet_USES := aggregator wire analysis base

UNIT += test_senders
test_senders_USES := aggregator wire analysis base
test_senders_LDLIBS := -lcmocka
UNIT += test_api
test_api_USES := aggregator symbol wire analysis base
test_api_LDLIBS := -lcmocka
# it holds the workers and counts who waits
test_api_LDFLAGS := $(addprefix -Wl$(comma)--wrap=,MHD_suspend_connection MHD_resume_connection)
FUZZ += fuzz_api
fuzz_api_USES := aggregator symbol wire analysis base

UNIT += test_incident test_store
test_incident_USES := aggregator wire analysis base
test_incident_LDLIBS := -lcmocka
test_store_USES := aggregator wire analysis base
test_store_LDLIBS := -lcmocka

UNIT += test_alert test_commit
test_alert_USES := aggregator wire analysis base
test_alert_LDLIBS := -lcmocka
test_commit_USES := aggregator wire analysis base
test_commit_LDLIBS := -lcmocka
UNIT += test_coll_split
test_coll_split_USES := aggregator wire analysis base
test_coll_split_LDLIBS := -lcmocka -lm
UNIT += test_window_ledger
test_window_ledger_USES := aggregator wire analysis base
test_window_ledger_LDLIBS := -lcmocka
UNIT += test_verdict
test_verdict_USES := aggregator wire analysis base
test_verdict_LDLIBS := -lcmocka
UNIT += test_clocks test_cross test_fleet test_hang test_temporal
test_clocks_USES := aggregator wire analysis base
test_clocks_LDLIBS := -lcmocka
test_cross_USES := aggregator wire analysis base
test_cross_LDLIBS := -lcmocka
test_fleet_USES := aggregator wire analysis base
test_fleet_LDLIBS := -lcmocka
test_hang_USES := aggregator wire analysis base
test_hang_LDLIBS := -lcmocka
test_temporal_USES := aggregator wire analysis base
test_temporal_LDLIBS := -lcmocka

BENCH += bench_ingest
BENCH += bench_fleet
BENCH += bench_store
bench_store_USES := aggregator symbol wire analysis base
BENCH += bench_verdict
bench_verdict_USES := aggregator wire analysis base
bench_fleet_USES := aggregator wire analysis base
bench_ingest_USES := aggregator wire analysis base

FUZZ += fuzz_symbolize
fuzz_symbolize_USES := aggregator symbol base
