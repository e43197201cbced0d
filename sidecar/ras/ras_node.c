/* SPDX-License-Identifier: Apache-2.0
 * The port belongs to one process of one job, of any user. So only ranks of that user get signals:
 * those that stand still and whose processes the report names. The report uses the numbers of the
 * job's own PID namespace, which we may not know. So if the user has only one job on this node, all
 * its ranks that stand still get signals. */
#include "sidecar/ras/ras_node.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/daemon/log.h"
#include "base/daemon/peer.h"
#include "base/hash.h"
#include "base/limits.h"
#include "reader/reader_queue.h"
#include "sidecar/node.h"
#include "sidecar/os/os_node.h"
#include "sidecar/os/os_signals.h"
#include "sidecar/ras/ras_answer.h"

/* Shorter than the time until a hang is reported, so that a quick answer is already in the hang's
 * first window. */
#define STILL_NS 2500000000ull
#define AGAIN_NS 30000000000ull
/* The timeout of each read and write, and of the whole conversation. The service itself waits 10 s
 * for processes that do not answer. By then the hang has been reported, and another window carries
 * the answer. */
#define WAIT_S	 12
#define WHOLE_MS 15000u
/* Reads of answers are charged to this uid, which no user has, so a service that does not answer
 * delays no user's reads. */
#define RAS_UID UINT32_MAX

struct ras_stats {
	uint64_t asked, answered;
	uint64_t refused; /* nobody listens, or nobody accepts the connection */
	uint64_t slow;	  /* no whole answer in time */
	uint64_t bad;	  /* not an answer of RAS, or too long */
};

struct ras_node {
	struct reader_queue *queue;
	struct loop_source *answers;
	struct reader_job *job; /* in the queue; NULL: none */
	int sock;		/* connecting, or the job's; -1: none */
	uint32_t pids[RAS_PIDS_MAX], pid_count;
	uid_t uid; /* of the process that listens */
	uint64_t asked_ns;
	struct ras_stats stats;
	struct ras_report last; /* the latest answer */
	/* for each slot: hash of the hang's start and of the findings that the hang's windows
	 * already have */
	uint64_t shipped[LIMIT_NODE_PROCESSES];
	uint64_t last_unix_ns; /* 0: none yet */
};

/* In the parser. request: the pids. */
static int read_answer(struct reader_target *t, const void *request, size_t bytes,
		       struct buf *answer)
{
	struct ras_report r;
	int err;

	if (t->fd_count != 1 || bytes % sizeof(uint32_t) || bytes > RAS_PIDS_MAX * sizeof(uint32_t))
		return -EINVAL;
	err = ras_answer_get(t->fds[0], request, (uint32_t)(bytes / sizeof(uint32_t)), &r);
	if (!err)
		buf_append(answer, &r, sizeof(r));
	return err;
}

static const struct reader_op ras_op = {read_answer, sizeof(struct ras_report), 2, WHOLE_MS, true};

/* ---- signals ---- */

static bool stands_still(const struct process *p, uint64_t now_ns)
{
	uint64_t since = p && p->rank && p->pid > 0 ? rank_still_since(p->rank) : 0;

	return since && now_ns > since && now_ns - since >= STILL_NS;
}

static bool one_job(const struct node *n, uid_t uid)
{
	const char *job = NULL;

	for (uint32_t i = 0; i < LIMIT_NODE_PROCESSES; i++) {
		const struct process *p = n->processes[i];

		if (!p || p->state != PROCESS_ATTACHED || p->uid != uid)
			continue;
		if (job && strcmp(job, p->id.job))
			return false;
		job = p->id.job;
	}
	return true;
}

static bool is_named(const struct ras_node *r, pid_t pid)
{
	for (uint32_t i = 0; i < r->pid_count; i++)
		if (r->pids[i] == (uint32_t)pid)
			return r->last.ours >> i & 1;
	return false;
}

/* Ships another window of the hang, unless an earlier one has these findings. The first window has
 * everything known by then. */
static void ship_again(struct node *n, const struct process *p, uint64_t now_ns)
{
	struct ras_node *r = n->ras;
	uint64_t hash = rank_still_since(p->rank);

	for (uint32_t k = 0; k < r->last.finding_count; k++)
		hash = hash_bytes(hash, r->last.finding[k].text, strlen(r->last.finding[k].text));
	if (!r->last.finding_count || hash == r->shipped[p->slot] || !process_is_read(p))
		return;
	if (!rank_stalled_since(p->rank) ||
	    windows_stall_again(n->analysis.windows, p->slot, now_ns))
		r->shipped[p->slot] = hash;
}

static void tell(struct node *n, uint64_t now_ns)
{
	struct ras_node *r = n->ras;
	struct os_signals *os = os_node_signals(n);
	bool all = !r->last.ours && one_job(n, r->uid);

	for (uint32_t i = 0; os && i < LIMIT_NODE_PROCESSES; i++) {
		const struct process *p = n->processes[i];

		if (!stands_still(p, now_ns) || p->uid != r->uid || (!all && !is_named(r, p->pid)))
			continue;
		for (uint32_t k = 0; k < r->last.finding_count; k++) {
			const char *text = r->last.finding[k].text;

			os_signals_count(os, (uint32_t)p->pid, OS_SIGNAL_NCCL_RAS,
					 hash_bytes(HASH_SEED, text, strlen(text)) >> 8, 1, text);
		}
		ship_again(n, p, now_ns);
	}
}

/* ---- the answer ---- */

/* The parser is not trusted, so this ensures that texts are terminated and counts are within
 * bounds. */
static bool take(struct ras_report *to, const struct reader_job *j)
{
	if (j->answer_bytes != sizeof(*to))
		return false;
	memcpy(to, j->answer, sizeof(*to));
	for (uint32_t k = 0; k < RAS_FINDINGS_MAX; k++)
		if (!memchr(to->finding[k].text, 0, sizeof(to->finding[k].text)))
			return false;
	return to->finding_count <= RAS_FINDINGS_MAX;
}

static void forget_question(struct ras_node *r)
{
	if (r->job) {
		reader_job_fini(r->job);
		free(r->job);
	}
	if (r->sock >= 0)
		close(r->sock);
	r->job = NULL;
	r->sock = -1;
}

static void on_answer(void *arg, uint32_t events)
{
	struct node *n = arg;
	struct ras_node *r = n->ras;
	struct reader_job *j = reader_queue_next(r->queue);

	(void)events;
	if (!j)
		return;
	if (!j->err && take(&r->last, j)) {
		r->stats.answered++;
		r->last_unix_ns = clock_realtime_ns();
		log_info("ras", "communicators=%u ranks=%u missing=%u findings=%u",
			 r->last.communicators, r->last.ranks, r->last.missing,
			 r->last.finding_count);
		tell(n, clock_monotonic_ns());
	} else if (j->err == -EAGAIN || j->err == -ETIME || j->err == -EBUSY) {
		r->stats.slow++;
	} else {
		r->stats.bad++;
		log_warn("ras", "the answer of port %llu is not a status of NCCL: %s",
			 (unsigned long long)n->settings.ras_port,
			 strerror(j->err ? -j->err : EBADMSG));
	}
	forget_question(r);
}

/* ---- the question ---- */

static void connect_to(struct node *n, uint64_t now_ns)
{
	struct ras_node *r = n->ras;
	struct sockaddr_in to = {.sin_family = AF_INET,
				 .sin_port = htons((uint16_t)n->settings.ras_port),
				 .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};

	r->asked_ns = now_ns;
	r->pid_count = 0;
	for (uint32_t i = 0; i < LIMIT_NODE_PROCESSES && r->pid_count < RAS_PIDS_MAX; i++)
		if (n->processes[i] && n->processes[i]->pid > 0)
			r->pids[r->pid_count++] = (uint32_t)n->processes[i]->pid;
	r->sock = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (r->sock < 0 ||
	    (connect(r->sock, (struct sockaddr *)&to, sizeof(to)) && errno != EINPROGRESS)) {
		r->stats.refused++;
		forget_question(r);
	}
}

static bool make_blocking(int sock)
{
	struct timeval wait = {.tv_sec = WAIT_S};

	return !fcntl(sock, F_SETFL, 0) &&
	       !setsockopt(sock, SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof(wait)) &&
	       !setsockopt(sock, SOL_SOCKET, SO_SNDTIMEO, &wait, sizeof(wait));
}

/* Hands the connection to a reader, a second after it was begun, so that nobody has to wait for the
 * connection. */
static void hand_over(struct ras_node *r)
{
	struct pollfd p = {.fd = r->sock, .events = POLLOUT};
	struct reader_job *j;
	socklen_t bytes = sizeof(int);
	int err = ETIMEDOUT;

	if (poll(&p, 1, 0) > 0)
		getsockopt(r->sock, SOL_SOCKET, SO_ERROR, &err, &bytes);
	/* the service must have accepted the connection by now, so that the kernel knows whose it
	 * is */
	j = !err && peer_user(r->sock, &r->uid) && make_blocking(r->sock) ? calloc(1, sizeof(*j))
									  : NULL;
	if (!j) {
		r->stats.refused++;
		forget_question(r);
		return;
	}
	*j = (struct reader_job){.op = &ras_op, .fds = &r->sock, .fd_count = 1};
	j->bytes = r->pid_count * sizeof(r->pids[0]);
	j->request = malloc(j->bytes + 1);
	if (j->request)
		memcpy(j->request, r->pids, j->bytes);
	r->job = j;
	if (!j->request) {
		forget_question(r);
		return;
	}
	r->stats.asked++;
	reader_queue_push_as(r->queue, j, RAS_UID);
}

void ras_node_tend(struct node *n, uint64_t now_ns)
{
	struct ras_node *r = n->ras;
	bool still = false;

	if (!r || r->job)
		return;
	if (r->sock >= 0) {
		hand_over(r);
		return;
	}
	if (r->asked_ns && now_ns - r->asked_ns < AGAIN_NS)
		return;
	for (uint32_t i = 0; i < LIMIT_NODE_PROCESSES && !still; i++)
		still = stands_still(n->processes[i], now_ns);
	if (still)
		connect_to(n, now_ns);
}

/* ---- life ---- */

int ras_node_open(struct node *n)
{
	struct ras_node *r;
	int err;

	if (!n->settings.ras_port)
		return 0;
	r = calloc(1, sizeof(*r));
	if (!r)
		return -ENOMEM;
	r->sock = -1;
	err = reader_queue_open(&r->queue, n->reader, NULL);
	if (!err)
		err = loop_add_fd(n->loop, reader_queue_fd(r->queue), EPOLLIN, on_answer, n,
				  &r->answers);
	n->ras = r;
	if (err)
		ras_node_close(n);
	return err;
}

void ras_node_close(struct node *n)
{
	struct ras_node *r = n->ras;

	n->ras = NULL;
	if (!r)
		return;
	loop_source_close(r->answers);
	reader_queue_close(r->queue);
	r->job = NULL; /* the queue owned it */
	forget_question(r);
	free(r);
}

void ras_node_json(const struct node *n, struct buf *out)
{
	static const struct ras_node off;
	const struct ras_node *r = n->ras ? n->ras : &off;

	buf_printf(out,
		   "\"ras\":{\"port\":%llu,\"questions\":%llu,\"answers\":%llu,\"refused\":%llu,"
		   "\"slow\":%llu,\"nonsense\":%llu,\"at_unix_ns\":\"%llu\",\"communicators\":%u,"
		   "\"ranks\":%u,\"missing\":%u,\"findings\":%u},",
		   (unsigned long long)n->settings.ras_port, (unsigned long long)r->stats.asked,
		   (unsigned long long)r->stats.answered, (unsigned long long)r->stats.refused,
		   (unsigned long long)r->stats.slow, (unsigned long long)r->stats.bad,
		   (unsigned long long)r->last_unix_ns, r->last.communicators, r->last.ranks,
		   r->last.missing, r->last.finding_count);
}
