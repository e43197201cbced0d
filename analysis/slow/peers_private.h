/* SPDX-License-Identifier: Apache-2.0
 * peers_private.h - what peers.c, peers_noise.c, peers_test.c and peers_sysom.c share. */
#pragma once

#include "analysis/robust/block_noise.h"
#include "analysis/robust/median.h"
#include "analysis/slow/peers.h"

#define PEERS_UNIT	  0x1p-20 /* unit of a clipped residual in a prefix sum */
#define PEERS_CLIP	  10.0	  /* clip limit, in units of the noise of neighbouring steps */
#define PEERS_WARM	  5u	  /* pushes before the first test */
#define PEERS_SYSOM_PARTS 10u
#define PEERS_QUANTILES	  64u

/* Histogram of how far single steps lie above their rank's location, and the number of steps. */
struct peers_single {
	uint32_t step[BLOCK_NOISE_BINS];
	uint64_t steps;
	/* steps that began a slow stretch; peers_again removes them */
	uint32_t stretch[BLOCK_NOISE_BINS];
	uint64_t stretch_steps;
};

struct peers_member {
	float location; /* follows the residual slowly; outliers are clipped around it */
	float habit;	/* a slower location, updated only while no rank is flagged */
	float high;	/* highest habit; decays slowly */
	double usual;	/* changes_only: median of its first values, once enough were seen */
	uint32_t seen;	/* number of its values, up to count.lots */
	float jitter;	/* running mean of |difference of neighbouring residuals| */
	bool open;
	double base;	      /* residual of the flagged rank without the fault */
	double height;	      /* its excess, as a residual */
	double cusum;	      /* evidence that the open stretch is over */
	uint64_t since;	      /* first push that belongs to no ended stretch */
	uint64_t first, last; /* pushes of the open stretch */
	struct peers_flag flag;
};

struct peers_series {	 /* one measure */
	float *residual; /* [depth][members]; NAN: not known */
	/* [depth + 1][members]: sum of clipped residuals before this push, modulo 2^32 */
	int32_t *sum;
	uint16_t *valid;  /* [depth + 1][members]: number of known residuals, modulo 2^16 */
	float *reference; /* [depth]: median residual of the ranks that are not flagged */
	struct peers_member *member;
	struct block_noise noise; /* of all ranks, relative to a step */
	struct peers_single single;
	double jitter; /* median of the ranks' jitters */
	uint32_t open;
	double *first; /* changes_only: [count.some][members] first values */
	float *high;   /* changes_only: [depth][members]; the ranks' `high` before that push */
	double middle; /* changes_only: median of the ranks' usual values */
	double *part;  /* mode sysom: [PEERS_SYSOM_PARTS][members] sums, then counts */
};

struct peers {
	struct peers_config c;
	uint32_t n, depth, windows;
	uint64_t pushes;
	/* pushes before peers_again; 0: peers_again was not called */
	uint64_t learned;
	double quantile_step_ns;	 /* the step time that quantile[] was computed for */
	double quantile[PEERS_WINDOWS];	 /* by window: Gaussian, one-sided */
	double evidence[PEERS_WINDOWS];	 /* -log of the chance that the quantile stands for */
	double student[PEERS_QUANTILES]; /* by degrees of freedom; 0: not computed yet */
	struct peers_series series[PEERS_MEASURES];
	uint64_t *step;	 /* [depth] */
	float *level_ns; /* [depth]: median self time of the ranks */
	float *weight;	 /* [depth] */
	float *own;	 /* [depth][2]: with two ranks: the logarithms of their self times */
	double weight_mean;
	double step_ns;
	bool paced; /* step_ns is known */
	double *value, *scratch;
	uint32_t *order, *key; /* order: [2 * members] */
	struct peers_flag *queue;
	uint32_t queue_room, queue_head, queue_count;
};

static inline uint32_t peers_at(const struct peers *p, uint64_t push)
{
	return (uint32_t)(push % p->depth);
}

/* peers_noise.c */
void peers_noise_push(struct peers *p, struct peers_series *s);
/* Standard deviation of a rank's mean over length pushes. With heavy tails, it is the one of a
 * Gaussian that reaches as far. *widened: the same, enlarged if few values are known. 0: not known
 * yet. */
double peers_noise_of(const struct peers *p, const struct peers_series *s, uint32_t length,
		      double *widened);
/* A step of a rank without an open flag: its distance above the rank's location. */
void peers_noise_step(struct peers_single *no, double above);
/* This step was part of a slow stretch, not a single high step. */
void peers_noise_stretch(struct peers_single *no, double above);
/* Share of single steps that lie at least `above` above their location, not counting `own` of
 * them. */
double peers_noise_share(const struct peers_single *no, double above, uint32_t own);

/* peers_test.c */
void peers_test_windows(struct peers *p, enum peers_measure q);
/* Mean clipped residual of [begin, end) pushes; NAN where under 70% are known. */
double peers_test_mean(const struct peers *p, const struct peers_series *s, uint32_t member,
		       uint64_t begin, uint64_t end);

/* peers.c */
void peers_queue_flag(struct peers *p, const struct peers_flag *f);
/* base: the rank's residual without the fault; threshold: the excess that was needed. */
void peers_open(struct peers *p, enum peers_measure q, uint32_t member, uint32_t length,
		double base, double threshold);
/* The rank's median residual over [begin, end) pushes, less base and the others' residual; NAN:
 * no value is known. */
double peers_excess(struct peers *p, const struct peers_series *s, uint32_t member, double base,
		    uint64_t begin, uint64_t end);
/* Call after a flag was raised or ended. */
void peers_update_reference(struct peers *p, struct peers_series *s, uint64_t begin, uint64_t end);

/* peers_sysom.c */
void peers_sysom_push(struct peers *p, enum peers_measure q, const double *value);
