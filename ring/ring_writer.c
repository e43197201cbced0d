/* SPDX-License-Identifier: Apache-2.0
 * ring_writer.c - see ring_writer.h. Everything that memory safety or ownership depends on (lane
 * states, offsets, heads, name lengths) is kept in private memory and only copied to the
 * mapping. Others who hold the memfd can damage the records, but never the process. A call that
 * can fail allocates memory before anything is stored there, so a shortage is an error code, not
 * a SIGBUS. */
#include "ring/ring_writer.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file_id.h"
#include "base/hash.h"

#define WRITER_PAGE	      4096u
#define WRITER_PIECE	      (128u << 10)
#define WRITER_LANES_OFFSET   12288u
#define WRITER_RECLAIM_NS     2000000000ull
#define WRITER_READER_DEAD_NS 1000000000ull
#define WRITER_TABLE_SLOTS    (2u * LIMIT_NAME_COUNT)
#define WRITER_RAISE_TRIES    16
/* The lowest number for our descriptors: above the numbers that programs expect to get, and below
 * FD_SETSIZE. */
#define WRITER_FD_MIN 500
#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif
#ifndef F_SEAL_FUTURE_WRITE
#define F_SEAL_FUTURE_WRITE 0x0010
#endif
#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 0x0008u
#endif

_Static_assert((WRITER_TABLE_SLOTS & (WRITER_TABLE_SLOTS - 1)) == 0, "name table");

struct writer_lane {
	uint32_t state; /* enum ring_lane_state; acquire/release pass head between owners */
	uint32_t touched;
	uint64_t head; /* where the next owner continues */
	uint64_t ended_ns;
	uint64_t offset;
	uint32_t slots, slot_bytes;
	uint32_t kind, generation;
};

struct ring_intern {
	uint64_t total_bytes;
	/* The identity of both memfds, because their numbers may belong to other files later. */
	struct file_id ring_file, page_file;
	uint64_t next;			    /* number of names << 32 | bytes used in the arena */
	uint32_t table[WRITER_TABLE_SLOTS]; /* name ids by hash, linear probing */
	uint64_t hash[LIMIT_NAME_COUNT + 1];
	uint32_t offset[LIMIT_NAME_COUNT + 1];
	uint32_t bytes[LIMIT_NAME_COUNT + 1];
	uint32_t lanes_used;
	bool filled;
	struct writer_lane lanes[LIMIT_RING_LANES];
};

static size_t writer_private_bytes(void)
{
	return (sizeof(struct ring_intern) + WRITER_PAGE - 1) & ~(size_t)(WRITER_PAGE - 1);
}

static size_t writer_alive_bytes(void)
{
	long page = sysconf(_SC_PAGESIZE);

	return page > 0 ? (size_t)page : WRITER_PAGE;
}

static bool writer_alive(const struct ring_writer *w)
{
	/* relaxed: changes only in fini and at fork, which the caller orders */
	return w->alive && __atomic_load_n(w->alive, __ATOMIC_RELAXED);
}

void ring_geometry_default(struct ring_geometry *g)
{
	memset(g, 0, sizeof(*g));
	g->host_lanes = LIMIT_RING_HOST_LANES;
	g->host_slots = LIMIT_RING_HOST_LANE_SLOTS;
	g->device_lanes = LIMIT_RING_DEVICE_LANES;
	g->device_slots = LIMIT_RING_DEVICE_LANE_SLOTS;
	g->small_lanes = LIMIT_RING_SMALL_LANES;
	g->small_slots = LIMIT_RING_SMALL_LANE_SLOTS;
	g->names_bytes = LIMIT_RING_NAMES_BYTES;
	g->host_clock = CLOCK_SOURCE_MONOTONIC;
	g->device_clock = CLOCK_SOURCE_MONOTONIC;
}

static uint64_t page_up(uint64_t bytes)
{
	return (bytes + WRITER_PAGE - 1) & ~(uint64_t)(WRITER_PAGE - 1);
}

static bool slots_valid(uint32_t slots)
{
	return slots >= 2 && slots <= LIMIT_RING_BYTES / RING_HOST_SLOT_BYTES &&
	       (slots & (slots - 1)) == 0;
}

/* The total size; 0: the geometry is invalid. */
static uint64_t geometry_bytes(const struct ring_geometry *g)
{
	uint64_t lanes = (uint64_t)g->host_lanes + g->device_lanes + g->small_lanes, total;

	if (lanes == 0 || lanes > LIMIT_RING_LANES || g->names_bytes > LIMIT_RING_BYTES ||
	    g->names_bytes < 16 || g->names_bytes % 8)
		return 0;
	if ((g->host_lanes && !slots_valid(g->host_slots)) ||
	    (g->device_lanes && !slots_valid(g->device_slots)) ||
	    (g->small_lanes && !slots_valid(g->small_slots)))
		return 0;
	total = WRITER_LANES_OFFSET + page_up(lanes * sizeof(struct ring_lane)) +
		page_up(g->names_bytes) +
		page_up((uint64_t)g->host_slots * RING_HOST_SLOT_BYTES) * g->host_lanes +
		page_up((uint64_t)g->device_slots * RING_DEVICE_SLOT_BYTES) * g->device_lanes +
		page_up((uint64_t)g->small_slots * RING_HOST_SLOT_BYTES) * g->small_lanes;
	return total <= LIMIT_RING_BYTES ? total : 0;
}

/* Programs close descriptors that they did not open: the number may now belong to another file. */
static bool writer_fd_ours(const struct ring_writer *w)
{
	return file_id_is(w->fd, &w->intern->ring_file);
}

static bool writer_page_ours(const struct ring_writer *w)
{
	return file_id_is(w->page_fd, &w->intern->page_file);
}

/* Allocates the pages and faults them in for writing; their contents stay. Works in small pieces,
 * because the job's mmap and munmap wait while a piece is done. */
static int writer_touch(struct ring_writer *w, uint64_t offset, uint64_t bytes)
{
	uint64_t done = 0, piece;
	int rc;

	for (; done < bytes; done += piece) {
		piece = bytes - done < WRITER_PIECE ? bytes - done : WRITER_PIECE;
		if (madvise(w->base + offset + done, piece, MADV_POPULATE_WRITE))
			break;
	}
	if (done == bytes)
		return 0;
	if (errno != EINVAL)
		return -errno;
	/* Linux before 5.14, or pages larger than ours */
	if (!writer_fd_ours(w))
		return -EBADF;
	do
		rc = fallocate(w->fd, 0, (off_t)offset, (off_t)bytes);
	while (rc && errno == EINTR);
	if (rc && errno != EOPNOTSUPP && errno != ENOSYS)
		return -errno;
	for (uint64_t at = offset; at < offset + bytes; at += WRITER_PAGE)
		__atomic_fetch_or((uint32_t *)(w->base + at), 0, __ATOMIC_RELAXED);
	return 0;
}

/* Creates a memfd of fixed size. */
static int writer_memfd(const char *name, uint64_t total)
{
	const unsigned flags = MFD_CLOEXEC | MFD_ALLOW_SEALING;
	struct rlimit limit;
	int fd, high, rc;

	/* an ftruncate beyond the limit would raise SIGXFSZ */
	if (!getrlimit(RLIMIT_FSIZE, &limit) && limit.rlim_cur < total)
		return -EFBIG;

	fd = memfd_create(name, flags | MFD_NOEXEC_SEAL);
	if (fd < 0 && errno == EINVAL) /* Linux before 6.3 */
		fd = memfd_create(name, flags);
	if (fd < 0)
		return -errno;
	if (ftruncate(fd, (off_t)total) || fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW)) {
		rc = -errno;
		close(fd);
		return rc;
	}
	high = fcntl(fd, F_DUPFD_CLOEXEC, WRITER_FD_MIN);
	if (high < 0)
		return fd;
	close(fd);
	return high;
}

/* The one page that the reader writes. It needs its own object, because nobody can map the sealed
 * ring for writing. */
static int writer_map_page(struct ring_writer *w)
{
	void *p;
	int rc;

	rc = writer_memfd("sysom-reader", sizeof(struct ring_reader_page));
	if (rc < 0)
		return rc;
	w->page_fd = rc;
	p = mmap(NULL, sizeof(struct ring_reader_page), PROT_READ | PROT_WRITE, MAP_SHARED,
		 w->page_fd, 0);
	if (p != MAP_FAILED && !fcntl(w->page_fd, F_ADD_SEALS, F_SEAL_SEAL)) {
		w->reader = p;
		return 0;
	}
	rc = -errno;
	if (p != MAP_FAILED)
		munmap(p, sizeof(struct ring_reader_page));
	close(w->page_fd);
	return rc;
}

/* After this, only our existing mapping can write, and no touched page can disappear, neither by
 * punching a hole nor by truncation. So the reader is never charged for a page. Linux before 5.1
 * has no such seal, and sysomd refuses the ring. */
static int writer_seal(int fd)
{
	if (!fcntl(fd, F_ADD_SEALS, F_SEAL_FUTURE_WRITE | F_SEAL_SEAL))
		return 0;
	return errno == EINVAL && !fcntl(fd, F_ADD_SEALS, F_SEAL_SEAL) ? 0 : -errno;
}

static int writer_map(struct ring_writer *w, uint64_t total)
{
	size_t alive_bytes = writer_alive_bytes();
	void *p;
	int rc;

	rc = writer_map_page(w);
	if (rc)
		return rc;
	rc = writer_memfd("sysom-ring", total);
	if (rc < 0) {
		errno = -rc;
		goto fail_page;
	}
	w->fd = rc;
	p = mmap(NULL, total, PROT_READ | PROT_WRITE, MAP_SHARED, w->fd, 0);
	if (p == MAP_FAILED)
		goto fail_fd;
	w->base = p;
	if (writer_seal(w->fd))
		goto fail_base;
	p = mmap(NULL, writer_private_bytes(), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
		 -1, 0);
	if (p == MAP_FAILED)
		goto fail_base;
	w->intern = p;
	if (!file_id_note(w->fd, &w->intern->ring_file) ||
	    !file_id_note(w->page_fd, &w->intern->page_file))
		goto fail_private;
	p = mmap(NULL, alive_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (p == MAP_FAILED)
		goto fail_private;
	w->alive = p;
	if (madvise(p, alive_bytes, MADV_WIPEONFORK))
		goto fail_alive;
	return 0;
fail_alive:
	rc = errno;
	munmap(w->alive, alive_bytes);
	errno = rc;
fail_private:
	rc = errno;
	munmap(w->intern, writer_private_bytes());
	errno = rc;
fail_base:
	rc = errno;
	munmap(w->base, total);
	errno = rc;
fail_fd:
	rc = errno;
	close(w->fd);
	errno = rc;
fail_page:
	rc = -errno;
	munmap(w->reader, sizeof(struct ring_reader_page));
	close(w->page_fd);
	return rc;
}

uint64_t ring_writer_start_time(void)
{
	int saved = errno;
	char text[1024];
	const char *p = NULL;
	uint64_t v = 0;
	ssize_t n = 0;
	int fd = open("/proc/self/stat", O_RDONLY | O_CLOEXEC);

	if (fd >= 0) {
		n = read(fd, text, sizeof(text) - 1);
		close(fd);
	}
	if (n > 0) {
		text[n] = 0;
		p = strrchr(text, ')'); /* the name before it may contain any character */
	}
	/* field 2 ends here; field 22 follows the 20th space */
	for (int spaces = 0; p && *p && spaces < 20; p++)
		spaces += *p == ' ';
	for (; p && *p >= '0' && *p <= '9'; p++)
		v = v * 10 + (uint64_t)(*p - '0');
	errno = saved;
	return v;
}

/* Reads the three clocks. Tries a few times, to read them close together. */
static void writer_anchor(struct ring_header *h)
{
	uint64_t best = UINT64_MAX;

	for (int i = 0; i < 8; i++) {
		uint64_t before = clock_monotonic_ns();
		uint64_t ticks = clock_ticks();
		uint64_t real = clock_realtime_ns();
		uint64_t after = clock_monotonic_ns();

		if (after - before >= best)
			continue;
		best = after - before;
		h->anchor_ticks = ticks;
		h->anchor_realtime_ns = real;
		h->anchor_monotonic_ns = before + (after - before) / 2;
	}
}

static void writer_layout(struct ring_writer *w, const struct ring_geometry *g, uint64_t total)
{
	struct ring_header *h = w->header;
	uint64_t at = WRITER_LANES_OFFSET + page_up(w->lane_count * sizeof(struct ring_lane));

	h->magic = RING_MAGIC;
	h->version = RING_VERSION;
	h->header_bytes = sizeof(*h);
	h->total_bytes = total;
	h->clock_source = g->host_clock;
	h->lane_count = w->lane_count;
	h->lanes_offset = WRITER_LANES_OFFSET;
	h->names_offset = w->names_offset = at;
	h->names_bytes = w->names_bytes = g->names_bytes;
	h->pid = (uint32_t)getpid();
	h->start_time_ticks = ring_writer_start_time();
	writer_anchor(h);
	at += page_up(g->names_bytes);
	for (uint32_t i = 0; i < w->lane_count; i++) {
		bool device = i - g->host_lanes < g->device_lanes; /* wraps for host lanes */
		struct writer_lane *p = &w->intern->lanes[i];
		struct ring_lane *lane = &w->lanes[i];

		p->kind = device ? RING_LANE_DEVICE : RING_LANE_HOST;
		p->slots = device	       ? g->device_slots
			   : i < g->host_lanes ? g->host_slots
					       : g->small_slots;
		p->slot_bytes = device ? RING_DEVICE_SLOT_BYTES : RING_HOST_SLOT_BYTES;
		p->offset = at;
		at += page_up((uint64_t)p->slots * p->slot_bytes);
		lane->offset = p->offset;
		lane->slots = p->slots;
		lane->slot_bytes = (uint16_t)p->slot_bytes;
		lane->kind = (uint8_t)p->kind;
		lane->clock_source = device ? g->device_clock : g->host_clock;
	}
}

/* Two threads may do this at the same time: it is harmless. Keeps errno. */
static int writer_touch_lane(struct ring_writer *w, struct writer_lane *p)
{
	int saved = errno, rc = 0;

	if (!__atomic_load_n(&p->touched, __ATOMIC_RELAXED)) {
		rc = writer_touch(w, p->offset, page_up((uint64_t)p->slots * p->slot_bytes));
		if (!rc)
			__atomic_store_n(&p->touched, 1, __ATOMIC_RELAXED);
	}
	errno = saved;
	return rc;
}

int ring_writer_init(struct ring_writer *w, const struct ring_geometry *g)
{
	int saved = errno, rc;
	uint64_t total = geometry_bytes(g);

	memset(w, 0, sizeof(*w));
	w->fd = w->page_fd = -1;
	if (!total)
		return -EINVAL;
	w->lane_count = g->host_lanes + g->device_lanes + g->small_lanes;
	rc = writer_map(w, total);
	if (rc) {
		memset(w, 0, sizeof(*w));
		w->fd = w->page_fd = -1;
		goto out;
	}
	w->header = (struct ring_header *)w->base;
	w->counters = (struct ring_counters *)(w->base + 4096);
	w->lanes = (struct ring_lane *)(w->base + WRITER_LANES_OFFSET);
	w->intern->total_bytes = total;
	w->names_offset = WRITER_LANES_OFFSET + page_up(w->lane_count * sizeof(struct ring_lane));
	rc = writer_touch(w, 0, w->names_offset + page_up(g->names_bytes));
	if (rc) {
		ring_writer_fini(w);
		goto out;
	}
	writer_layout(w, g, total);
	*w->alive = 1;
out:
	errno = saved;
	return rc;
}

void ring_writer_fini(struct ring_writer *w)
{
	int saved = errno;

	if (w->base) {
		__atomic_store_n(w->alive, 0, __ATOMIC_RELEASE);
		if (writer_fd_ours(w))
			close(w->fd);
		if (writer_page_ours(w))
			close(w->page_fd);
		munmap(w->base, w->intern->total_bytes);
		munmap(w->reader, sizeof(struct ring_reader_page));
		munmap(w->intern, writer_private_bytes());
		munmap(w->alive, writer_alive_bytes());
	}
	memset(w, 0, sizeof(*w));
	w->fd = w->page_fd = -1;
	errno = saved;
}

int ring_writer_fd(const struct ring_writer *w)
{
	int saved = errno;
	int fd = w->base && writer_fd_ours(w) ? w->fd : -EBADF;

	errno = saved;
	return fd;
}

int ring_writer_page_fd(const struct ring_writer *w)
{
	int saved = errno;
	int fd = w->base && writer_page_ours(w) ? w->page_fd : -EBADF;

	errno = saved;
	return fd;
}

int ring_writer_fill(struct ring_writer *w)
{
	int saved = errno, rc = 0;
	uint64_t at = w->names_offset + page_up(w->names_bytes);

	if (!writer_alive(w) || w->intern->filled)
		return 0;
	rc = writer_touch(w, at, w->intern->total_bytes - at);
	for (uint32_t i = 0; i < w->lane_count && !rc; i++)
		__atomic_store_n(&w->intern->lanes[i].touched, 1, __ATOMIC_RELAXED);
	w->intern->filled = !rc;
	errno = saved;
	return rc;
}

/* Raises a word of the mapping, never lowers it. The loop is bounded, because a peer could keep
 * changing the word. Release: whatever the word covers was stored before. */
static void writer_raise(uint64_t *word, uint64_t value)
{
	uint64_t shared = __atomic_load_n(word, __ATOMIC_RELAXED);

	for (int i = 0; i < WRITER_RAISE_TRIES && shared < value; i++) {
		if (__atomic_compare_exchange_n(word, &shared, value, false, __ATOMIC_RELEASE,
						__ATOMIC_RELAXED))
			break;
	}
}

static void writer_note_used(struct ring_writer *w, uint32_t count)
{
	uint32_t used = __atomic_load_n(&w->intern->lanes_used, __ATOMIC_RELAXED);

	while (used < count &&
	       !__atomic_compare_exchange_n(&w->intern->lanes_used, &used, count, true,
					    __ATOMIC_RELAXED, __ATOMIC_RELAXED))
		;
	/* pairs with the acquire in ring_reader_lanes_used */
	writer_raise(&w->counters->lanes_used, count);
}

/* Whether the lane is free, or has ended and all its events were read. */
static bool writer_claimable(const struct ring_writer *w, uint32_t i, uint32_t state)
{
	return state == RING_LANE_FREE ||
	       (state == RING_LANE_ENDED &&
		__atomic_load_n(&w->reader->tail[i], __ATOMIC_RELAXED) == w->intern->lanes[i].head);
}

bool ring_writer_claim(struct ring_writer *w, enum ring_lane_kind kind, uint32_t tid,
		       struct ring_lane_writer *out)
{
	if (!writer_alive(w))
		return false;
	for (uint32_t i = 0; i < w->lane_count; i++) {
		struct writer_lane *p = &w->intern->lanes[i];
		struct ring_lane *lane = &w->lanes[i];
		/* acquire; pairs with the release in ring_writer_release: head */
		uint32_t state = __atomic_load_n(&p->state, __ATOMIC_ACQUIRE);

		if (p->kind != (uint32_t)kind || !writer_claimable(w, i, state))
			continue;
		if (!__atomic_compare_exchange_n(&p->state, &state, RING_LANE_CLAIMED, false,
						 __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
			continue;
		if (writer_touch_lane(w, p)) {
			__atomic_store_n(&p->state, RING_LANE_FREE, __ATOMIC_RELEASE);
			return false;
		}
		writer_note_used(w, i + 1);
		p->generation++;
		__atomic_store_n(&lane->tid, tid, __ATOMIC_RELAXED);
		__atomic_store_n(&lane->owner_first, p->head, __ATOMIC_RELAXED);
		/* release; pairs with the acquire in ring_reader.c: tid and owner_first */
		__atomic_store_n(&lane->generation, p->generation, __ATOMIC_RELEASE);
		__atomic_store_n(&lane->state, RING_LANE_CLAIMED, __ATOMIC_RELEASE);
		out->w = w;
		out->lane = lane;
		out->slots = w->base + p->offset;
		out->head = p->head;
		out->mask = p->slots - 1;
		out->slot_bytes = p->slot_bytes;
		return true;
	}
	return false;
}

void ring_writer_release(struct ring_lane_writer *lw)
{
	struct ring_writer *w = lw->w;
	struct writer_lane *p;
	ptrdiff_t index;

	if (!w || !writer_alive(w))
		return;
	index = lw->lane - w->lanes;
	p = &w->intern->lanes[index];
	p->head = lw->head;
	p->ended_ns = 0;
	__atomic_store_n(&lw->lane->state, RING_LANE_ENDED, __ATOMIC_RELEASE);
	/* release; pairs with the acquire in ring_writer_reclaim: head */
	__atomic_store_n(&p->state, RING_LANE_ENDED, __ATOMIC_RELEASE);
	memset(lw, 0, sizeof(*lw));
}

int ring_writer_reclaim(struct ring_writer *w, uint64_t now_monotonic_ns)
{
	uint64_t events = 0, bytes = 0;
	uint32_t used;
	int freed = 0;

	if (!writer_alive(w))
		return 0;
	used = __atomic_load_n(&w->intern->lanes_used, __ATOMIC_RELAXED);
	for (uint32_t i = 0; i < used; i++) {
		struct writer_lane *p = &w->intern->lanes[i];
		uint64_t head = __atomic_load_n(&w->lanes[i].head, __ATOMIC_RELAXED);
		uint32_t ended = RING_LANE_ENDED;

		events += head;
		bytes += head * p->slot_bytes;
		/* acquire; pairs with the release in ring_writer_release */
		if (__atomic_load_n(&p->state, __ATOMIC_ACQUIRE) != RING_LANE_ENDED)
			continue;
		if (!p->ended_ns)
			p->ended_ns = now_monotonic_ns;
		if (!writer_claimable(w, i, RING_LANE_ENDED) &&
		    now_monotonic_ns - p->ended_ns < WRITER_RECLAIM_NS)
			continue;
		/* a claim may have taken the lane; release pairs with the acquire in
		 * ring_writer_claim */
		if (!__atomic_compare_exchange_n(&p->state, &ended, RING_LANE_FREE, false,
						 __ATOMIC_RELEASE, __ATOMIC_RELAXED))
			continue;
		__atomic_store_n(&w->lanes[i].state, RING_LANE_FREE, __ATOMIC_RELEASE);
		freed++;
	}
	__atomic_store_n(&w->counters->events, events, __ATOMIC_RELAXED);
	__atomic_store_n(&w->counters->bytes_written, bytes, __ATOMIC_RELAXED);
	__atomic_store_n(&w->counters->heartbeat_ns, now_monotonic_ns, __ATOMIC_RELAXED);
	return freed;
}

/* The id of this text if it is in the table; otherwise 0, and *at is the slot where it belongs. */
static uint32_t intern_find(const struct ring_writer *w, uint64_t hash, const char *text,
			    uint32_t bytes, uint32_t *at)
{
	struct ring_intern *t = w->intern;
	uint32_t i = *at;

	for (uint32_t probes = 0; probes < WRITER_TABLE_SLOTS; probes++) {
		/* acquire; pairs with the release of the CAS in ring_writer_intern */
		uint32_t id = __atomic_load_n(&t->table[i], __ATOMIC_ACQUIRE);

		if (!id) {
			*at = i;
			return 0;
		}
		if (t->hash[id] == hash && t->bytes[id] == bytes &&
		    !memcmp(w->base + w->names_offset + t->offset[id] + 8, text, bytes))
			return id;
		i = (i + 1) % WRITER_TABLE_SLOTS;
	}
	return RING_NAME_NONE; /* impossible: there are fewer ids than slots */
}

/* Appends the record of a new name to the arena. Returns its id; 0: the arena is full. */
static uint32_t intern_append(struct ring_writer *w, uint64_t hash, const char *text,
			      uint32_t bytes)
{
	struct ring_intern *t = w->intern;
	uint32_t record = (8 + bytes + 7) & ~7u;
	uint64_t next = __atomic_load_n(&t->next, __ATOMIC_RELAXED);
	uint32_t id, offset;
	struct ring_name *name;

	do {
		id = (uint32_t)(next >> 32) + 1;
		offset = (uint32_t)next;
		if (id > LIMIT_NAME_COUNT || w->names_bytes - offset < record)
			return 0;
	} while (!__atomic_compare_exchange_n(&t->next, &next,
					      (uint64_t)id << 32 | (offset + record), true,
					      __ATOMIC_RELAXED, __ATOMIC_RELAXED));
	t->hash[id] = hash;
	t->bytes[id] = bytes;
	t->offset[id] = offset;
	name = (struct ring_name *)(w->base + w->names_offset + offset);
	name->id = id;
	memcpy(name->text, text, bytes);
	/* release; pairs with the acquire load of bytes in ring_reader.c */
	__atomic_store_n(&name->bytes, bytes, __ATOMIC_RELEASE);
	writer_raise(&w->counters->names_tail, offset + record);
	return id;
}

uint32_t ring_writer_intern(struct ring_writer *w, const char *text, size_t bytes)
{
	uint64_t hash;
	uint32_t n = (uint32_t)(bytes < LIMIT_NAME_BYTES ? bytes : LIMIT_NAME_BYTES);
	uint32_t at, id, mine;

	if (!writer_alive(w) || !text || !n)
		return RING_NAME_NONE;
	hash = hash_mix(hash_bytes(HASH_SEED, text, n));
	at = (uint32_t)hash % WRITER_TABLE_SLOTS;
	id = intern_find(w, hash, text, n, &at);
	if (id)
		return id;
	mine = intern_append(w, hash, text, n);
	if (!mine) {
		ring_writer_count_drop(w, RING_DROP_NAMES_FULL, 1);
		return RING_NAME_NONE;
	}
	/* Two threads may have appended the same new name. The first one in the table wins; the
	 * other record stays unused. */
	for (;;) {
		uint32_t expected = 0;

		/* release; pairs with the acquire in intern_find: the entry's fields and text */
		if (__atomic_compare_exchange_n(&w->intern->table[at], &expected, mine, false,
						__ATOMIC_RELEASE, __ATOMIC_RELAXED))
			return mine;
		id = intern_find(w, hash, text, n, &at);
		if (id)
			return id;
	}
}

void ring_writer_count_drop(struct ring_writer *w, enum ring_drop cause, uint64_t n)
{
	if (writer_alive(w) && (unsigned)cause < RING_DROP_COUNT)
		__atomic_fetch_add(&w->counters->drops[cause], n, __ATOMIC_RELAXED);
}

bool ring_writer_plugin_enter(struct ring_writer *w)
{
	bool alive = writer_alive(w);

	if (alive)
		__atomic_fetch_add(&w->counters->plugin_calls, 1, __ATOMIC_RELAXED);
	return alive;
}

void ring_writer_plugin_leave(struct ring_writer *w)
{
	if (writer_alive(w))
		__atomic_fetch_sub(&w->counters->plugin_calls, 1, __ATOMIC_RELAXED);
}

uint64_t ring_writer_backlog(const struct ring_lane_writer *lw, uint64_t now_monotonic_ns)
{
	struct ring_writer *w = lw->w;
	uint64_t beat, tail, slots = (uint64_t)lw->mask + 1;

	if (!w || !writer_alive(w))
		return 0;
	/* acquire; pairs with the release in ring_reader_publish: tails */
	beat = __atomic_load_n(&w->reader->heartbeat_ns, __ATOMIC_ACQUIRE);
	if (!beat || now_monotonic_ns - beat > WRITER_READER_DEAD_NS) {
		/* rejects a beat from the future too, unless the reader set it after `now` was
		 * read */
		if (!beat || beat <= now_monotonic_ns ||
		    beat - now_monotonic_ns > WRITER_READER_DEAD_NS)
			return 0;
	}
	tail = __atomic_load_n(&w->reader->tail[lw->lane - w->lanes], __ATOMIC_RELAXED);
	if (tail >= lw->head)
		return 0;
	return lw->head - tail < slots ? lw->head - tail : slots;
}
