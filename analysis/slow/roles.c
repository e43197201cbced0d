/* SPDX-License-Identifier: Apache-2.0
 * Similarity is not transitive, so a role is a connected set of similar ranks. The sets do not
 * depend on the order of the ranks. */
#include "analysis/slow/roles.h"
#include "model/thresholds.h"

#include <stdbool.h>

#include "base/hash.h"

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

/* Demangled names are cut at their <...>. Mangled names have template arguments in I...E, whose end
 * only a parser finds. So everything from the first argument on is dropped. All digits are dropped
 * too, because tile sizes and the lengths of type names are digits. */
uint64_t roles_key(const char *name)
{
	uint64_t h = HASH_SEED;
	int depth = 0;
	bool mangled = name[0] == '_' && name[1] == 'Z';

	for (const char *p = name; *p; p++) {
		if (!mangled && *p == '>' && depth)
			depth--;
		if (!mangled && *p == '<')
			depth++;
		if (mangled && *p == 'I' && p > name + 2 && is_digit(p[1]))
			break;
		if (mangled && *p == 'I' && p[1] == 'L')
			break;
		if (depth || is_digit(*p) || *p == '>')
			continue;
		h = hash_bytes(h, p, 1);
	}
	return hash_mix(h);
}

double roles_alike(const struct roles_rank *a, const struct roles_rank *b)
{
	double less = 0, more = 0;
	uint32_t i = 0, j = 0;

	while (i < a->kernel_count || j < b->kernel_count) {
		bool left = j == b->kernel_count ||
			    (i < a->kernel_count && a->kernel[i].key <= b->kernel[j].key);
		bool right = i == a->kernel_count ||
			     (j < b->kernel_count && b->kernel[j].key <= a->kernel[i].key);
		double x = left ? (double)a->kernel[i].count : 0;
		double y = right ? (double)b->kernel[j].count : 0;

		i += left;
		j += right;
		less += x < y ? x : y;
		more += x < y ? y : x;
	}
	/* too few launches to compare */
	return more < thresholds.count.few ? 1 : less / more;
}

static bool same_role(const struct roles_rank *a, const struct roles_rank *b)
{
	return roles_alike(a, b) >= thresholds.part.nearly_all;
}

static uint32_t root_of(const uint32_t *role, uint32_t i)
{
	while (role[i] != i)
		i = role[i];
	return i;
}

uint32_t roles_learn(const struct roles_rank *rank, uint32_t n, uint32_t *role)
{
	uint32_t count = 0;

	/* Union-find: the root of a set is its lowest rank. A rank joins all sets that it is
	 * similar to. */
	for (uint32_t i = 0; i < n; i++) {
		role[i] = i;
		for (uint32_t j = 0; j < i; j++) {
			uint32_t a = root_of(role, j), b = root_of(role, i);

			if (a == b || !same_role(&rank[i], &rank[j]))
				continue;
			role[a < b ? b : a] = a < b ? a : b;
		}
	}
	for (uint32_t i = 0; i < n; i++)
		role[i] = root_of(role, i);
	/* A root comes before its members, so roles can be numbered in place. */
	for (uint32_t i = 0; i < n; i++)
		role[i] = role[i] == i ? count++ : role[role[i]];
	return count;
}
