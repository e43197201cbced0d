# SPDX-License-Identifier: Apache-2.0
LIBS += base
base_SRCS := base/log.c base/loop.c base/buf.c base/idle.c base/config.c base/watchdog.c base/dirs.c \
	base/realtime.c
base_LDLIBS := -lyaml
UNIT += test_buf test_config test_loop test_idle test_watchdog
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
