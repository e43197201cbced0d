/* SPDX-License-Identifier: Apache-2.0
 * peers_private.h - what peers.c, peers_noise.c, peers_test.c and peers_sysom.c share. Not for
 * others. */
#ifndef SYSOM_ANALYSIS_SLOW_PEERS_PRIVATE_H
#define SYSOM_ANALYSIS_SLOW_PEERS_PRIVATE_H

#include "analysis/robust/block_noise.h"
#include "analysis/robust/median.h"
#include "analysis/slow/peers.h"

#define PEERS_UNIT	  0x1p-20 /* of a clipped residual in a prefix sum */
#define PEERS_CLIP	  10.0	  /* of the noise of neighbouring steps */
#define PEERS_WARM	  5u	  /* pushes before the first look */
#define PEERS_SYSOM_PARTS 10u
#define PEERS_QUANTILES	  64u

/* Residuals of single steps above their member's location, and how many steps were seen. */
struct peers_single {
	uint32_t step[BLOCK_NOISE_BINS];
	uint64_t steps;
	/* those that began a slow stretch; forgotten before the rows come again */
	uint32_t stretch[BLOCK_NOISE_BINS];
	uint64_t stretch_steps;
};

struct peers_member {
	float location; /* follows the residual slowly; outliers are clipped around it */
	float habit;	/* the same, followed while nobody is slow */
	float high;	/* the highest habit, forgotten slowly */
	double usual;	/* changes_only: median of its first values, once some are seen */
	uint32_t seen;	/* number of its values, up to count.lots */
	float jitter;	/* running mean of |difference of neighbouring residuals| */
	bool open;
	double base;	      /* normal residual of an open member */
	double height;	      /* its excess, in residuals */
	double cusum;	      /* evidence that the open stretch is over */
	uint64_t since;	      /* first push that belongs to no ended stretch */
	uint64_t first, last; /* pushes of the open stretch */
	struct peers_flag flag;
};

struct peers_series {	 /* one measure */
	float *residual; /* [depth][members]; NAN: not known */
	int32_t *sum; /* [depth + 1][members]: of clipped residuals before this push, modulo 2^32 */
	uint16_t *valid;  /* the same, number of known ones, modulo 2^16 */
	float *reference; /* [depth]: median residual of the members that are not open */
	struct peers_member *member;
	struct block_noise noise; /* of all members, in parts of a step */
	struct peers_single single;
	double jitter; /* the median member's */
	uint32_t open;
	double *first; /* changes_only: [count.some][members] first values */
	float *high;   /* changes_only: [depth][members]; before that push */
	double middle; /* changes_only: median of the members' usual values */
	double *part;  /* mode sysom: [PEERS_SYSOM_PARTS][members] sums, then counts */
};

struct peers {
	struct peers_config c;
	uint32_t n, depth, windows;
	uint64_t pushes;
	uint64_t learned;		 /* pushes before peers_again; 0: the first time */
	double quantile_step_ns;	 /* the step that quantile[] was computed for */
	double quantile[PEERS_WINDOWS];	 /* Gaussian, one-sided */
	double evidence[PEERS_WINDOWS];	 /* log of the chance that it stands for, negated */
	double student[PEERS_QUANTILES]; /* by degrees of freedom; 0: not made yet */
	struct peers_series series[PEERS_MEASURES];
	uint64_t *step;	 /* [depth] */
	float *level_ns; /* [depth]: the members' median self time */
	float *weight;	 /* [depth] */
	float *own;	 /* [depth][2]: log self times of a pair */
	double weight_mean;
	double step_ns;
	bool paced; /* step_ns is known */
	double *value, *scratch;
	uint32_t *order, *key; /* order: [2 * members] */
	struct peers_flag *queue;
	uint32_t queue_room, queue_head, queue_count;
	uint64_t lost;
};

static inline uint32_t peers_at(const struct peers *p, uint64_t push)
{
	return (uint32_t)(push % p->depth);
}

/* peers_noise.c */
void peers_noise_push(struct peers *p, struct peers_series *s);
/* Standard deviation of a member's mean over length pushes; with heavy tails, that of a Gaussian
 * that reaches as far. *widened: the same, enlarged where few values are known. 0: not known yet. */
double peers_noise_of(const struct peers *p, const struct peers_series *s, uint32_t length,
		      double *widened);
/* A step of a member without an open flag: its distance above the member's location. */
void peers_noise_step(struct peers_single *no, double above);
/* This step was part of a slow stretch, not a single high step. */
void peers_noise_stretch(struct peers_single *no, double above);
/* Share of such steps that lie as far above, not counting `own` of them. */
double peers_noise_share(const struct peers_single *no, double above, uint32_t own);

/* peers_test.c */
void peers_test_windows(struct peers *p, enum peers_measure q);
/* Mean clipped residual of [begin, end) pushes; NAN where under 70% are known. */
double peers_test_mean(const struct peers *p, const struct peers_series *s, uint32_t member,
		       uint64_t begin, uint64_t end);

/* peers.c */
void peers_tell(struct peers *p, const struct peers_flag *f);
/* base: the member's normal residual above the others; threshold: what it had to exceed. */
void peers_open(struct peers *p, enum peers_measure q, uint32_t member, uint32_t length,
		double base, double threshold);
/* Median residual above base and the others over [begin, end) pushes; NAN: none known. */
double peers_excess(struct peers *p, const struct peers_series *s, uint32_t member, double base,
		    uint64_t begin, uint64_t end);
/* Recomputes the reference of these pushes after a flag was raised or ended. */
void peers_refer(struct peers *p, struct peers_series *s, uint64_t begin, uint64_t end);

/* peers_sysom.c */
void peers_sysom_push(struct peers *p, enum peers_measure q, const double *value);

#endif
