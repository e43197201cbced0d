/* SPDX-License-Identifier: Apache-2.0 */
#include "aggregator/incident/ledger_json.h"

#include <math.h>
#include <stdlib.h>

#include "aggregator/incident/incident_ledgers.h"
#include "base/text/json_text.h"
#include "base/text/text.h"

/* Accounts below this share of the step, or beyond ROWS_MAX, are summed in "other". */
#define ROW_SHARE_MIN 0.002
#define ROWS_MAX      16u
#define EXPLAIN_SHARE 0.8 /* the share of a rank's own excess that a cause must explain */

static json_t *row_json(const struct ledger_row *r, double whole_ns)
{
	return json_pack("{s:s, s:s, s:o, s:f, s:f, s:f, s:f, s:f}", "account",
			 ledger_kind_name(r->kind), "what", ledger_what_id(r->what), "name",
			 json_text(r->name), "reference_ms", text_ms(r->reference_ns), "slow_ms",
			 text_ms(r->slow_ns), "excess_ms", text_ms(r->excess_ns), "work_ms",
			 text_ms(r->work_ns), "share", whole_ns > 0 ? r->excess_ns / whole_ns : 0);
}

static double size_of(const struct ledger_row *r)
{
	return fmax(fabs(r->excess_ns), fmax(r->slow_ns, r->reference_ns));
}

/* The rows that matter, largest excess first; *other sums the rest. */
static json_t *rows_json(const struct ledger_row *rows, uint32_t n, double step_ns, double whole_ns,
			 struct ledger_row *other)
{
	json_t *list = json_array();

	for (uint32_t k = 0; k < n; k++) {
		bool small = size_of(&rows[k]) < ROW_SHARE_MIN * step_ns;
		/* the last places are also open to accounts that became shorter, which matter as
		 * much */
		bool room = json_array_size(list) < ROWS_MAX - 4 ||
			    (json_array_size(list) < ROWS_MAX && k + 4 >= n);

		if (!small && room) {
			json_array_append_new(list, row_json(&rows[k], whole_ns));
			continue;
		}
		other->slow_ns += rows[k].slow_ns;
		other->reference_ns += rows[k].reference_ns;
		other->excess_ns += rows[k].excess_ns;
		other->work_ns += rows[k].work_ns;
	}
	return list;
}

/* How many accounts, largest first, explain most of what the rank lost itself. Waiting for others
 * in collectives is not its own loss. */
static uint32_t explained_by(const struct ledger_row *rows, uint32_t n, struct ledger_row *own)
{
	uint32_t count = 0;

	for (uint32_t k = 0; k < n; k++)
		if (ledger_is_own(rows[k].kind))
			own[count++] = rows[k];
	return ledger_explain(own, count, EXPLAIN_SHARE);
}

/* A kernel has one row for all of its launch configurations. With sequences of many lengths, each
 * configuration occurs in few steps and could not be compared with anything. */
static json_t *both_json(struct incident_ledgers *b, struct ledger_row *rows,
			 struct ledger_row *own)
{
	uint32_t n, unobserved = 0, explain;
	double slow_ns, usual_ns;
	struct ledger_row other = {.name = ""};
	json_t *list, *causes = json_array();

	ledger_join_configurations(&b->slow);
	ledger_join_configurations(&b->usual);
	n = ledger_subtract(&b->slow, &b->usual, rows);
	slow_ns = ledger_mean_ns(&b->slow);
	usual_ns = ledger_mean_ns(&b->usual);
	explain = explained_by(rows, n, own);

	for (uint32_t k = 0; k < n; k++)
		if (rows[k].kind == LEDGER_UNOBSERVED)
			unobserved = k + 1;
	for (uint32_t k = 0; k < explain; k++)
		json_array_append_new(causes, row_json(&own[k], slow_ns - usual_ns));
	list = rows_json(rows, n, slow_ns, slow_ns - usual_ns, &other);
	return json_pack("{s:s, s:I, s:I, s:f, s:f, s:f, s:f, s:o, s:f, s:f, s:f, s:o}",
			 "reference", b->usual_is_own ? "own" : "peers", "slow_steps",
			 (json_int_t)b->slow_steps, "reference_steps", (json_int_t)b->usual.steps,
			 "slow_ms", text_ms(slow_ns), "reference_ms", text_ms(usual_ns),
			 "excess_ms", text_ms(slow_ns - usual_ns), "unobserved_ms",
			 unobserved ? text_ms(rows[unobserved - 1].slow_ns) : 0.0, "rows", list,
			 "other_slow_ms", text_ms(other.slow_ns), "other_reference_ms",
			 text_ms(other.reference_ns), "other_excess_ms", text_ms(other.excess_ns),
			 "explained_by", causes);
}

json_t *ledger_json_make(const struct incident *i, const struct incident_judgement *j, int32_t rank)
{
	const struct member *m = incident_member(i, rank);
	struct incident_common *c = m ? incident_common_open(i, j) : NULL;
	struct incident_ledgers b;
	struct ledger_row *rows;
	json_t *out = NULL;
	bool known = incident_ledgers_open(c, m, &b);

	incident_common_close(c);
	if (!known)
		return json_null();
	rows = calloc(2 * ((size_t)b.slow.count + b.usual.count) + 1, sizeof(*rows));
	if (rows)
		out = both_json(&b, rows, rows + b.slow.count + b.usual.count);
	free(rows);
	incident_ledgers_close(&b);
	return out ? out : json_null();
}
