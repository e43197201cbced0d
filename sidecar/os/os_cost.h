/* SPDX-License-Identifier: Apache-2.0
 * os_cost.h - keep the cost of the OS signals' BPF programs within a budget. The kernel counts
 * their run times for one second in ten. If the sum exceeds the budget twice in a row, the
 * costliest group is detached: first for a minute, then longer each time. While a rank is
 * suspected, a detached group is attached again for a short time, so short that it stays within the
 * budget over half a minute. Pure: time and sums are arguments. Threads: one caller. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum os_group {
	OS_GROUP_ALWAYS = 0, /* tracks the watched processes; the others need it */
	OS_GROUP_CPU,	     /* which threads had the CPU, waits for storage */
	OS_GROUP_INTERRUPTS,
	OS_GROUP_PACKETS,
	OS_GROUP_MEMORY,
	OS_GROUP_STORAGE,
	OS_GROUP_NETWORK,
	OS_GROUP_LOCKS,
	OS_GROUP_COUNT
};

struct os_cost_sums { /* counters by group; only differences matter */
	uint64_t run_ns[OS_GROUP_COUNT];
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
	struct {
		bool off;
		uint64_t until_ns;
		uint32_t times;		/* consecutive times */
		double share;		/* its cost when it was detached */
		uint64_t look_until_ns; /* attached briefly until then; 0: it is not */
		uint64_t look_again_ns;
	} down[OS_GROUP_COUNT];
};

void os_cost_init(struct os_cost *c, double budget, uint32_t cpus, uint64_t now_ns);
const char *os_cost_group_name(enum os_group group); /* "interrupts" */
/* Whether to begin a measurement now, with os_cost_begin. */
bool os_cost_due(const struct os_cost *c, uint64_t now_ns);
void os_cost_begin(struct os_cost *c, const struct os_cost_sums *sums, uint64_t now_ns);
/* Ends a measurement. True: it was long enough. *down: the group to detach; OS_GROUP_COUNT:
 * none. */
bool os_cost_end(struct os_cost *c, const struct os_cost_sums *sums, uint64_t now_ns,
		 enum os_group *down);
/* A group to attach again because its pause is over; OS_GROUP_COUNT: none. */
enum os_group os_cost_again(struct os_cost *c, uint64_t now_ns);
/* A group to attach briefly or, with *on false, to detach again; OS_GROUP_COUNT: none. wanted: a
 * rank is suspected. Call until it returns OS_GROUP_COUNT. */
enum os_group os_cost_look(struct os_cost *c, bool wanted, uint64_t now_ns, bool *on);
bool os_cost_is_attached(const struct os_cost *c, enum os_group group);
/* The detached groups: "locks (0.41% of the CPUs' time)"; "": none. */
const char *os_cost_text(const struct os_cost *c, char *out, size_t bytes);
