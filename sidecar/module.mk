# SPDX-License-Identifier: Apache-2.0
# The daemon's parts are a library, so that tests and benchmarks link them; sysomd.c is the program.
LIBS += sidecar
sidecar_SRCS := sidecar/clockmap.c sidecar/join.c sidecar/join_match.c sidecar/recorder.c \
	sidecar/anomaly.c sidecar/spool.c sidecar/uplink.c sidecar/canary.c sidecar/rank.c \
	sidecar/registration.c sidecar/process.c sidecar/drain.c sidecar/ship.c sidecar/status.c \
	sidecar/http.c
sidecar_LDLIBS := -lnng -lmicrohttpd

PROGS += sysomd
sysomd_SRCS := sidecar/sysomd.c
sysomd_USES := sidecar wire analysis ring base
