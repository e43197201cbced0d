/* SPDX-License-Identifier: Apache-2.0
 * peer.c - a sysomd of two hundred lines for the tests of the preload: runs a command with the
 * library in front, accepts every process that attaches, and prints what comes through the rings,
 * one line per event: "PID LANE KIND key=value...".
 *
 *   peer [--commands FILE] [--no-preload] [--late MS] [--join] SO CMD ARGS...
 *
 * --join: sysomd's join runs, too, and each device record that met its launch is a line "PID - joined
 * corr=C launch=T"; the job's clocks must be monotonic ones.
 * FILE holds lines "MS off|on|flush|hangup|die": what to send, so many milliseconds after the first attach.
 * Exits with the command's status; 120 + signal when it was killed. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "node/join/join.h"
#include "ring/attach.h"
#include "ring/ring_reader.h"

#define PEER_RINGS 64

struct peer_ring {
	struct ring_reader *reader;
	struct join *join;
	int sock, pid;
};
static bool joining;
static struct peer_ring rings[PEER_RINGS];
static int ring_count;
static char socket_path[100];

static void print_launch(const struct event_launch *e)
{
	printf("func=%llx stream=%llx grid=%u,%u,%u block=%u,%u,%u api=%u dur=%u number=%u",
	       (unsigned long long)e->func, (unsigned long long)e->stream, e->grid[0], e->grid[1],
	       e->grid[2], e->block[0], e->block[1], e->block[2], e->api, e->duration, e->number);
}

static void print_coll(const struct event_coll *e)
{
	printf(
	    "comm=%llx func=%u stream=%llx count=%llu capture=%llu seq=%d peer=%d dtype=%u dur=%u",
	    (unsigned long long)e->comm, e->func, (unsigned long long)e->stream,
	    (unsigned long long)e->count, (unsigned long long)e->capture, (int)e->seq, e->peer,
	    e->dtype, e->duration);
}

static void print_kernel(const struct ring_reader *r, const struct event_kernel *e)
{
	printf("end=%llu corr=%u stream=%u context=%u device=%u grid=%u,%u,%u block=%u,%u,%u "
	       "node=%llu number=%u exported=%llu name=%s",
	       (unsigned long long)e->end, e->correlation, e->stream_id, e->context_id, e->device,
	       e->grid[0], e->grid[1], e->grid[2], e->block[0], e->block[1], e->block[2],
	       (unsigned long long)e->graph_node_id, e->number, (unsigned long long)e->exported,
	       ring_reader_name(r, e->name));
}

static void print_plugin(const struct event_plugin *e)
{
	printf("type=%u seq=%u handle=%llx parent=%llx value=%llu channel=%d", e->type, e->seq,
	       (unsigned long long)e->handle, (unsigned long long)e->parent,
	       (unsigned long long)e->value, e->channel);
}

static void print_transfer(const struct event_transfer *e)
{
	printf("comm=%llx func=%u seq=%u rank=%u peer=%d channel=%u transfers=%u bytes=%llu "
	       "wait=%llu duration=%u",
	       (unsigned long long)e->comm_hash, e->func, e->seq, e->rank, e->peer, e->channel,
	       e->transfers, (unsigned long long)e->bytes, (unsigned long long)e->wait,
	       e->duration);
}

static void print_graph(const struct event_graph *e)
{
	printf("graph=%llx exec=%llx capture=%llu action=%u nodes=%u", (unsigned long long)e->graph,
	       (unsigned long long)e->exec, (unsigned long long)e->capture, e->action, e->nodes);
}

static void print_comm(const struct event_comm *e)
{
	printf("comm=%llx id=%llx parent=%llx nranks=%d rank=%d action=%u color=%u",
	       (unsigned long long)e->comm, (unsigned long long)e->id,
	       (unsigned long long)e->parent, e->nranks, e->rank, e->action, e->color);
}

static void print_stream(const struct event_stream *e)
{
	printf("stream=%llx context=%llx stream_id=%u context_id=%u device=%u",
	       (unsigned long long)e->stream, (unsigned long long)e->context, e->stream_id,
	       e->context_id, e->device);
}

static const char *name_of_kind(unsigned kind)
{
	static const char *const names[] = {[EVENT_LAUNCH] = "launch",
					    [EVENT_GRAPH_LAUNCH] = "graph_launch",
					    [EVENT_COLL] = "coll",
					    [EVENT_COMM] = "comm",
					    [EVENT_MEM] = "mem",
					    [EVENT_SYNC] = "sync",
					    [EVENT_STEP_BEGIN] = "step_begin",
					    [EVENT_STEP_END] = "step_end",
					    [EVENT_SPAN_BEGIN] = "span_begin",
					    [EVENT_SPAN_END] = "span_end",
					    [EVENT_STREAM] = "stream",
					    [EVENT_CONTEXT] = "context",
					    [EVENT_GAP] = "gap",
					    [EVENT_PLUGIN] = "plugin",
					    [EVENT_TRANSFER] = "transfer",
					    [EVENT_SPAN_REQUEST] = "span_request",
					    [EVENT_ANCHOR] = "anchor",
					    [EVENT_GRAPH] = "graph",
					    [EVENT_KERNEL] = "kernel",
					    [EVENT_COPY] = "copy",
					    [EVENT_GRAPH_EXEC] = "graph_exec"};

	return kind < sizeof(names) / sizeof(names[0]) && names[kind] ? names[kind] : "?";
}

static void print_event(const struct peer_ring *p, const union ring_event *e,
			const struct ring_lane_view *v)
{
	unsigned kind = e->head.kind;

	printf("%d %u %s flags=%u t=%llu clock=%u ", p->pid, v->lane, name_of_kind(kind),
	       e->head.flags, (unsigned long long)e->head.t, v->clock_source);
	switch (kind) {
	case EVENT_LAUNCH:
	case EVENT_GRAPH_LAUNCH:
		print_launch(&e->launch);
		break;
	case EVENT_COLL:
		print_coll(&e->coll);
		break;
	case EVENT_COMM:
		print_comm(&e->comm);
		break;
	case EVENT_MEM:
		printf("bytes=%llu address=%llx api=%u result=%u dur=%u",
		       (unsigned long long)e->mem.bytes, (unsigned long long)e->mem.address,
		       e->mem.api, e->mem.result, e->mem.duration);
		break;
	case EVENT_SYNC:
		printf("handle=%llx api=%u dur=%u", (unsigned long long)e->sync.handle, e->sync.api,
		       e->sync.duration);
		break;
	case EVENT_STEP_BEGIN:
	case EVENT_STEP_END:
		printf("index=%u count=%u work=%g,%g more=%g,%g phase=%s", e->step.index,
		       e->step.work_count, e->step.work[0], e->step.work[1], e->step.work[2],
		       e->step.work[3], ring_reader_name(p->reader, e->step.phase));
		break;
	case EVENT_SPAN_BEGIN:
	case EVENT_SPAN_END:
		printf("work=%g,%g,%g,%g request=%llx process=%u thread=%u ",
		       (double)e->span.work[0], (double)e->span.work[1], (double)e->span.work[2],
		       (double)e->span.work[3], (unsigned long long)e->span.domain, e->span.process,
		       e->span.thread);
		printf("span=%llu depth=%u source=%u name=%s", (unsigned long long)e->span.span,
		       e->span.depth, e->span.source, ring_reader_name(p->reader, e->span.name));
		break;
	case EVENT_SPAN_REQUEST:
		for (unsigned i = 0; i < SPAN_REQUEST_SLOTS; i++)
			printf("request%u=%llx,%u,%u ", i,
			       (unsigned long long)e->span_request.request[i],
			       e->span_request.tokens[i], e->span_request.done >> i & 1);
		printf("name=%s", ring_reader_name(p->reader, e->span_request.name));
		break;
	case EVENT_STREAM:
	case EVENT_CONTEXT:
		print_stream(&e->stream);
		break;
	case EVENT_GAP:
		printf("cause=%u detail=%d to=%llu", e->gap.cause, e->gap.detail,
		       (unsigned long long)e->gap.to);
		break;
	case EVENT_PLUGIN:
		print_plugin(&e->plugin);
		break;
	case EVENT_TRANSFER:
		print_transfer(&e->transfer);
		break;
	case EVENT_GRAPH:
		print_graph(&e->graph);
		break;
	case EVENT_KERNEL:
	case EVENT_GRAPH_EXEC:
		print_kernel(p->reader, &e->kernel);
		break;
	case EVENT_COPY:
		printf("end=%llu corr=%u stream=%u bytes=%llu", (unsigned long long)e->copy.end,
		       e->copy.correlation, e->copy.stream_id, (unsigned long long)e->copy.bytes);
		break;
	default:
		break;
	}
	putchar('\n');
}

static void joined_host(void *arg, const struct record *r, const struct step_mark *mark)
{
}

static void joined_device(void *arg, const struct record *r)
{
	const struct peer_ring *p = arg;

	if (!(r->flags & RECORD_FLAG_UNMATCHED) && r->launch_ns)
		printf("%d - joined corr=%u launch=%llu\n", p->pid, r->correlation,
		       (unsigned long long)r->launch_ns);
}

static const char *joined_name(void *arg, uint32_t id)
{
	return ring_reader_name(((struct peer_ring *)arg)->reader, id);
}

static void start_join(struct peer_ring *p)
{
	static const struct clockmap clock = {
	    .anchors[0] = {1, 1, 1, 0}, .count = 1, .ns_per_tick = 1};
	const struct join_sink sink = {p, joined_host, joined_device, joined_name, NULL, NULL};

	if (join_open(&p->join, &sink, &clock, ring_reader_lane_count(p->reader)))
		exit(97);
}

static void drain(struct peer_ring *p)
{
	static union ring_event events[512];
	struct ring_lane_view view;
	size_t n;

	if (!p->reader)
		return;
	for (uint32_t lane = 0; lane < ring_reader_lane_count(p->reader); lane++)
		while ((n = ring_reader_drain_lane(p->reader, lane, events, 512, &view))) {
			for (size_t i = 0; i < n; i++)
				print_event(p, &events[i], &view);
			if (p->join)
				join_push(p->join, events, n, &view, clock_monotonic_ns());
		}
	if (p->join)
		join_run(p->join, clock_monotonic_ns());
	ring_reader_publish(p->reader, clock_monotonic_ns());
}

static void print_counters(struct peer_ring *p)
{
	static const char *const names[] = {
#define X(name, text, events) text,
	    RING_DROP_CAUSES (X)
#undef X
	};
	struct ring_counters c;
	const struct ring_stats *s = ring_reader_stats(p->reader);

	ring_reader_counters(p->reader, &c);
	printf("%d - counters trace=%u cupti=%u events=%llu lapped=%llu torn=%llu", p->pid,
	       c.trace_state, c.cupti_state, (unsigned long long)c.events,
	       (unsigned long long)s->lost_lapped, (unsigned long long)s->lost_torn);
	for (unsigned i = 0; i < RING_DROP_COUNT; i++)
		printf(" %s=%llu", names[i], (unsigned long long)c.drops[i]);
	printf(" plugin_inside=%llu\n", (unsigned long long)c.plugin_calls);
}

static int listen_on(const char *path)
{
	struct sockaddr_un a = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	strncpy(a.sun_path, path, sizeof(a.sun_path) - 1);
	if (fd < 0 || bind(fd, (struct sockaddr *)&a, sizeof(a)) || listen(fd, 64)) {
		perror("peer: listen");
		exit(99);
	}
	return fd;
}

static void command(struct peer_ring *p, uint32_t kind, int32_t arg, uint32_t serial)
{
	struct attach_command c = {ATTACH_MAGIC, kind, arg, serial};

	send(p->sock, &c, sizeof(c), MSG_NOSIGNAL | MSG_DONTWAIT);
}

static void accept_one(int listener)
{
	struct attach_hello hello;
	struct peer_ring *p = &rings[ring_count];
	int sock = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK), err;
	int fds[ATTACH_FDS];
	struct pollfd pf = {.fd = sock, .events = POLLIN};

	if (sock < 0 || ring_count == PEER_RINGS)
		return;
	poll(&pf, 1, 1000);
	err = attach_accept(sock, &hello, fds);
	if (err || ring_reader_open(&p->reader, fds[0], fds[1])) {
		printf("0 - refused err=%d\n", err);
		close(sock);
		return;
	}
	p->sock = sock;
	p->pid = hello.pid;
	if (joining)
		start_join(p);
	ring_count++;
	printf("%d - attach rank=%d world=%d program=%s job=%s libs=%s\n", hello.pid, hello.rank,
	       hello.world_size, hello.program, hello.job, hello.libs);
	command(p, ATTACH_ACCEPT, 0, 0);
}

static void listen_to(struct peer_ring *p)
{
	struct attach_state s;

	while (p->sock >= 0) {
		ssize_t n = recv(p->sock, &s, sizeof(s), MSG_DONTWAIT);

		if (n == sizeof(s)) {
			printf("%d - state serial=%u trace=%u cupti=%u\n", p->pid, s.serial,
			       s.trace_state, s.cupti_state);
			continue;
		}
		if (n == 0) {
			close(p->sock);
			p->sock = -1;
			printf("%d - closed\n", p->pid);
		}
		break;
	}
}

static uint32_t serial_last;

static void run_command(const char *what)
{
	int count = ring_count;

	printf("0 - command %s\n", what);
	serial_last++;
	for (int i = 0; i < count; i++) {
		if (rings[i].sock < 0)
			continue;
		drain(&rings[i]);
		if (!strcmp(what, "off"))
			command(&rings[i], ATTACH_OFF, 0, serial_last);
		else if (!strcmp(what, "on"))
			command(&rings[i], ATTACH_ON, 0, serial_last);
		else if (!strcmp(what, "flush"))
			command(&rings[i], ATTACH_FLUSH, 0, serial_last);
		else if (!strncmp(what, "channels=", 9))
			command(&rings[i], ATTACH_CHANNELS, atoi(what + 9), serial_last);
		else if (!strcmp(what, "hangup")) {
			close(rings[i].sock);
			rings[i].sock = -1;
			ring_reader_close(rings[i].reader);
			rings[i].reader = NULL;
		}
	}
}

static void poll_commands(FILE *from, uint64_t start_ns)
{
	static unsigned long at_ms;
	static char what[24];

	for (;;) {
		if (!what[0] && fscanf(from, "%lu %23s", &at_ms, what) != 2)
			return;
		if (clock_monotonic_ns() - start_ns < at_ms * 1000000ull)
			return;
		run_command(what);
		what[0] = 0;
	}
}

static pid_t spawn(char **argv, const char *so)
{
	pid_t pid = fork();

	if (pid)
		return pid;
	setenv("SYSOM_SOCKET_PATH", socket_path, 1);
	if (so)
		setenv("LD_PRELOAD", so, 1);
	execvp(argv[0], argv);
	perror(argv[0]);
	_exit(98);
}

int main(int argc, char **argv)
{
	FILE *commands = NULL;
	unsigned long late_ms = 0;
	bool preload = true;
	int i = 1, listener = -1, status = 0;
	uint64_t begin, attached = 0;
	char dir[] = "/tmp/sysom-peer-XXXXXX";
	pid_t child;

	for (; i < argc && !strncmp(argv[i], "--", 2); i++) {
		if (!strcmp(argv[i], "--commands"))
			commands = fopen(argv[++i], "r");
		else if (!strcmp(argv[i], "--late"))
			late_ms = strtoul(argv[++i], NULL, 10);
		else if (!strcmp(argv[i], "--join"))
			joining = true;
		else if (!strcmp(argv[i], "--no-preload"))
			preload = false;
	}
	if (argc - i < 2 || !mkdtemp(dir))
		return 2;
	/* whole lines: the command writes to the same place */
	setvbuf(stdout, NULL, _IOLBF, 1 << 16);
	snprintf(socket_path, sizeof(socket_path), "%s/s", dir);
	begin = clock_monotonic_ns();
	child = spawn(argv + i + 1, preload ? argv[i] : NULL);
	for (;;) {
		pid_t done = waitpid(child, &status, WNOHANG);

		if (listener < 0 && clock_monotonic_ns() - begin >= late_ms * 1000000ull)
			listener = listen_on(socket_path);
		if (listener >= 0) {
			struct pollfd pf = {.fd = listener, .events = POLLIN};

			if (poll(&pf, 1, 10) > 0)
				accept_one(listener);
		}
		if (ring_count && !attached)
			attached = clock_monotonic_ns();
		if (commands && attached)
			poll_commands(commands, attached);
		for (int k = 0; k < ring_count; k++) {
			drain(&rings[k]);
			listen_to(&rings[k]);
		}
		if (done == child)
			break;
	}
	/* who dialled and was gone before the last turn */
	for (int k = 0; listener >= 0 && k < 8; k++)
		accept_one(listener);
	for (int k = 0; k < ring_count; k++) {
		drain(&rings[k]);
		if (rings[k].join)
			join_finish(rings[k].join);
		if (rings[k].reader)
			print_counters(&rings[k]);
	}
	unlink(socket_path);
	rmdir(dir);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 120 + WTERMSIG(status);
}
