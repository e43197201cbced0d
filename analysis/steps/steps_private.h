/* SPDX-License-Identifier: Apache-2.0
 * steps_private.h - what steps.c, steps_detect.c and steps_account.c share.
 *
 * Launches live in a ring of items. Each has a sequence number (seq) that never repeats. The
 * follower visits every item once and cuts steps. Device records are chained to the item that
 * launched them. They come from a pool that reuses the slot freed last, because it is still in the
 * cache. */
#pragma once

#include "analysis/steps/steps.h"

#define STEPS_NONE UINT32_MAX
/* Finished steps that wait for their kernels or for steps_next. */
#define STEPS_PENDING_MAX 1024
/* Explicit marks that the follower has not reached. */
#define STEPS_MARKS_MAX 2048
/* Classes of steps (training, evaluation, ...). */
#define STEPS_CLASSES_MAX 8

#define ITEM_SYNC_BEFORE 0x01 /* the host waited for the GPU since the item before */
#define ITEM_GAP_BEFORE	 0x02 /* a RECORD_GAP lies before it */
#define ITEM_EXPECTS	 0x04 /* causes at least one device record */
#define ITEM_OPTIMIZER	 0x08
#define ITEM_CONTINUES	 0x20 /* a mark: the step before ended with work left */
#define ITEM_RARE	 0x10 /* its name had not occurred for STEPS_AWAY items */

/* A rank has 65,536 of them, so keep it small. */
struct steps_item {
	uint64_t begin_ns;
	uint64_t amount;     /* blocks of a LAUNCH, bytes of all others */
	uint32_t host_ns;    /* duration, the low 32 bits */
	uint32_t name_token; /* hash of kind, function and name */
	uint32_t full_token; /* hash of the name and grid, block, bytes, stream */
	uint32_t gap_ns;     /* host time since the item before, without waits for the GPU */
	/* head of its chain in the pool; STEPS_NONE: none. In the ring of rare launches: its seq */
	uint32_t first_device;
	uint8_t kind; /* enum record_kind: launches, COLL, COPY_CALL, STEP_* */
	uint8_t flags;
	uint16_t mark; /* STEP_*: slot of its mark; symbols: the high bits of host_ns */
};
_Static_assert(sizeof(struct steps_item) == 40, "steps_item");
#define STEPS_HOST_NS_MAX ((1ull << 48) - 1)

/* The rare launches, in order. They show the boundaries of steps that are longer than the ring of
 * items: the names that recur only after a long time lie between such steps. */
#define STEPS_RARE_MAX	 2048u
#define STEPS_NAMES_SEEN 4096u
#define STEPS_AWAY(s)	 (((s)->items_mask + 1) / 8)
struct steps_seen {
	uint32_t name_token;
	bool used;
	uint16_t next; /* row of the name that followed this one last time */
	uint64_t seq;  /* of its latest launch */
};

struct steps_device {
	uint64_t begin_ns, end_ns;
	uint32_t name, next;
	uint64_t bytes;
	uint8_t kind, func;
	uint8_t unmatched;
	/* a copy without a launch: it is on the list of copies, not on an item's chain */
	uint8_t listed;
};

/* A finished step: items [first, last). */
struct steps_pending {
	uint64_t first, last;
	uint64_t begin_ns, end_ns;
	uint32_t flags, phase, source;
	uint32_t folded_launches; /* launches that the ring had to drop */
	uint32_t missing;	  /* launches whose kernel was not seen yet */
	bool folded;		  /* its start is in s->fold */
	struct step_mark mark;
};

/* The follower cuts before a symbol that matches one of the rules. All rules describe the same
 * position in the period, by different neighbours. So an inserted or missing launch does not
 * prevent a cut. */
enum rule_kind { RULE_BEFORE = 1, RULE_AFTER, RULE_BETWEEN, RULE_PAUSE };
struct steps_rule {
	uint8_t kind;
	bool full; /* compare full tokens, else name tokens */
	/* BETWEEN: between a and b. PAUSE: after a wait, or after a gap of at least `a` ns. Others:
	 * before or after a. */
	uint32_t a, b;
};
#define STEPS_RULES_MAX 4
/* A match within this many symbols after a cut is the same cut. */
#define STEPS_RULE_EDGE 3
struct steps_pattern {
	struct steps_rule rules[STEPS_RULES_MAX];
	uint32_t rule_count; /* 0: no pattern */
	uint64_t launches;   /* median per step */
	/* a match is not a cut if it comes fewer launches after the last cut */
	uint64_t launches_min;
	uint64_t period_ns;
	uint32_t rare_apart; /* far: items per step, including the items that are not rare */
	/* found among rare launches: it counts only rare launches and cuts only at them */
	bool far;
	/* the period may be only a part of a step: the history holds fewer than three steps, and
	 * rule_count is 0 */
	bool part;
	bool mature; /* no new frequent name appeared in the second half of the history */
};

static inline bool steps_pauses(uint32_t flags, uint32_t gap_ns, uint32_t least_ns)
{
	return (flags & ITEM_SYNC_BEFORE) || gap_ns >= least_ns;
}

/* All rules but PAUSE. */
static inline bool steps_rule_fits(const struct steps_rule *r, uint32_t before_name,
				   uint32_t before_full, uint32_t name, uint32_t full)
{
	uint32_t before = r->full ? before_full : before_name, at = r->full ? full : name;

	switch (r->kind) {
	case RULE_BEFORE:
		return at == r->a;
	case RULE_AFTER:
		return before == r->a;
	default:
		return before == r->a && at == r->b;
	}
}

#define STEPS_SKETCH 32
struct steps_class {
	uint32_t sketch[STEPS_SKETCH]; /* of its first step: launches by hashed name token */
	uint64_t launches;	       /* of its latest step; 0: none yet */
};

struct cover {
	uint64_t end_ns, total_ns;
};

struct covers {
	struct cover compute, comm, copy, work, all;
};

/* Sums over the first launches of a step that does not fit into the ring. */
#define STEPS_FOLD_NAMES 512u
struct steps_fold {
	struct step out; /* counts and work */
	struct covers covers;
	double coll_bytes;
	uint32_t coll_kernels, kernel_count;
	struct step_kernel all, kernels[STEPS_FOLD_NAMES];
};

struct steps {
	struct steps_config config;
	struct steps_stats stats;

	struct steps_item *items; /* [items_mask + 1] */
	/* For an item that is a mark, or that begins at the same time as the one before: the
	 * distance back to the next item that a device record may belong to. Later searches extend
	 * it. */
	uint32_t *back;
	uint64_t items_mask;
	uint64_t head;	     /* next seq to be written */
	uint64_t tail;	     /* oldest seq stored */
	uint64_t follow;     /* next seq to follow */
	uint64_t open_first; /* first seq of the open step */
	uint64_t open_begin_ns;
	uint32_t open_flags, open_folded;
	uint64_t last_end_ns;	/* of the latest followed symbol */
	uint64_t pushed_end_ns; /* of the latest pushed item */
	uint64_t last_sync_ns;	/* time in waits since the latest pushed item */
	uint32_t next_flags;	/* for the next item */
	uint64_t now_ns, device_now_ns, device_launch_max_ns;
	uint64_t device_end_last_ns; /* end of the GPU's work of the latest returned step */
	uint64_t step_index;
	uint64_t find_seq; /* where the search for a launch begins */
	bool explicit_seen, in_explicit, finished;
	uint64_t explicit_begin_ns;
	uint64_t explicit_end_ns; /* of the latest marked step; 0: none */
	struct step_mark explicit_mark;

	struct steps_pattern pattern;
	uint64_t detect_at; /* launches_seen at which to search for a pattern next */
	uint64_t launches_seen;
	uint64_t search_from;  /* launches_seen when the search began */
	uint64_t locked_after; /* launches from search_from until the pattern was locked */
	uint64_t lock_head;    /* head when locked; 0 once the pattern has cut */
	uint64_t search_ns;    /* start of the launches in which we look for a pattern */
	uint32_t since_match;  /* symbols since the last cut */
	bool early;	       /* the open step has a match before launches_min */
	uint32_t early_steps;  /* number of latest steps in a row that also had one */
	uint32_t early_look;   /* early_steps at which to search for a shorter pattern */
	uint64_t early_first;  /* first item of those steps */
	uint32_t before_name, before_full; /* tokens of the latest followed symbol */
	struct steps_pattern candidate;	   /* the pattern of the previous search */

	struct steps_item *rare; /* ring of STEPS_RARE_MAX; unused for files */
	/* rare_look: rare_head at which to search the rare launches again */
	uint64_t rare_head, rare_look;
	struct steps_seen *seen;	/* hash table of names */
	uint32_t seen_last, seen_guess; /* rows of the latest name and of the name expected next */
	struct steps_fold *fold;
	/* fold_used: some step uses fold; open_folds: the open step does */
	bool fold_used, open_folds;

	struct steps_pending *pending; /* ring */
	uint32_t pending_head, pending_count;

	struct step_mark *marks;
	uint32_t marks_head; /* next slot */

	struct steps_device *pool;
	uint32_t pool_free, pool_used, pool_max;
	/* The list of copies without a launch, in order of arrival. A step's copies begin before
	 * its last kernel ends. */
	uint32_t copies_first, copies_last;

	struct steps_class classes[STEPS_CLASSES_MAX];
	uint32_t class_count;

	void *scratch; /* of steps_detect_find */
	void *account; /* of steps_account_step */
};

static inline struct steps_item *steps_at(const struct steps *s, uint64_t seq)
{
	return &s->items[seq & s->items_mask];
}

static inline bool steps_is_symbol(const struct steps_item *i)
{
	return i->kind != RECORD_STEP_BEGIN && i->kind != RECORD_STEP_END;
}

/* steps_detect.c: finds the pattern of the symbols in [first, last), at most the last
 * launch_max. */
size_t steps_detect_scratch_bytes(uint32_t launch_max);
bool steps_detect_find(struct steps *s, uint64_t first, uint64_t last, struct steps_pattern *out);
/* The same among the rare launches. */
bool steps_detect_find_far(struct steps *s, struct steps_pattern *out);

/* steps_account.c: fills out and kernels from the finished step, and frees its device records. */
size_t steps_account_scratch_bytes(uint32_t devices_max);
void steps_account_init(void *account);
void steps_account_step(struct steps *s, const struct steps_pending *p, struct step *out,
			struct step_kernel *kernels, uint32_t *kernel_count);
/* Adds items [first, last) to s->fold, and frees their device records. */
void steps_account_fold(struct steps *s, uint64_t first, uint64_t last);
void steps_account_free(struct steps *s, struct steps_item *i);
/* Removes the oldest copy from the list. The caller owns its slot. STEPS_NONE: the list is
 * empty. */
uint32_t steps_account_pop_copy(struct steps *s);
