/* SPDX-License-Identifier: Apache-2.0
 * ring_reader.c - see ring_reader.h. ring_reader_open copies and validates the layout (header, lane
 * offsets and sizes) once; what the producer writes there later is ignored. Everything that does
 * change (heads, owners, slots, names) is loaded once per use and checked against that copy. A live
 * ring is a sealed memfd on tmpfs, so none of its pages can disappear. Anything else is first
 * copied to private memory. */
#include "ring/ring_reader.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/all_bytes.h"
#include "base/check.h"
#include "base/clock.h"
#include "base/text/utf8.h"

#ifndef F_SEAL_FUTURE_WRITE
#define F_SEAL_FUTURE_WRITE 0x0010
#endif

#define READER_FIXED_BYTES    12288u /* header, counters, reader page */
#define READER_COUNTERS	      4096u
#define READER_NAMES_PER_POLL 1024u
/* A head that jumps further between two reads is not a count of events: at 1 ns per event this is
 * 18 min. */
#define READER_JUMP_MAX	  (1ull << 40)
#define READER_COPY_BYTES 65536u
#define SLOTS_AHEAD	  6u /* slots to prefetch while one is copied */

/* gcc's thread sanitizer does not model fences; our mapping is not the producer's anyway. */
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wtsan"
#endif

struct reader_owner {
	uint64_t first;
	uint32_t tid, generation;
};

struct reader_lane {
	uint64_t offset, tail;
	uint32_t slots, slot_bytes;
	uint8_t kind, clock_source;
	bool has_next;
	/* next: an owner that was seen, but whose first slot the tail has not reached */
	struct reader_owner owner, next;
};

struct ring_reader {
	const uint8_t *base; /* the mapping, or a private copy of a file */
	uint64_t bytes;
	bool live;
	struct ring_reader_page *page;
	struct ring_header header;
	struct reader_lane lanes[LIMIT_RING_LANES];
	uint32_t lanes_used;
	uint64_t names_at; /* bytes of the arena read so far */
	uint32_t name_count;
	char *text; /* texts of names, each NUL-terminated */
	uint32_t text_at;
	uint32_t name_text[LIMIT_NAME_COUNT + 1]; /* offsets into text */
	struct ring_stats stats;
};

static uint64_t load64(const struct ring_reader *r, uint64_t offset, int order)
{
	const uint64_t *p = (const uint64_t *)(r->base + offset);

	return order == __ATOMIC_ACQUIRE ? __atomic_load_n(p, __ATOMIC_ACQUIRE)
					 : __atomic_load_n(p, __ATOMIC_RELAXED);
}

static uint32_t load32(const struct ring_reader *r, uint64_t offset, int order)
{
	const uint32_t *p = (const uint32_t *)(r->base + offset);

	return order == __ATOMIC_ACQUIRE ? __atomic_load_n(p, __ATOMIC_ACQUIRE)
					 : __atomic_load_n(p, __ATOMIC_RELAXED);
}

/* bytes and both addresses are multiples of 8. */
static void copy_words(void *to, const void *from, size_t bytes)
{
	uint64_t *t = to;
	const uint64_t *f = from;

	for (size_t i = 0; i < bytes / 8; i++)
		t[i] = __atomic_load_n(f + i, __ATOMIC_RELAXED);
}

static void detach(struct ring_reader *r)
{
	r->stats.detach_reason = EPROTO;
}

/* ---- open ---- */

static bool clock_valid(uint32_t source)
{
	return source >= CLOCK_SOURCE_MONOTONIC && source <= CLOCK_SOURCE_TSC;
}

static bool range_valid(uint64_t offset, uint64_t bytes, uint64_t align, uint64_t total)
{
	return offset % align == 0 && offset >= READER_FIXED_BYTES && offset <= total &&
	       bytes <= total - offset;
}

static int validate_header(const struct ring_header *h, uint64_t bytes)
{
	if (h->magic != RING_MAGIC || h->version != RING_VERSION || h->header_bytes != sizeof(*h) ||
	    h->total_bytes != bytes || !clock_valid(h->clock_source))
		return -EPROTO;
	if (h->lane_count == 0 || h->lane_count > LIMIT_RING_LANES ||
	    !range_valid(h->lanes_offset, (uint64_t)h->lane_count * sizeof(struct ring_lane), 64,
			 bytes))
		return -EPROTO;
	if (h->names_bytes % 8 || !range_valid(h->names_offset, h->names_bytes, 8, bytes))
		return -EPROTO;
	return 0;
}

static int validate_lane(struct reader_lane *out, const struct ring_lane *l, uint64_t bytes)
{
	uint32_t want = l->kind == RING_LANE_HOST ? RING_HOST_SLOT_BYTES : RING_DEVICE_SLOT_BYTES;

	if ((l->kind != RING_LANE_HOST && l->kind != RING_LANE_DEVICE) || l->slot_bytes != want ||
	    !clock_valid(l->clock_source))
		return -EPROTO;
	if (l->slots < 2 || (l->slots & (l->slots - 1)) ||
	    !range_valid(l->offset, (uint64_t)l->slots * want, 64, bytes))
		return -EPROTO;
	out->offset = l->offset;
	out->slots = l->slots;
	out->slot_bytes = want;
	out->kind = l->kind;
	out->clock_source = l->clock_source;
	return 0;
}

static int take_layout(struct ring_reader *r)
{
	int rc;

	copy_words(&r->header, r->base, offsetof(struct ring_header, pad)); /* the rest stays 0 */
	rc = validate_header(&r->header, r->bytes);
	for (uint32_t i = 0; !rc && i < r->header.lane_count; i++) {
		struct ring_lane lane;

		copy_words(&lane, r->base + r->header.lanes_offset + i * sizeof(lane),
			   sizeof(lane));
		rc = validate_lane(&r->lanes[i], &lane, r->bytes);
	}
	return rc;
}

/* A short read means that the file shrank meanwhile. */
static int read_at(int fd, void *to, uint64_t bytes, uint64_t offset)
{
	int err = all_bytes_read(fd, to, bytes, offset);

	return err == -EBADMSG ? -EPROTO : err;
}

/* The file may be the ring of a live process, and in a plain copy a slot that is being written can
 * look complete. So we read in the order of drain: ends, payloads, beginnings. The first read
 * brings the heads, which bound what is complete. The second brings the payloads. The third is used
 * only for seq_begin. */
static int settle_copy(struct ring_reader *r, int fd, uint8_t *base)
{
	uint8_t *chunk = malloc(READER_COPY_BYTES);
	int rc = chunk ? 0 : -ENOMEM;

	for (uint32_t i = 0; !rc && i < r->header.lane_count; i++) {
		const struct reader_lane *l = &r->lanes[i];
		uint64_t left = (uint64_t)l->slots * l->slot_bytes, at = l->offset;

		while (!rc && left) {
			uint64_t n = left < READER_COPY_BYTES ? left : READER_COPY_BYTES;

			rc = read_at(fd, chunk, n, at);
			for (uint64_t s = 0; !rc && s < n; s += l->slot_bytes)
				memcpy(base + at + s, chunk + s, 4);
			at += n;
			left -= n;
		}
	}
	free(chunk);
	return rc;
}

static int open_copy(struct ring_reader *r, int fd)
{
	uint64_t heads_bytes = READER_FIXED_BYTES;
	uint8_t *base;
	void *p = NULL;
	int rc = posix_memalign(&p, 64, r->bytes);

	if (rc)
		return -rc;
	r->base = base = p;
	rc = read_at(fd, base, heads_bytes, 0);
	if (!rc)
		rc = validate_header((const struct ring_header *)base, r->bytes);
	if (rc)
		return rc;
	/* Reads only up to the end of the lanes, so that the heads are older than every payload. */
	heads_bytes = ((const struct ring_header *)base)->lanes_offset +
		      ((const struct ring_header *)base)->lane_count * sizeof(struct ring_lane);
	rc = read_at(fd, base, heads_bytes, 0);
	if (!rc)
		rc = read_at(fd, base + heads_bytes, r->bytes - heads_bytes, heads_bytes);
	if (!rc)
		rc = take_layout(r);
	return rc ? rc : settle_copy(r, fd, base);
}

/* Starts at the tails that a previous reader published, because those events are not lost. The
 * words are only a hint: a wrong word costs the producer its own events, or their exact count. */
static void resume(struct ring_reader *r)
{
	if (!__atomic_load_n(&r->page->heartbeat_ns, __ATOMIC_RELAXED))
		return;
	for (uint32_t i = 0; i < r->header.lane_count; i++) {
		uint64_t at = r->header.lanes_offset + i * sizeof(struct ring_lane);
		uint64_t tail = __atomic_load_n(&r->page->tail[i], __ATOMIC_RELAXED);

		if (tail <= load64(r, at + offsetof(struct ring_lane, head), __ATOMIC_RELAXED))
			r->lanes[i].tail = tail;
	}
}

/* tmpfs with normal pages only: if huge pages run out, access raises SIGBUS despite the seals. */
static bool is_sealed(int fd, int seals)
{
	int got = fcntl(fd, F_GET_SEALS);
	struct statfs fs;

	return got >= 0 && (got & seals) == seals && !fstatfs(fd, &fs) && fs.f_type == TMPFS_MAGIC;
}

/* Whether the owner has touched every page and so is charged for it. A page that a reader allocates
 * by reading a hole of a shared mapping is charged to the reader. */
static bool is_whole(int fd, uint64_t bytes)
{
	return lseek(fd, 0, SEEK_HOLE) == (off_t)bytes;
}

static int map_page(struct ring_reader *r, int page_fd)
{
	struct stat st;
	void *p;

	if (!is_sealed(page_fd, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL))
		return -EPERM;
	if (fstat(page_fd, &st) || st.st_size != sizeof(struct ring_reader_page))
		return -EPROTO;
	p = mmap(NULL, sizeof(struct ring_reader_page), PROT_READ | PROT_WRITE, MAP_SHARED, page_fd,
		 0);
	if (p == MAP_FAILED)
		return errno == EACCES || errno == EPERM ? -EPERM : -errno;
	r->page = p;
	return 0;
}

static int open_live(struct ring_reader *r, int fd, int page_fd)
{
	void *p;
	int got;

	/* The seals keep existing pages in place, so one check is enough. */
	if (!is_sealed(fd, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL | F_SEAL_FUTURE_WRITE))
		return -EPERM;
	if (!is_whole(fd, r->bytes))
		return -ENODATA;
	p = mmap(NULL, r->bytes, PROT_READ, MAP_SHARED, fd, 0);
	if (p == MAP_FAILED)
		return -errno;
	r->live = true;
	r->base = p;
	got = take_layout(r);
	if (got)
		return got;
	got = map_page(r, page_fd);
	if (got)
		return got;
	resume(r);
	return 0;
}

static void release(struct ring_reader *r)
{
	if (r->page)
		munmap(r->page, sizeof(*r->page));
	if (r->live)
		munmap((void *)(uintptr_t)r->base, r->bytes);
	else
		free((void *)(uintptr_t)r->base);
	free(r->text);
	free(r);
}

int ring_reader_open(struct ring_reader **out, int fd, int page_fd)
{
	struct ring_reader *r;
	struct stat st;
	int rc;

	if (fstat(fd, &st))
		return -errno;
	if (!S_ISREG(st.st_mode) || st.st_size < READER_FIXED_BYTES)
		return -EPROTO;
	if (st.st_size > LIMIT_RING_BYTES)
		return -EFBIG;
	r = calloc(1, sizeof(*r));
	if (!r)
		return -ENOMEM;
	r->bytes = (uint64_t)st.st_size;
	rc = page_fd >= 0 ? open_live(r, fd, page_fd) : open_copy(r, fd);
	if (!rc) {
		/* A record is longer than its text and the terminator, so this is enough. */
		r->text = malloc(r->header.names_bytes + 1);
		rc = r->text ? 0 : -ENOMEM;
	}
	if (rc) {
		release(r);
		return rc;
	}
	r->text[0] = 0;
	r->text_at = 1;
	close(fd); /* the mappings or the copy are all we need */
	if (page_fd >= 0)
		close(page_fd);
	*out = r;
	return 0;
}

void ring_reader_close(struct ring_reader *r)
{
	if (r)
		release(r);
}

const struct ring_header *ring_reader_header(const struct ring_reader *r)
{
	return &r->header;
}

void ring_reader_counters(const struct ring_reader *r, struct ring_counters *out)
{
	copy_words(out, r->base + READER_COUNTERS, offsetof(struct ring_counters, pad));
	memset(out->pad, 0, sizeof(out->pad));
}

uint32_t ring_reader_lane_count(const struct ring_reader *r)
{
	return r->header.lane_count;
}

uint32_t ring_reader_lanes_used(struct ring_reader *r)
{
	/* acquire; pairs with the release in ring_writer_claim, which precedes the lane's head */
	uint64_t used = load64(r, READER_COUNTERS + offsetof(struct ring_counters, lanes_used),
			       __ATOMIC_ACQUIRE);

	if (!used || used > r->header.lane_count)
		used = r->header.lane_count;
	if (r->lanes_used < used)
		r->lanes_used = (uint32_t)used;
	return r->lanes_used;
}

const struct ring_stats *ring_reader_stats(const struct ring_reader *r)
{
	return &r->stats;
}

/* ---- names ---- */

static void copy_name(struct ring_reader *r, uint64_t at, uint32_t bytes)
{
	char *to = r->text + r->text_at;
	const char *from = (const char *)r->base + at;

	for (uint32_t i = 0; i < bytes; i++)
		to[i] = __atomic_load_n(from + i, __ATOMIC_RELAXED);
	to[bytes] = 0;
	utf8_clean(to, bytes);
	r->name_text[++r->name_count] = r->text_at;
	r->text_at += bytes + 1;
}

size_t ring_reader_poll_names(struct ring_reader *r)
{
	const struct ring_header *h = &r->header;
	/* acquire; pairs with the release of names_tail in ring_writer_intern */
	uint64_t tail = load64(r, READER_COUNTERS + offsetof(struct ring_counters, names_tail),
			       __ATOMIC_ACQUIRE);
	size_t count = 0;

	if (r->stats.detach_reason)
		return 0;
	if (tail > h->names_bytes || tail < r->names_at || tail % 8) {
		detach(r);
		return 0;
	}
	while (count < READER_NAMES_PER_POLL && r->names_at + 8 <= tail) {
		uint64_t at = h->names_offset + r->names_at;
		/* acquire; pairs with the release store of bytes in ring_writer_intern */
		uint32_t bytes =
		    load32(r, at + offsetof(struct ring_name, bytes), __ATOMIC_ACQUIRE);
		uint32_t id = load32(r, at + offsetof(struct ring_name, id), __ATOMIC_RELAXED);
		uint64_t record = (8 + (uint64_t)bytes + 7) & ~7ull;

		if (!bytes) /* another thread is still writing this one */
			break;
		if (bytes > LIMIT_NAME_BYTES || record > tail - r->names_at ||
		    id != r->name_count + 1 || id > LIMIT_NAME_COUNT) {
			detach(r);
			break;
		}
		copy_name(r, at + 8, bytes);
		r->names_at += record;
		count++;
	}
	return count;
}

const char *ring_reader_name(const struct ring_reader *r, uint32_t id)
{
	return id >= 1 && id <= r->name_count ? r->text + r->name_text[id] : "";
}

uint32_t ring_reader_name_count(const struct ring_reader *r)
{
	return r->name_count;
}

/* ---- drain ---- */

static uint64_t lane_word(const struct ring_reader *r, uint32_t lane, size_t field)
{
	return r->header.lanes_offset + lane * sizeof(struct ring_lane) + field;
}

/* Checks whether the lane has a new owner. Call it after loading the head (acquire): then the owner
 * of every slot before the head is known, or a later owner. */
static void look_owner(struct ring_reader *r, uint32_t lane)
{
	struct reader_lane *l = &r->lanes[lane];
	struct reader_owner o;
	uint32_t known = l->has_next ? l->next.generation : l->owner.generation;

	/* acquire; pairs with the release store of generation in ring_writer_claim */
	o.generation =
	    load32(r, lane_word(r, lane, offsetof(struct ring_lane, generation)), __ATOMIC_ACQUIRE);
	if (o.generation == known)
		return;
	o.tid = load32(r, lane_word(r, lane, offsetof(struct ring_lane, tid)), __ATOMIC_RELAXED);
	o.first = load64(r, lane_word(r, lane, offsetof(struct ring_lane, owner_first)),
			 __ATOMIC_RELAXED);
	/* We missed owners in between, so slots before the new owner's first have no known
	 * owner. */
	if (o.generation != l->owner.generation + 1) {
		l->owner.tid = 0;
		l->owner.generation = o.generation - 1;
	}
	l->next = o;
	l->has_next = true;
}

/* Whether the next owner starts at slot n; if so, makes it the current owner. */
static void adopt_owner(struct ring_reader *r, struct reader_lane *l)
{
	l->owner = l->next;
	l->has_next = false;
}

enum slot_result { SLOT_WHOLE, SLOT_LAPPED, SLOT_TORN };

/* Prefetches the slot, which another CPU has written. Any n is within the lane. */
static void fetch_slot(const struct ring_reader *r, const struct reader_lane *l, uint64_t n)
{
	const uint8_t *slot = r->base + l->offset + (n & (l->slots - 1)) * l->slot_bytes;

	__builtin_prefetch(slot);
	__builtin_prefetch(slot + l->slot_bytes - 1);
}

static enum slot_result copy_slot(const struct ring_reader *r, const struct reader_lane *l,
				  uint64_t n, union ring_event *out)
{
	uint64_t at = l->offset + (n & (l->slots - 1)) * l->slot_bytes;
	uint32_t want = (uint32_t)(n + 1), begin, end;

	/* acquire; pairs with the release store of seq_end in ring_writer_push */
	end = load32(r, at + l->slot_bytes - 4, __ATOMIC_ACQUIRE);
	copy_words(out, r->base + at, l->slot_bytes);
	/* acquire fence; pairs with the release fence after seq_begin in ring_writer_push: if any
	 * payload word is of a later event, we see its seq_begin here */
	__atomic_thread_fence(__ATOMIC_ACQUIRE);
	begin = load32(r, at, __ATOMIC_RELAXED);
	if (begin == want && end == want) {
		out->head.seq_begin = want;
		memcpy(out->bytes + l->slot_bytes - 4, &want, 4);
		return SLOT_WHOLE;
	}
	/* The number of a later lap means that the producer has overtaken us. A correct producer
	 * cannot cause any other value. */
	return begin != want && ((begin - want) & (l->slots - 1)) == 0 ? SLOT_LAPPED : SLOT_TORN;
}

static bool kind_valid(const struct reader_lane *l, uint16_t kind)
{
	if (l->kind == RING_LANE_HOST)
		return kind >= EVENT_LAUNCH && kind <= EVENT_SPAN_REQUEST;
	return kind >= EVENT_KERNEL && kind <= EVENT_GRAPH_EXEC;
}

/* Loads the head and moves the tail up to the oldest slot that still exists; false: detached. */
static bool look_head(struct ring_reader *r, uint32_t lane, uint64_t *out)
{
	struct reader_lane *l = &r->lanes[lane];
	/* acquire; pairs with the release store of head in ring_writer_push */
	uint64_t head =
	    load64(r, lane_word(r, lane, offsetof(struct ring_lane, head)), __ATOMIC_ACQUIRE);

	if (head < l->tail || (r->live && head - l->tail > READER_JUMP_MAX)) {
		detach(r);
		return false;
	}
	if (head - l->tail > l->slots) {
		r->stats.lost_lapped += head - l->slots - l->tail;
		l->tail = head - l->slots;
	}
	*out = head;
	return true;
}

size_t ring_reader_drain_lane(struct ring_reader *r, uint32_t lane, union ring_event *out,
			      size_t max, struct ring_lane_view *view)
{
	struct reader_lane *l;
	uint64_t head;
	size_t count = 0;

	CHECK(lane < r->header.lane_count);
	l = &r->lanes[lane];
	if (r->stats.detach_reason || !look_head(r, lane, &head))
		return 0;
	look_owner(r, lane);
	for (uint32_t work = 0; work < l->slots && count < max && l->tail < head; work++) {
		enum slot_result result;

		if (l->has_next && l->tail >= l->next.first) {
			if (count)
				break;
			adopt_owner(r, l);
		}
		fetch_slot(r, l, l->tail + SLOTS_AHEAD);
		result = copy_slot(r, l, l->tail, &out[count]);
		if (result == SLOT_LAPPED) {
			uint64_t before = l->tail, newer;

			/* Loaded only to skip lost slots: slots after the first head may have an
			 * owner that we have not loaded. */
			if (!look_head(r, lane, &newer))
				break;
			if (l->tail == before) { /* the slot's next event is being written right
						  * now */
				r->stats.lost_lapped++;
				l->tail++;
			}
			continue;
		}
		l->tail++;
		if (result == SLOT_TORN)
			r->stats.lost_torn++;
		else if (!kind_valid(l, out[count].head.kind))
			r->stats.lost_bad_kind++;
		else
			count++;
	}
	r->stats.events += count;
	r->stats.bytes += count * l->slot_bytes;
	/* The producer interns a name before its first event. */
	if (count)
		ring_reader_poll_names(r);
	view->lane = lane;
	view->tid = l->owner.tid;
	view->generation = l->owner.generation;
	view->slots = (uint32_t)l->slots;
	view->kind = l->kind;
	view->clock_source = l->clock_source;
	return count;
}

void ring_reader_publish(struct ring_reader *r, uint64_t now_monotonic_ns)
{
	if (!r->page)
		return;
	for (uint32_t i = 0; i < r->header.lane_count; i++)
		__atomic_store_n(&r->page->tail[i], r->lanes[i].tail, __ATOMIC_RELAXED);
	/* release; pairs with the acquire in ring_writer_backlog: the tails */
	__atomic_store_n(&r->page->heartbeat_ns, now_monotonic_ns, __ATOMIC_RELEASE);
}
