/* SPDX-License-Identifier: Apache-2.0
 * accuracy.c - how exact are the sampler's user stacks? Samples a live process with
 * snapshot.bpf.c (the sampler's own unwind.h), unwinds each very sample with libdw and, where
 * they disagree, with libunwind, and scores the walk in the kernel beside frame pointers alone and
 * the paper's Algorithm 1. usage: accuracy [OPTION...] PID -t        the build with tail calls -n
 * NAME   of the line that is printed -s N      seconds -r HZ     samples per second and CPU -v N
 * show that many disagreements -w FILE   write one exact sample as a snapshot -B TEXT   treat files
 * whose path has TEXT in it as if they had no unwind information (libdw
 *             still sees it): what becomes of stripped code, with a truth to compare with
 * -D DIR    name the frames from DIR/.build-id (and the files themselves) ... -N FILE   ... and
 * write the names there (names.h) -e N      end after so many samples, before the seconds are over
 * -u N      exit 1 if more than N stacks are false though they reached the root without a marked
 * frame -m N,P    exit 1 if there are fewer than N samples or fewer than P % of the stacks are
 * exact */
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <limits.h>
#include <linux/perf_event.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "bpf/snapshot_loop.skel.h"
#include "bpf/snapshot_tail.skel.h"
#include "sampler/unwind/unwind_replay.h"
#include "tests/accuracy/names.h"
#include "tests/accuracy/record.h"
#include "tests/accuracy/truth.h"

#define CPUS_MAX	256
#define TABLE_BYTES_MAX (64u << 20)

/* One algorithm's account. */
struct score {
	const char *name;
	uint64_t exact, truth_frames, our_frames, common_frames, truncated;
};

enum { BY_TABLE, BY_FP, BY_PAPER, ALGORITHMS };

struct run {
	uint32_t pid;
	const char *name;
	struct unwind_store *store;
	struct mapping_scan scan;
	struct unwind_process process;
	struct truth *truth;
	struct unwind_replay *replay[ALGORITHMS];
	struct snapshot_record *record; /* the one that is being judged */
	struct bpf_map *shards;
	int shard_fd[UNWIND_SHARD_MAX];
	int processes_fd, counters_fd, ring_fd, sample_fd;
	int perf[CPUS_MAX];
	int cpus;
	struct score score[ALGORITHMS];
	uint64_t samples, in_kernel, scanned, by_fp, silent, cut, live;
	/* walks over the record that gave other frames than the one in the kernel, and those of
	 * them that read memory which the record does not hold and which changes */
	uint64_t replay_differs, replay_past;
	bool past;	     /* of the walk that runs */
	uint64_t leaf_row;   /* of the sample that is being judged */
	struct names *names; /* NULL: names are not asked for */
	const char *names_file;
	uint64_t third_with_us, third_with_libdw, third_neither;
	/* false, at the root, and no frame marked as found otherwise than by a rule */
	uint64_t unflagged;
	uint64_t enough;  /* samples; 0: as many as there are */
	uint64_t skipped; /* disagreements that are a caller which libdw skipped */
	uint64_t end[UNWIND_END_COUNT];
	uint32_t tables, refused;
	int show;
	const char *write; /* a file for one exact sample, as soon as there is one; NULL: no */
	const char *blind; /* part of the paths whose tables are left away */
	time_t end_s;
	int64_t scanned_ms;
	uint64_t stale; /* samples that showed a new mapping: not judged */
	struct unwind_state state;
};

static const char *const end_names[UNWIND_END_COUNT] = {
    "root", "depth", "no mapping", "no table", "no row", "unsupported", "fault"};

/* ---- tables ---- */

static int map_grow(void *context, uint32_t shard, uint32_t **words)
{
	struct run *r = context;
	LIBBPF_OPTS(bpf_map_create_opts, opts, .map_flags = BPF_F_MMAPABLE);
	int fd = bpf_map_create(BPF_MAP_TYPE_ARRAY, "unwind_shard", 4, sizeof(struct unwind_chunk),
				UNWIND_SHARD_CHUNKS, &opts);
	void *p;

	if (fd < 0)
		return -errno;
	p = mmap(NULL, (size_t)UNWIND_SHARD_WORDS * 4, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (p == MAP_FAILED || bpf_map_update_elem(bpf_map__fd(r->shards), &shard, &fd, BPF_ANY)) {
		close(fd);
		return -errno;
	}
	r->shard_fd[shard] = fd;
	*words = p;
	return 0;
}

static uint32_t file_of(struct run *r, const struct mapping *m)
{
	char why[UNWIND_TABLE_WHY_BYTES];
	struct unwind_table t;
	uint32_t file = 0;
	struct reader_target target;
	int fd, rc;

	if (!m->elf || !unwind_store_find(r->store, &m->elf->key, &file))
		return file;
	reader_target_direct(&target, "/proc", r->pid);
	fd = mapping_open(&target, m->begin, m->end, m->path);
	rc = fd < 0				     ? fd
	     : r->blind && strstr(m->path, r->blind) ? -ENODATA
						     : unwind_table_compile(&t, fd, why);
	if (fd >= 0)
		close(fd);
	if (rc) {
		if (rc != -ENODATA)
			fprintf(stderr, "accuracy: %s: %s\n", m->path,
				fd < 0 ? strerror(-fd) : why);
		r->refused++;
		return unwind_store_add(r->store, &m->elf->key, NULL, &file) ? 0 : file;
	}
	if (unwind_store_add(r->store, &m->elf->key, &t, &file))
		fprintf(stderr, "accuracy: %s: no room\n", m->path);
	r->tables++;
	unwind_table_fini(&t);
	return file;
}

/* Reads the process's mappings anew and publishes them; the truth gets to see the same ones. */
static int take_mappings(struct run *r)
{
	struct unwind_process old = r->process;
	struct reader_target t;
	struct unwind_mapping *m;
	int rc;

	mapping_scan_fini(&r->scan);
	truth_close(r->truth);
	r->truth = NULL;
	reader_target_direct(&t, "/proc", r->pid);
	rc = mapping_scan_read(&r->scan, &t);
	if (rc)
		return rc;
	m = calloc(r->scan.count ? r->scan.count : 1, sizeof(*m));
	if (!m)
		return -ENOMEM;
	for (uint32_t i = 0; i < r->scan.count; i++) {
		const struct mapping *s = &r->scan.mappings[i];

		unwind_store_mapping(r->store, file_of(r, s), s->begin, s->end, s->load_bias,
				     &m[i]);
	}
	rc = unwind_store_publish(r->store, m, r->scan.count, &r->process, NULL);
	free(m);
	if (!rc && bpf_map_update_elem(r->processes_fd, &r->pid, &r->process, BPF_ANY))
		rc = -errno;
	unwind_store_retire(r->store, &old);
	return rc ? rc : truth_open(&r->truth, r->pid);
}

static int replay_read(void *context, void *to, size_t bytes, uint64_t address)
{
	struct run *r = context;

	r->past |= !truth_holds(r->truth, r->record, bytes, address);
	return truth_read(r->truth, r->record, to, bytes, address);
}

/* ---- judging ---- */

static uint32_t common(const __u64 *a, uint32_t n, const __u64 *b, uint32_t m)
{
	static uint16_t row[2][UNWIND_FRAME_MAX + 1];

	memset(row, 0, sizeof(row));
	for (uint32_t i = 1; i <= n; i++) {
		uint16_t *now = row[i & 1], *before = row[~i & 1];

		for (uint32_t k = 1; k <= m; k++) {
			if ((a[i - 1] & UNWIND_FRAME_PC) == (b[k - 1] & UNWIND_FRAME_PC))
				now[k] = before[k - 1] + 1;
			else
				now[k] = before[k] > now[k - 1] ? before[k] : now[k - 1];
		}
	}
	return row[n & 1][m];
}

static bool same(const __u64 *a, const __u64 *b, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++) {
		if ((a[i] & UNWIND_FRAME_PC) != (b[i] & UNWIND_FRAME_PC))
			return false;
	}
	return true;
}

/* Frames behind the truth's end, where the truth had no unwind information to go by, are not
 * judged: there is no truth about them. They are counted as scanned or found by frame pointer. */
static uint32_t judged(const __u64 *frame, uint32_t count, const struct truth_stack *t)
{
	uint32_t n = 0;

	if (!(t->silent || t->cut))
		return count;
	while (n < count && n < t->count)
		n++;
	return n;
}

static bool score_stack(struct score *s, const __u64 *frame, uint32_t count, enum unwind_end end,
			const struct truth_stack *t)
{
	uint32_t n = judged(frame, count, t);
	bool exact = n == t->count && same(frame, t->pc, n);

	s->exact += exact;
	s->truth_frames += t->count;
	s->our_frames += n;
	s->common_frames += exact ? n : common(t->pc, t->count, frame, n);
	s->truncated += end != UNWIND_END_ROOT;
	return exact;
}

static const struct mapping *mapping_of(const struct run *r, uint64_t pc)
{
	for (uint32_t k = 0; k < r->scan.count; k++) {
		if (pc >= r->scan.mappings[k].begin && pc < r->scan.mappings[k].end)
			return &r->scan.mappings[k];
	}
	return NULL;
}

static void print_stack(const struct run *r, const char *title, const __u64 *frame, uint32_t count)
{
	printf("    %s:", title);
	for (uint32_t i = 0; i < count && i < 40; i++) {
		uint64_t pc = frame[i] & UNWIND_FRAME_PC;
		const struct mapping *m = mapping_of(r, pc);

		printf(" %s+%lx%s",
		       m ? (strrchr(m->path, '/') ? strrchr(m->path, '/') + 1 : m->path) : "?",
		       m ? pc - m->load_bias : pc,
		       frame[i] & UNWIND_FRAME_SCANNED ? "(scan)"
		       : frame[i] & UNWIND_FRAME_FP    ? "(fp)"
						       : "");
	}
	printf("\n");
}

/* Without unwind information libdw goes by rbp from the first frame on. A leaf that has not saved
 * rbp then is followed by its caller's caller. True if that is all that differs, and the
 * instruction before the frame that libdw lacks calls something at most a page below the leaf's pc.
 */
static bool is_skipped_caller(struct run *r, const struct truth_stack *t, uint32_t ours)
{
	const struct snapshot_record *s = r->record;
	uint8_t call[5];
	int32_t relative;
	uint64_t ra;

	if (!t->silent || ours < 2 || !t->count || !same(s->frame, t->pc, 1))
		return false;
	if (t->count - 1 > s->count - 2 || !same(s->frame + 2, t->pc + 1, t->count - 1))
		return false;
	ra = s->frame[1] & UNWIND_FRAME_PC;
	if (truth_read(r->truth, s, call, sizeof(call), ra - sizeof(call)) || call[0] != 0xe8)
		return false;
	memcpy(&relative, call + 1, sizeof(relative));
	return s->pc - (ra + (uint64_t)(int64_t)relative) < 4096;
}

/* True: libunwind has our frames. */
static bool third_voice(struct run *r, const struct truth_stack *t)
{
	static struct truth_stack third;
	const struct snapshot_record *s = r->record;
	uint32_t ours = judged(s->frame, s->count, t);
	bool with_us;

	truth_libunwind(r->truth, &r->scan, s, &third);
	r->skipped += is_skipped_caller(r, t, ours);
	with_us = third.count == ours && same(third.pc, s->frame, ours);
	if (with_us)
		r->third_with_us++;
	else if (third.count == t->count && same(third.pc, t->pc, t->count))
		r->third_with_libdw++;
	else
		r->third_neither++;
	if (r->show-- > 0) {
		printf(
		    "  disagreement (%s): kernel %u frames, end %s; libdw %u (%s); libunwind %u\n",
		    r->name, s->count, end_names[s->end], t->count, t->why, third.count);
		print_stack(r, "kernel", s->frame, s->count);
		print_stack(r, "libdw", t->pc, t->count);
		print_stack(r, "libunwind", third.pc, third.count);
	}
	return with_us;
}

/* The same walk over the record gave other frames. */
static void replay_other(struct run *r)
{
	const struct snapshot_record *k = r->record;

	r->replay_differs++;
	r->replay_past += r->past;
	if (r->show-- <= 0)
		return;
	printf("  replay differs (%s)%s: kernel %u frames, end %s; replay %u, end %s\n", r->name,
	       r->past ? ", read past the record" : "", k->count, end_names[k->end], r->state.count,
	       end_names[r->state.end]);
	print_stack(r, "kernel", k->frame, k->count);
	print_stack(r, "replay", r->state.frame, r->state.count);
}

static void replay(struct run *r, int algorithm, const struct truth_stack *t)
{
	struct unwind_state *s = &r->state;

	memcpy(s->reg, r->record->reg, sizeof(s->reg));
	s->pc = r->record->pc;
	s->owner = r->pid;
	s->process = r->process;
	r->past = false;
	unwind_replay_walk(r->replay[algorithm], s);
	if (algorithm == BY_TABLE)
		r->leaf_row = s->leaf_row;
	if (algorithm != BY_TABLE)
		score_stack(&r->score[algorithm], s->frame, s->count, s->end, t);
	else if (s->count != r->record->count || !same(s->frame, r->record->frame, s->count))
		replay_other(r);
}

static time_t seconds_now(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec;
}

/* The process has mapped something since its mappings were read, which the sampler would know from
 * the kernel's events. */
static bool is_stale(struct run *r, const struct snapshot_record *s)
{
	struct timespec now;

	if (s->end != UNWIND_END_NO_MAPPING)
		return false;
	clock_gettime(CLOCK_MONOTONIC, &now);
	if (now.tv_sec * 1000 + now.tv_nsec / 1000000 - r->scanned_ms > 1000) {
		r->scanned_ms = now.tv_sec * 1000 + now.tv_nsec / 1000000;
		if (take_mappings(r))
			return true;
		r->stale++;
		return true;
	}
	return false;
}

static bool is_flagged(const struct snapshot_record *s)
{
	return s->end != UNWIND_END_ROOT || s->scanned || s->by_fp;
}

static int on_record(void *context, void *data, size_t bytes)
{
	static struct truth_stack t;
	struct run *r = context;
	struct snapshot_record *s = data;

	if (seconds_now() >= r->end_s || (r->enough && r->samples >= r->enough))
		return -ETIME; /* or a slow judge would never come to the end of a ring that fills
				  meanwhile */
	if (bytes < sizeof(*s) || !r->truth)
		return 0;
	r->record = s;
	if (is_stale(r, s))
		return 0;
	truth_libdw(r->truth, s, &t);
	/* libdw counts what it can't resolve as a frame; outside executable memory it is none */
	while (t.why[0] && t.count > 1 && !mapping_of(r, t.pc[t.count - 1]))
		t.count--;
	if (!t.count) /* the process has ended */
		return 0;
	r->samples++;
	r->in_kernel += s->in_kernel;
	r->scanned += s->scanned != 0;
	r->by_fp += s->by_fp != 0;
	r->end[s->end < UNWIND_END_COUNT ? s->end : UNWIND_END_FAULT]++;
	r->silent += t.silent;
	r->cut += t.cut;
	r->live += t.live_reads != 0;
	if (!score_stack(&r->score[BY_TABLE], s->frame, s->count, s->end, &t)) {
		r->unflagged += !third_voice(r, &t) && !is_flagged(s);
	} else if (r->write && r->samples > 20 && !t.silent && !t.cut && t.count > 2) {
		if (record_write(r->write, r->name, r->truth, &r->scan, s, &t, r->blind))
			fprintf(stderr, "accuracy: %s: not written\n", r->write);
		r->write = NULL;
	}
	for (int i = 0; i < ALGORITHMS; i++)
		replay(r, i, &t);
	for (uint32_t i = 0; r->names && i < s->count; i++)
		names_add(r->names, mapping_of(r, s->frame[i] & UNWIND_FRAME_PC), s->frame[i],
			  i ? s->frame[i] : r->leaf_row);
	return 0;
}

/* ---- the kernel's side ---- */

static int load_loop(struct run *r)
{
	struct snapshot_loop *s = snapshot_loop__open_and_load();

	if (!s)
		return -errno;
	r->shards = s->maps.unwind_shards;
	r->processes_fd = bpf_map__fd(s->maps.snapshot_processes);
	r->counters_fd = bpf_map__fd(s->maps.snapshot_counters);
	r->ring_fd = bpf_map__fd(s->maps.snapshot_ring);
	r->sample_fd = bpf_program__fd(s->progs.snapshot_sample);
	return 0;
}

static int load_tail(struct run *r)
{
	struct snapshot_tail *s = snapshot_tail__open_and_load();
	int fds[3];

	if (!s)
		return -errno;
	r->shards = s->maps.unwind_shards;
	r->processes_fd = bpf_map__fd(s->maps.snapshot_processes);
	r->counters_fd = bpf_map__fd(s->maps.snapshot_counters);
	r->ring_fd = bpf_map__fd(s->maps.snapshot_ring);
	r->sample_fd = bpf_program__fd(s->progs.snapshot_sample);
	fds[0] = bpf_program__fd(s->progs.snapshot_frames);
	fds[1] = bpf_program__fd(s->progs.snapshot_blind);
	fds[2] = bpf_program__fd(s->progs.snapshot_end);
	for (uint32_t i = 0; i < 3; i++) {
		if (bpf_map_update_elem(bpf_map__fd(s->maps.snapshot_calls), &i, &fds[i], BPF_ANY))
			return -errno;
	}
	return 0;
}

static int attach(struct run *r, int hz)
{
	struct perf_event_attr attr = {.size = sizeof(attr),
				       .type = PERF_TYPE_SOFTWARE,
				       .config = PERF_COUNT_SW_CPU_CLOCK,
				       .freq = 1,
				       .sample_freq = (uint64_t)hz};

	r->cpus = libbpf_num_possible_cpus();
	for (int i = 0; i < r->cpus && i < CPUS_MAX; i++) {
		r->perf[i] =
		    (int)syscall(SYS_perf_event_open, &attr, -1, i, -1, PERF_FLAG_FD_CLOEXEC);
		if (r->perf[i] < 0)
			return -errno;
		if (ioctl(r->perf[i], PERF_EVENT_IOC_SET_BPF, r->sample_fd) ||
		    ioctl(r->perf[i], PERF_EVENT_IOC_ENABLE, 0))
			return -errno;
	}
	return 0;
}

static uint64_t counter(const struct run *r, uint32_t which)
{
	uint64_t each[CPUS_MAX] = {0}, sum = 0;

	bpf_map_lookup_elem(r->counters_fd, &which, each);
	for (int i = 0; i < r->cpus && i < CPUS_MAX; i++)
		sum += each[i];
	return sum;
}

static double percent(uint64_t part, uint64_t whole)
{
	return whole ? 100.0 * (double)part / (double)whole : 0;
}

static void report(const struct run *r)
{
	printf("%-22s %7lu", r->name, r->samples);
	for (int i = 0; i < ALGORITHMS; i++) {
		const struct score *s = &r->score[i];

		printf("  %7.3f %6.2f %6.2f %5.1f", percent(s->exact, r->samples),
		       percent(s->common_frames, s->truth_frames),
		       percent(s->common_frames, s->our_frames), percent(s->truncated, r->samples));
	}
	printf("  %5.1f %5.1f %6.1f\n", percent(r->scanned, r->samples),
	       percent(r->silent, r->samples),
	       r->samples ? (double)r->score[BY_TABLE].our_frames / (double)r->samples : 0);
	printf("    false and not flagged: %lu;", r->unflagged);
	printf(" libunwind of %lu disagreements: with us %lu, with libdw %lu, neither %lu; a "
	       "leaf's "
	       "caller that libdw skips: %lu; ends:",
	       r->samples - r->score[BY_TABLE].exact, r->third_with_us, r->third_with_libdw,
	       r->third_neither, r->skipped);
	for (int i = 0; i < UNWIND_END_COUNT; i++) {
		if (r->end[i])
			printf(" %s %lu", end_names[i], r->end[i]);
	}
	printf("; in kernel %.1f%%, by fp %lu, cut %lu, live reads %lu, stale %lu, replay differs "
	       "%lu (%lu past the record), lost %lu, %.2f us\n",
	       percent(r->in_kernel, r->samples), r->by_fp, r->cut, r->live, r->stale,
	       r->replay_differs, r->replay_past, counter(r, SNAPSHOT_LOST),
	       (double)counter(r, SNAPSHOT_WALK_NS) / (double)(counter(r, SNAPSHOT_TAKEN) + 1) /
		   1e3);
}

static int sample(struct run *r, int seconds)
{
	struct ring_buffer *ring = ring_buffer__new(r->ring_fd, on_record, r, NULL);

	if (!ring)
		return -errno;
	r->end_s = seconds_now() + seconds;
	while (seconds_now() < r->end_s && !kill((pid_t)r->pid, 0)) {
		int rc = ring_buffer__poll(ring, 200);

		if (rc < 0 && rc != -EINTR)
			break;
	}
	for (int i = 0; i < r->cpus && i < CPUS_MAX; i++)
		close(r->perf[i]);
	ring_buffer__free(ring);
	return 0;
}

static int start(struct run *r, bool tail, int hz)
{
	const struct rlimit unlimited = {RLIM_INFINITY, RLIM_INFINITY};
	struct unwind_backing backing = {.context = r, .grow = map_grow};
	int rc;

	setrlimit(RLIMIT_MEMLOCK, &unlimited); /* before 5.11 maps count against it */
	rc = tail ? load_tail(r) : load_loop(r);
	if (!rc)
		rc = unwind_store_open(&r->store, &backing, TABLE_BYTES_MAX);
	for (int i = 0; !rc && i < ALGORITHMS; i++)
		rc = unwind_replay_open(&r->replay[i], r->store, (enum unwind_mode)i, replay_read,
					r);
	if (!rc)
		rc = take_mappings(r);
	return rc ? rc : attach(r, hz);
}

static int usage(void)
{
	fprintf(stderr, "usage: accuracy [-t] [-n NAME] [-s SECONDS] [-r HZ] [-v COUNT] [-B TEXT] "
			"[-w FILE] [-D DIRECTORY -N FILE] [-e SAMPLES] [-u COUNT] "
			"[-m SAMPLES,PERCENT] PID\n");
	return 2;
}

/* What the options ask for besides struct run. */
struct asked {
	const char *directory;
	int seconds, hz;
	bool tail;
	unsigned samples, unflagged_max;
	double percent;
};

static bool options(struct run *r, struct asked *a, int argc, char **argv)
{
	int option;

	while ((option = getopt(argc, argv, "tn:s:r:v:B:w:D:N:e:u:m:")) != -1) {
		if (option == 't')
			a->tail = true;
		else if (option == 'n')
			r->name = optarg;
		else if (option == 's')
			a->seconds = atoi(optarg);
		else if (option == 'r')
			a->hz = atoi(optarg);
		else if (option == 'v')
			r->show = atoi(optarg);
		else if (option == 'w')
			r->write = optarg;
		else if (option == 'B')
			r->blind = optarg;
		else if (option == 'D')
			a->directory = optarg;
		else if (option == 'e')
			r->enough = strtoul(optarg, NULL, 10);
		else if (option == 'u')
			a->unflagged_max = (unsigned)strtoul(optarg, NULL, 10);
		else if (option == 'N')
			r->names_file = optarg;
		else if (option != 'm' || sscanf(optarg, "%u,%lf", &a->samples, &a->percent) != 2)
			return false;
	}
	r->pid = optind < argc ? (uint32_t)strtoul(argv[optind], NULL, 10) : 0;
	return optind + 1 == argc && !a->directory == !r->names_file;
}

int main(int argc, char **argv)
{
	static struct run r;
	struct asked a = {.seconds = 10, .hz = 199, .unflagged_max = UINT_MAX};
	double exact;
	int rc = 0;

	r.name = "";
	if (!options(&r, &a, argc, argv))
		return usage();
	if (r.names_file)
		rc = names_open(&r.names, a.directory, r.pid);
	if (!rc)
		rc = start(&r, a.tail, a.hz);
	if (!rc)
		rc = sample(&r, a.seconds);
	if (!rc && r.names)
		rc = names_write(r.names, r.names_file);
	names_close(r.names);
	if (rc) {
		fprintf(stderr, "accuracy: %s\n", strerror(-rc));
		return 1;
	}
	report(&r);
	exact = percent(r.score[BY_TABLE].exact, r.samples);
	if (r.unflagged > a.unflagged_max) {
		fprintf(stderr,
			"accuracy: %lu stacks are false and not flagged, at most %u may be\n",
			r.unflagged, a.unflagged_max);
		return 1;
	}
	if (r.samples < a.samples || exact < a.percent) {
		fprintf(stderr, "accuracy: wanted %u samples and %.1f%% of them exact\n", a.samples,
			a.percent);
		return 1;
	}
	return 0;
}
