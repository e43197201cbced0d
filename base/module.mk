# SPDX-License-Identifier: Apache-2.0
LIBS += base
base_SRCS := base/log.c base/loop.c base/buf.c base/idle.c base/config.c base/watchdog.c base/dirs.c base/foreign.c \
	base/http_hosts.c base/http_query.c base/idmap.c base/keyed.c base/peer.c base/quota.c base/realtime.c base/service.c
base_LDLIBS := -lyaml
UNIT += test_keyed
test_keyed_USES := base
test_keyed_LDLIBS := -lcmocka
UNIT += test_peer test_buf test_config test_loop test_idle test_http test_watchdog test_quota
test_http_USES := base
test_peer_USES := base
test_peer_LDLIBS := -lcmocka
test_http_LDLIBS := -lcmocka
test_buf_USES := base
test_buf_LDLIBS := -lcmocka
test_config_USES := base
test_config_LDLIBS := -lcmocka
test_loop_USES := base
test_loop_LDLIBS := -lcmocka
test_idle_USES := base
test_idle_LDLIBS := -lcmocka
test_watchdog_USES := base
test_watchdog_LDLIBS := -lcmocka
test_quota_USES := base
test_quota_LDLIBS := -lcmocka
FUZZ += fuzz_config
fuzz_config_USES := base
