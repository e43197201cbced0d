/* SPDX-License-Identifier: Apache-2.0
 * os_cost.h - holds what the BPF programs of the OS signals cost within a budget. For one second in ten
 * the kernel counts their run times; where the sum is above the budget twice in a row, the costliest
 * group of programs is let go for a minute, then for longer and longer. While a rank is suspected such
 * a group comes back for a look, for so long that it stays within the budget over half a minute. Pure:
 * time and sums are arguments. Threads: one caller. */
#ifndef SYSOM_SIDECAR_OS_OS_COST_H
#define SYSOM_SIDECAR_OS_OS_COST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum os_group {
	OS_GROUP_ALWAYS = 0, /* who is watched: nothing works without */
	OS_GROUP_CPU,	     /* who had the CPU, sleeps for storage */
	OS_GROUP_INTERRUPTS,
	OS_GROUP_PACKETS,
	OS_GROUP_MEMORY,
	OS_GROUP_STORAGE,
	OS_GROUP_NETWORK,
	OS_GROUP_LOCKS,
	OS_GROUP_COUNT
};

struct os_cost_sums { /* since any time before, by group */
	uint64_t run_ns[OS_GROUP_COUNT], runs[OS_GROUP_COUNT];
};

struct os_cost {
	double budget; /* share of the time of all CPUs; 0: none */
	uint32_t cpus;
	bool measuring, over; /* over: the last measurement was above the budget */
	uint64_t begin_ns, next_ns;
	struct os_cost_sums before;
	uint64_t measurements;
	/* of the last measurement */
	double share[OS_GROUP_COUNT], total;
	double runs_per_s;
	struct {
		bool off;
		uint64_t until_ns;
		uint32_t times; /* in a row */
		double share;	/* when it was let go */
		uint64_t look_until_ns; /* attached for a look until then; 0: it is not */
		uint64_t look_again_ns;
	} down[OS_GROUP_COUNT];
};

void os_cost_init(struct os_cost *c, double budget, uint32_t cpus, uint64_t now_ns);
const char *os_cost_group_name(enum os_group group); /* "interrupts" */
/* Whether a measurement should begin now; then os_cost_begin. */
bool os_cost_due(const struct os_cost *c, uint64_t now_ns);
void os_cost_begin(struct os_cost *c, const struct os_cost_sums *sums, uint64_t now_ns);
/* Ends a measurement that has gone on for long enough: true. *down: the group to let go, OS_GROUP_COUNT
 * none. */
bool os_cost_end(struct os_cost *c, const struct os_cost_sums *sums, uint64_t now_ns, enum os_group *down);
/* A group whose time is up: to be attached again; OS_GROUP_COUNT: none. */
enum os_group os_cost_again(struct os_cost *c, uint64_t now_ns);
/* A group to be attached for a look or, *on false, to be let go after it; OS_GROUP_COUNT: none. wanted: a
 * rank is suspected. To be called until there is none. */
enum os_group os_cost_look(struct os_cost *c, bool wanted, uint64_t now_ns, bool *on);
bool os_cost_is_attached(const struct os_cost *c, enum os_group group);
/* "locks (0.41% of the CPUs' time)"; "" none. */
const char *os_cost_text(const struct os_cost *c, char *out, size_t bytes);

#endif
