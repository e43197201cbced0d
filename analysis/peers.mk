# SPDX-License-Identifier: Apache-2.0
analysis_SRCS += analysis/peers.c analysis/peers_noise.c analysis/peers_sysom.c analysis/peers_test.c \
	analysis/local_peers.c analysis/workers.c analysis/workers_level.c analysis/workers_tell.c \
	analysis/skew.c analysis/roles.c
BENCH += bench_peers
bench_peers_SRCS := tests/bench/bench_peers.c cli/replay_csv.c cli/trace_reader.c
bench_peers_USES := analysis base
bench_peers_LDLIBS := -lz -lzstd
UNIT += test_peers
test_peers_USES := analysis base
test_peers_LDLIBS := -lcmocka
UNIT += test_roles
test_roles_USES := analysis base
test_roles_LDLIBS := -lcmocka
UNIT += test_skew
test_skew_USES := analysis base
test_skew_LDLIBS := -lcmocka -lm
SCRIPTS_TEST += tests/e2e/replay_workers.py
UNIT += test_local_peers
test_local_peers_USES := analysis base
test_local_peers_LDLIBS := -lcmocka -lm
