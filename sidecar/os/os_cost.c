/* SPDX-License-Identifier: Apache-2.0 */
#include "sidecar/os/os_cost.h"

#include <stdio.h>
#include <string.h>

#define EVERY_NS       10000000000ull
#define LENGTH_NS      500000000ull /* at least; the caller comes once a second */
#define DOWN_FIRST_NS  60000000000ull
#define DOWN_TIMES_MAX 6u /* doublings, up to an hour */
#define LOOK_EVERY_NS  30000000000ull
#define LOOK_MIN_NS    2000000000ull
#define LOOK_MAX_NS    10000000000ull
#define WELL_NS	       600000000000ull /* after this long without trouble, pauses are short again */

void os_cost_init(struct os_cost *c, double budget, uint32_t cpus, uint64_t now_ns)
{
	memset(c, 0, sizeof(*c));
	c->budget = budget;
	c->cpus = cpus ? cpus : 1;
	c->next_ns = now_ns + EVERY_NS / 2; /* not while everything is still starting */
}

const char *os_cost_group_name(enum os_group group)
{
	static const char *const names[OS_GROUP_COUNT] = {
	    "processes", "cpu", "interrupts", "packets", "memory", "storage", "network", "locks"};

	return group < OS_GROUP_COUNT ? names[group] : "";
}

bool os_cost_due(const struct os_cost *c, uint64_t now_ns)
{
	return !c->measuring && now_ns >= c->next_ns;
}

void os_cost_begin(struct os_cost *c, const struct os_cost_sums *sums, uint64_t now_ns)
{
	c->measuring = true;
	c->begin_ns = now_ns;
	c->before = *sums;
}

static enum os_group costliest(const struct os_cost *c)
{
	enum os_group most = OS_GROUP_COUNT;

	for (unsigned g = OS_GROUP_ALWAYS + 1; g < OS_GROUP_COUNT; g++)
		if (!c->down[g].off && c->share[g] > 0 &&
		    (most == OS_GROUP_COUNT || c->share[g] > c->share[most]))
			most = g;
	return most;
}

static void detach(struct os_cost *c, enum os_group g, uint64_t now_ns)
{
	if (c->down[g].until_ns && now_ns > c->down[g].until_ns + WELL_NS)
		c->down[g].times = 0;
	c->down[g].off = true;
	c->down[g].share = c->share[g];
	c->down[g].until_ns = now_ns + (DOWN_FIRST_NS << c->down[g].times);
	c->down[g].times += c->down[g].times < DOWN_TIMES_MAX;
}

bool os_cost_end(struct os_cost *c, const struct os_cost_sums *sums, uint64_t now_ns,
		 enum os_group *down)
{
	double all_ns = (double)(now_ns - c->begin_ns) * c->cpus;
	bool before = c->over;

	*down = OS_GROUP_COUNT;
	if (!c->measuring || now_ns - c->begin_ns < LENGTH_NS)
		return false;
	c->measuring = false;
	c->measurements++;
	c->total = 0;
	for (unsigned g = 0; g < OS_GROUP_COUNT; g++) {
		c->share[g] = (double)(sums->run_ns[g] - c->before.run_ns[g]) / all_ns;
		if (!c->down[g].off) /* a briefly attached group has its own bounds */
			c->total += c->share[g];
	}
	c->over = c->budget > 0 && c->total > c->budget;
	c->next_ns = c->over ? now_ns : now_ns + EVERY_NS;
	if (c->over && before) {
		*down = costliest(c);
		if (*down < OS_GROUP_COUNT)
			detach(c, *down, now_ns);
		else /* no group is left to detach */
			c->next_ns = now_ns + EVERY_NS;
		c->over = false;
	}
	return true;
}

enum os_group os_cost_again(struct os_cost *c, uint64_t now_ns)
{
	for (unsigned g = 0; g < OS_GROUP_COUNT; g++)
		if (c->down[g].off && now_ns >= c->down[g].until_ns) {
			c->down[g].off = false;
			c->down[g].look_until_ns = 0;
			c->next_ns = now_ns; /* measure its cost soon */
			return g;
		}
	return OS_GROUP_COUNT;
}

/* How long a group may be attached briefly: so long that it costs what the budget allows in 30
 * s. */
static uint64_t look_ns(const struct os_cost *c, enum os_group g)
{
	double ns = (double)LOOK_EVERY_NS * c->budget / c->down[g].share;

	return ns < (double)LOOK_MIN_NS ? 0 : ns < (double)LOOK_MAX_NS ? (uint64_t)ns : LOOK_MAX_NS;
}

enum os_group os_cost_look(struct os_cost *c, bool wanted, uint64_t now_ns, bool *on)
{
	for (unsigned g = 0; g < OS_GROUP_COUNT; g++) {
		uint64_t ns;

		if (!c->down[g].off)
			continue;
		*on = !c->down[g].look_until_ns;
		if (!*on && now_ns >= c->down[g].look_until_ns) {
			c->down[g].look_until_ns = 0;
			return g;
		}
		ns = *on && wanted && now_ns >= c->down[g].look_again_ns ? look_ns(c, g) : 0;
		if (ns) {
			c->down[g].look_until_ns = now_ns + ns;
			c->down[g].look_again_ns = now_ns + LOOK_EVERY_NS;
			return g;
		}
	}
	return OS_GROUP_COUNT;
}

bool os_cost_is_attached(const struct os_cost *c, enum os_group group)
{
	return !c->down[group].off || c->down[group].look_until_ns;
}

const char *os_cost_text(const struct os_cost *c, char *out, size_t bytes)
{
	size_t used = 0;

	*out = '\0';
	for (unsigned g = 0; g < OS_GROUP_COUNT && used < bytes; g++)
		if (c->down[g].off)
			used += (size_t)snprintf(
			    out + used, bytes - used, "%s%s (%.2g%% of the CPUs' time)",
			    used ? ", " : "", os_cost_group_name(g), 100 * c->down[g].share);
	return out;
}
