/* SPDX-License-Identifier: Apache-2.0
 * What holds for every verdict, whatever the ledger: tried on thousands of drawn ones. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "analysis/cause/diagnosis.h"
#include "base/check.h"

#define MS	 1000000ull
#define STEPS	 20u
#define DRAWS	 3000u
#define ACCOUNTS 12u
#define PEERS	 6u
#define SIGNALS	 6u

static uint64_t rng;

static uint32_t draw(uint32_t below)
{
	rng ^= rng << 13;
	rng ^= rng >> 7;
	rng ^= rng << 17;
	return (uint32_t)((rng * 0x2545f4914f6cdd1dull >> 32) % below);
}

/* ---- a case, drawn ---- */

struct entry {
	enum ledger_kind kind;
	enum ledger_what what;
	char name[32];
	uint64_t usual_ns, slow_ns, usual_count, slow_count; /* per step */
};

struct drawn {
	struct entry entry[ACCOUNTS];
	uint32_t entries;
	struct os_signal signal[SIGNALS];
	uint32_t signals;
	uint32_t peer[PEERS]; /* who they are, in this order */
	uint32_t peers;
	double scale; /* of all times */
};

static void draw_case(struct drawn *d, uint64_t seed)
{
	static const enum os_signal_kind kinds[] = {
	    OS_SIGNAL_SOFTIRQ_STOLEN, OS_SIGNAL_RUN_WAIT, OS_SIGNAL_CPU_HOG, OS_SIGNAL_FAULTS,
	    OS_SIGNAL_IO_WAIT,	      OS_SIGNAL_STEAL,	  OS_SIGNAL_REFAULTS};

	rng = 0x9e3779b97f4a7c15ull ^ seed * 0x2545f4914f6cdd1dull;
	memset(d, 0, sizeof(*d));
	d->scale = 1;
	d->entries = 2 + draw(ACCOUNTS - 1);
	for (uint32_t i = 0; i < d->entries; i++) {
		struct entry *e = &d->entry[i];

		e->kind = i ? (enum ledger_kind)(1 + draw(LEDGER_KINDS - 1)) : LEDGER_UNOBSERVED;
		e->what =
		    e->kind >= LEDGER_RUNNING ? (enum ledger_what)draw(LEDGER_WHATS) : LEDGER_NONE;
		snprintf(e->name, sizeof(e->name), "name_%u", draw(5));
		e->usual_ns = draw(20) * MS;
		e->slow_ns = e->usual_ns + (draw(3) ? 0 : draw(40) * MS);
		e->usual_count = 1 + draw(10);
		e->slow_count = e->usual_count + (draw(3) ? 0 : draw(10));
	}
	d->entry[1 + draw(d->entries - 1)].slow_ns += 30 * MS; /* something is slow */
	d->signals = draw(SIGNALS + 1);
	for (uint32_t i = 0, first = draw(ARRAY_LEN(kinds)); i < d->signals; i++)
		os_signal_make(&d->signal[i], kinds[(first + i) % ARRAY_LEN(kinds)], "x (pid 7)",
			       5 + draw(900), draw(20), 120);
	d->peers = 2 + draw(PEERS - 1);
	for (uint32_t i = 0; i < d->peers; i++)
		d->peer[i] = i;
}

static struct diagnosis_rank figures(int rank, double step_ns, double self_ns, double scale)
{
	return (struct diagnosis_rank){.rank = rank,
				       .steps = STEPS,
				       .step_ns = step_ns * scale,
				       .self_ns = self_ns * scale,
				       .gil_wait_ns = -1,
				       .off_ns = -1,
				       .exposed_comm_ns = -1,
				       .comm_ns = -1,
				       .copy_ns = -1,
				       .compute_ns = -1,
				       .idle_ns = -1};
}

static void judge(const struct drawn *d, struct diagnosis *out)
{
	struct ledger slow, usual;
	struct diagnosis_rank suspect, peer[PEERS + 1];
	struct os_signal signal[SIGNALS];
	struct diagnosis_input in = {.kind = FINDING_SLOW_RANK,
				     .suspect = &suspect,
				     .suspect_count = 1,
				     .peer = peer,
				     .peer_count = d->peers};
	double slow_ns = 0, usual_ns = 0, slow_own_ns = 0, usual_own_ns = 0;

	ledger_init(&slow);
	ledger_init(&usual);
	slow.steps = usual.steps = STEPS;
	for (uint32_t i = 0; i < d->entries; i++) {
		const struct entry *e = &d->entry[i];
		double s = (double)e->slow_ns * d->scale, u = (double)e->usual_ns * d->scale;

		ledger_charge(&slow, e->kind, e->what, e->name, (uint64_t)s * STEPS,
			      e->slow_count * STEPS);
		ledger_charge(&usual, e->kind, e->what, e->name, (uint64_t)u * STEPS,
			      e->usual_count * STEPS);
		slow_ns += (double)e->slow_ns;
		usual_ns += (double)e->usual_ns;
		slow_own_ns += ledger_is_own(e->kind) ? (double)e->slow_ns : 0;
		usual_own_ns += ledger_is_own(e->kind) ? (double)e->usual_ns : 0;
	}
	suspect = figures(5, slow_ns, slow_own_ns, d->scale);
	for (uint32_t i = 0; i < d->peers; i++)
		peer[i] = figures((int)d->peer[i] + 10, usual_ns + d->peer[i] * 1e4,
				  usual_own_ns + d->peer[i] * 1e4, d->scale);
	for (uint32_t i = 0; i < d->signals; i++) {
		signal[i] = d->signal[i];
		signal[i].weight_ms *= d->scale;
	}
	suspect.signal = signal;
	suspect.signal_count = d->signals;
	suspect.ledger = &slow;
	suspect.usual = &usual;
	suspect.usual_is_own = true;
	diagnosis_make(&in, out);
	ledger_fini(&slow);
	ledger_fini(&usual);
}

static void same(const struct diagnosis *a, const struct diagnosis *b, double scale, uint64_t seed)
{
	if (a->cause != b->cause || fabs(a->confidence - b->confidence) > 1e-6 ||
	    fabs(a->effect_ns * scale - b->effect_ns) > 1e-6 * fabs(b->effect_ns) + 1e3)
		fail_msg("draw %llu: %s, %f, %f ns; %s, %f, %f ns", (unsigned long long)seed,
			 finding_cause_id(a->cause), a->confidence, a->effect_ns,
			 finding_cause_id(b->cause), b->confidence, b->effect_ns);
}

/* ---- what holds ---- */

static void the_order_of_peers_and_of_accounts_changes_nothing(void **unused)
{
	static struct diagnosis before, after;
	struct drawn d, shuffled;

	for (uint64_t seed = 1; seed <= DRAWS; seed++) {
		draw_case(&d, seed);
		judge(&d, &before);
		shuffled = d;
		for (uint32_t i = d.peers - 1; i > 0; i--) {
			uint32_t k = draw(i + 1), was = shuffled.peer[i];

			shuffled.peer[i] = shuffled.peer[k];
			shuffled.peer[k] = was;
		}
		for (uint32_t i = 0; i < d.entries; i++)
			shuffled.entry[i] = d.entry[d.entries - 1 - i];
		judge(&shuffled, &after);
		same(&before, &after, 1, seed);
	}
}

static void scaling_time_scales_milliseconds_and_nothing_else(void **unused)
{
	static struct diagnosis before, after;
	struct drawn d;

	for (uint64_t seed = 1; seed <= DRAWS; seed++) {
		draw_case(&d, seed);
		judge(&d, &before);
		d.scale = 8;
		judge(&d, &after);
		same(&before, &after, 8, seed);
	}
}

/* Accounts that shrank make room for more in those that grew. */
static void no_cause_explains_more_than_what_grew(void **unused)
{
	static struct diagnosis out;
	struct drawn d;

	for (uint64_t seed = 1; seed <= DRAWS; seed++) {
		double excess = 0;

		draw_case(&d, seed);
		judge(&d, &out);
		for (uint32_t i = 0; i < d.entries; i++)
			if (ledger_is_own(d.entry[i].kind) &&
			    d.entry[i].slow_ns > d.entry[i].usual_ns)
				excess += (double)(d.entry[i].slow_ns - d.entry[i].usual_ns);
		if (out.effect_ns > excess + 1e3 || out.confidence < 0 || out.confidence > 1)
			fail_msg("draw %llu: %s explains %f of %f ns, confidence %f",
				 (unsigned long long)seed, finding_cause_id(out.cause),
				 out.effect_ns, excess, out.confidence);
	}
}

static void less_sure(const struct drawn *less, const struct diagnosis *all, const char *what,
		      uint64_t seed)
{
	static struct diagnosis out;

	judge(less, &out);
	if (out.cause == all->cause && out.confidence > all->confidence + 1e-9)
		fail_msg("draw %llu without %s: %s, %f, not %f", (unsigned long long)seed, what,
			 finding_cause_id(out.cause), out.confidence, all->confidence);
}

/* Whether it leads to the cause by itself: an account, or a signal that explains what nobody saw. */
static bool speaks_for(const struct drawn *d, int entry, int signal, enum finding_cause cause)
{
	static struct diagnosis out;
	struct drawn alone = *d;

	alone.entries = 2;
	alone.signals = 0;
	alone.entry[0].usual_ns = alone.entry[0].slow_ns = 0;
	if (entry >= 0)
		alone.entry[1] = d->entry[entry];
	else {
		alone.entry[1] = alone.entry[0];
		alone.entry[1].slow_ns = 40 * MS;
		alone.signal[alone.signals++] = d->signal[signal];
	}
	judge(&alone, &out);
	return out.cause == cause;
}

/* Of what speaks for the cause; what speaks for another one may well be missed. The first entry is what
 * nobody saw. Signals that could explain that too are left out with accounts: they compete for it. */
static void what_is_taken_away_makes_no_cause_surer(void **unused)
{
	static struct diagnosis all;
	uint32_t signals = 0, accounts = 0;
	struct drawn d, less;

	for (uint64_t seed = 1; seed <= DRAWS; seed++) {
		uint32_t k;

		draw_case(&d, seed);
		judge(&d, &all);
		k = d.signals ? draw(d.signals) : 0;
		if (d.signals && all.cause != CAUSE_CPU_HOST_GAP &&
		    speaks_for(&d, -1, (int)k, all.cause)) {
			less = d;
			less.signal[k] = less.signal[--less.signals];
			less_sure(&less, &all, "a signal", seed);
			signals++;
		}
		d.signals = 0;
		judge(&d, &all);
		k = 1 + draw(d.entries - 1);
		if (d.entry[k].kind >= LEDGER_RUNNING && speaks_for(&d, (int)k, -1, all.cause)) {
			less = d;
			less.entry[0].usual_ns += d.entry[k].usual_ns;
			less.entry[0].slow_ns += d.entry[k].slow_ns;
			less.entry[k].usual_ns = less.entry[k].slow_ns = 0;
			less_sure(&less, &all, "an account", seed);
			accounts++;
		}
	}
	assert_true(signals > DRAWS / 50 && accounts > DRAWS / 50);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(the_order_of_peers_and_of_accounts_changes_nothing),
	    cmocka_unit_test(scaling_time_scales_milliseconds_and_nothing_else),
	    cmocka_unit_test(no_cause_explains_more_than_what_grew),
	    cmocka_unit_test(what_is_taken_away_makes_no_cause_surer),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
