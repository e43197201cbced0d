/* SPDX-License-Identifier: Apache-2.0
 * attach.h - the handshake over the Unix socket (SOCK_SEQPACKET, SYSOM_SOCKET_PATH, default
 * ATTACH_DEFAULT_PATH). docs/ring-format.md is normative.
 *   process -> sysomd   struct attach_hello, with two memfds by SCM_RIGHTS: ring, reader page
 *   sysomd  -> process  struct attach_command ATTACH_ACCEPT or ATTACH_REFUSE
 *   sysomd  -> process  struct attach_command ATTACH_OFF, ON, FLUSH or CHANNELS, any time
 *   process -> sysomd   struct attach_state, after each command and when its state changes
 * The process closes the socket when it detaches. If the socket closes while the process lives,
 * sysomd has gone away, and the process connects again with a back-off of 0.1 to 2 s. sysomd takes
 * the peer's pid from SO_PEERCRED and never from the message. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#define ATTACH_MAGIC	    0x48435441u /* "ATCH" */
#define ATTACH_VERSION	    2u
#define ATTACH_FDS	    2
#define ATTACH_DEFAULT_PATH "/run/sysom/sysomd.sock"
#define ATTACH_TEXT_BYTES   128

/* Texts are NUL-terminated, but the receiver terminates them again. -1: unknown. */
struct attach_hello {
	uint32_t magic, version;
	uint32_t bytes; /* sizeof(struct attach_hello) */
	/* as the process sees it; sysomd may see another number, in another PID namespace */
	int32_t pid;
	int32_t rank, world_size, local_rank, local_world_size;
	uint64_t start_time_ticks;
	/* The first of these that is set: SYSOM_JOB, Slurm's NAME#JOBID.STEPID,
	 * TORCHELASTIC_RUN_ID, PBS_JOBID, LSB_JOBID; else "" */
	char job[ATTACH_TEXT_BYTES];
	char role[ATTACH_TEXT_BYTES]; /* SYSOM_ROLE, else the launcher's name for it, or "" */
	char pod[ATTACH_TEXT_BYTES];  /* in Kubernetes POD_NAME or HOSTNAME; else "" */
	char gpu_uuid
	    [ATTACH_TEXT_BYTES]; /* entry of CUDA_VISIBLE_DEVICES for the local rank, as given */
	char program[ATTACH_TEXT_BYTES]; /* base name of the script or binary */
	/* "cuda=13000 cupti=130001". If SYSOM_SPANS is not a compiled catalogue, also
	 * "spans=bad:LINE". If nothing reads a SYSOM_ variable of the environment, also
	 * "unknown_variable=" and its name. */
	char libs[ATTACH_TEXT_BYTES];
	/* Appended later; a hello of ATTACH_HELLO_BYTES_MIN ends before them. "" without a pod:
	 * POD_NAMESPACE, CONTAINER_NAME, NODE_NAME */
	char pod_namespace[ATTACH_TEXT_BYTES];
	char pod_container[ATTACH_TEXT_BYTES];
	char pod_host[ATTACH_TEXT_BYTES];
};
#define ATTACH_HELLO_BYTES_MIN offsetof(struct attach_hello, pod_namespace)

enum attach_command_kind {
	ATTACH_ACCEPT = 1,
	ATTACH_REFUSE = 2, /* arg: errno */
	ATTACH_OFF = 3,	   /* stop tracing until ATTACH_ON; arg: 0 */
	ATTACH_ON = 4,
	ATTACH_FLUSH = 5,    /* deliver device records now */
	ATTACH_CHANNELS = 6, /* record NCCL's KernelCh events for arg milliseconds; 0: stop */
};

struct attach_command {
	uint32_t magic, kind;
	int32_t arg;
	uint32_t serial; /* echoed in attach_state */
};

struct attach_state {
	uint32_t magic;
	uint32_t serial;      /* serial of the last command that was carried out */
	uint32_t trace_state; /* enum ring_trace_state */
	uint32_t cupti_state; /* enum ring_cupti_state */
};

/* Fills hello from the environment and /proc/self. Allocates nothing, keeps errno. */
void attach_hello_fill(struct attach_hello *hello);
/* Socket path from SYSOM_SOCKET_PATH or the default; 0 or -ENAMETOOLONG. */
int attach_path(char *out, size_t out_bytes);
/* How long an attempt to connect waits. If a user's connections fill sysomd's queue, only waiting
 * gets a place. The bound is less than the 300 ms for which a process at its exit waits for the
 * connecting thread. */
#define ATTACH_WAIT_MS 250
/* Makes one attempt: connects, waits at most ATTACH_WAIT_MS for a place in the queue, and sends
 * hello with the ring and its reader page. Returns a connected, non-blocking fd, or -errno
 * (-EAGAIN: no place, -ENOENT, -ECONNREFUSED, -EACCES, -EPERM if the socket's owner is neither root
 * nor our uid...). */
int attach_connect(const char *path, const struct attach_hello *hello, const int fds[ATTACH_FDS]);
/* Sends hello and the descriptors over a connected socket. 0 or -errno. */
int attach_send(int sock, const struct attach_hello *hello, const int fds[ATTACH_FDS]);
/* sysomd's side: receives one message from a newly accepted, non-blocking socket. On 0, *hello is
 * terminated text and the caller owns fds. The fds may be of any kind: closing a stranger's
 * descriptors may block forever. -EAGAIN: nothing yet. -EPROTO: not a valid hello, or not exactly
 * two descriptors (all received descriptors are closed). -EPROTONOSUPPORT: the same, because the
 * version differs. -errno otherwise. */
int attach_accept(int sock, struct attach_hello *hello, int fds[ATTACH_FDS]);
