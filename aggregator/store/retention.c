/* SPDX-License-Identifier: Apache-2.0
 * The rules are one line of text, not a YAML list, so that a flag and a variable can set them too,
 * as they can every other setting. */
#include "aggregator/store/retention.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/daemon/config.h"

#define KEY(field, key, type, ...)                                                                 \
	CONFIG_KEY(struct retention_limits, field, key, type, NULL, NULL, __VA_ARGS__)
static const struct config_key keys[] = {
    KEY(window_age_ns, "windows", CONFIG_DURATION, .min = RETENTION_AGE_MIN_NS,
	.max = RETENTION_AGE_MAX_NS),
    KEY(incident_age_ns, "incidents", CONFIG_DURATION, .min = RETENTION_AGE_MIN_NS,
	.max = RETENTION_AGE_MAX_NS),
    KEY(bytes, "max_bytes", CONFIG_BYTES),
    KEY(incidents, "max_incidents", CONFIG_UINT, .min = 0, .max = RETENTION_INCIDENTS_MAX),
};

/* Takes at most time proportional to the product of both lengths, however many stars there are,
 * because the job's name is untrusted. */
static bool fits(const char *pattern, const char *text)
{
	const char *star = NULL, *from = NULL;

	while (*text) {
		if (*pattern == '*') {
			star = pattern++;
			from = text;
		} else if (*pattern == '?' || *pattern == *text) {
			pattern++;
			text++;
		} else if (star) {
			pattern = star + 1;
			text = ++from;
		} else {
			return false;
		}
	}
	return !pattern[strspn(pattern, "*")];
}

/* Cuts the next word off *text; NULL: none is left. */
static char *next_word(char **text, const char *between)
{
	char *word = *text + strspn(*text, between);
	size_t n = strcspn(word, between);

	*text = word + n + (word[n] != '\0');
	word[n] = '\0';
	return n ? word : NULL;
}

static int set_limit(struct retention_limits *l, char *word, char *why, size_t why_bytes)
{
	char *value = strchr(word, '='), wrong[160];

	if (value)
		*value++ = '\0';
	for (size_t i = 0; value && i < sizeof(keys) / sizeof(keys[0]); i++) {
		if (strcmp(word, keys[i].key))
			continue;
		if (!config_set(l, &keys[i], value, wrong, sizeof(wrong)))
			return 0;
		snprintf(why, why_bytes, "%s: %s", word, wrong);
		return -EINVAL;
	}
	snprintf(why, why_bytes,
		 "\"%s\" is not windows=AGE, incidents=AGE, max_bytes=SIZE or max_incidents=N",
		 word);
	return -EINVAL;
}

static int read_rule(struct retention_rule *rule, char *text, char *why, size_t why_bytes)
{
	char *word = next_word(&text, " \t\n"), wrong[256];
	int err = 0;

	if (strlen(word) >= sizeof(rule->pattern)) {
		snprintf(why, why_bytes, "\"%.20s...\" is longer than a job's name", word);
		return -EINVAL;
	}
	strcpy(rule->pattern, word);
	while (!err && (word = next_word(&text, " \t\n")))
		err = set_limit(&rule->limits, word, wrong, sizeof(wrong));
	if (!err && rule->limits.window_age_ns > rule->limits.incident_age_ns) {
		snprintf(
		    wrong, sizeof(wrong),
		    "windows is longer than incidents; windows are removed with their incident");
		err = -EINVAL;
	}
	if (err)
		snprintf(why, why_bytes, "rule \"%s\": %s", rule->pattern, wrong);
	return err;
}

int retention_read(struct retention *r, const char *text, char *why, size_t why_bytes)
{
	char copy[LIMIT_RETENTION_TEXT_BYTES], *rest = copy, *one;
	int err = 0;

	if (strlen(text) >= sizeof(copy)) {
		snprintf(why, why_bytes, "longer than %zu bytes", sizeof(copy) - 1);
		return -EINVAL;
	}
	strcpy(copy, text);
	r->rule_count = 0;
	while (!err && (one = next_word(&rest, ";"))) {
		struct retention_rule rule = {.limits = r->rest};

		if (!one[strspn(one, " \t\n")])
			continue;
		if (r->rule_count == LIMIT_RETENTION_RULES) {
			snprintf(why, why_bytes, "more than %d rules", LIMIT_RETENTION_RULES);
			return -EINVAL;
		}
		err = read_rule(&rule, one, why, why_bytes);
		r->rules[r->rule_count++] = rule;
	}
	return err;
}

const struct retention_limits *retention_of(const struct retention *r, const char *job)
{
	for (uint32_t i = 0; i < r->rule_count; i++)
		if (fits(r->rules[i].pattern, job))
			return &r->rules[i].limits;
	return &r->rest;
}

uint64_t retention_longest_ns(const struct retention *r)
{
	uint64_t longest = r->rest.incident_age_ns;

	for (uint32_t i = 0; i < r->rule_count; i++)
		if (r->rules[i].limits.incident_age_ns > longest)
			longest = r->rules[i].limits.incident_age_ns;
	return longest;
}

uint64_t retention_shortest_ns(const struct retention *r)
{
	uint64_t shortest = r->rest.incident_age_ns;

	for (uint32_t i = 0; i < r->rule_count; i++)
		if (r->rules[i].limits.incident_age_ns < shortest)
			shortest = r->rules[i].limits.incident_age_ns;
	return shortest;
}
