# SPDX-License-Identifier: Apache-2.0
# all but main() is a library, for the unit tests
LIBS += aggregator
aggregator_SRCS := aggregator/api.c aggregator/commit.c aggregator/digest.c aggregator/fleet.c \
	aggregator/incident.c aggregator/ingest.c aggregator/store.c aggregator/text.c
aggregator_LDLIBS := -lnng -lsqlite3 -lmicrohttpd -ljansson

PROGS += sysom-aggregator
INSTALL_PROGS += sysom-aggregator
sysom-aggregator_SRCS := aggregator/aggregator.c
sysom-aggregator_USES := aggregator wire analysis base
