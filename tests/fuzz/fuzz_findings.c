/* SPDX-License-Identifier: Apache-2.0
 * fuzz_findings - what the store has of an incident's findings, as JSON: whatever it says is refused or
 * becomes a finding that can be shown, and that reads the same once it was written again. */
#include <math.h>
#include <string.h>

#include "aggregator/incident/finding_json.h"
#include "aggregator/incident/incident.h"
#include "base/check.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static void show(struct incident_set *set, const char *id)
{
	json_t *j = incident_set_json(set, id, 0, NULL), *again = incident_set_findings(set, id);
	char *text = json_dumps(j, JSON_COMPACT);
	json_t *one;
	size_t k;

	CHECK(j && text);
	free(text);
	json_array_foreach (again, k, one) {
		struct finding_report f, same;
		json_t *written;

		CHECK(!finding_json_parse(one, &f));
		written = finding_json_make(&f);
		CHECK(written && !finding_json_parse(written, &same));
		CHECK(f.finding.kind == same.finding.kind &&
		      f.begin_unix_ns == same.begin_unix_ns &&
		      f.finding.rank_count == same.finding.rank_count && f.ended == same.ended);
		json_decref(written);
	}
	json_decref(again);
	json_decref(j);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	const struct incident_config config = {
	    .gap_ns = 5000000000, .silence_ns = 30000000000, .memory_ns = 3600000000000};
	const struct incident_row row = {
	    .id = "00000001", .job = "job", .open = true, .begin_unix_ns = 1, .end_unix_ns = 2};
	json_t *list = json_loadb((const char *)data, bytes, 0, NULL), *one;
	struct incident_set *set;
	struct finding_report f;
	size_t k;

	if (!list)
		return 0;
	CHECK(!incident_set_open(&set, &config));
	CHECK(!incident_set_restore(set, &row));
	json_array_foreach (list, k, one) {
		if (finding_json_parse(one, &f))
			continue;
		memcpy(f.job, row.job, sizeof(f.job));
		incident_set_restore_finding(set, row.id, &f);
	}
	show(set, row.id);
	incident_set_close(set);
	json_decref(list);
	return 0;
}
