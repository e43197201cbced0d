/* SPDX-License-Identifier: Apache-2.0 */
#include "sidecar/serving/request_beat.h"

#include "analysis/requests/request_table.h"
#include "wire/codec.h"

#define JOB_BYTES_MIN 512u /* counts and a name always fit */

size_t request_beat_fill(struct request_beat *q, struct request_table *t, const struct beat *b,
			 bool arrived, size_t room, uint64_t now_ns)
{
	uint32_t first = q->first;

	for (uint32_t i = 0; i < q->count && !arrived; i++)
		request_table_give_back(t, &q->sent[i]);
	q->count = 0;
	q->waits = false;
	for (uint32_t i = 0; i < LIMIT_NODE_PROCESSES && !q->waits; i++) {
		uint32_t at = (first + i) % LIMIT_NODE_PROCESSES;
		struct request_job *r = &q->sent[q->count];
		const char *job;
		size_t bytes;

		if (!request_table_stats(t, at, &job) || !codec_has_job(b, job))
			continue;
		if (room < JOB_BYTES_MIN) {
			q->first = at;
			q->waits = true;
		} else if (request_table_take(t, at, now_ns, r)) {
			bytes = wire_beat_requests_fit(r, room < LIMIT_BEAT_BYTES_PER_RANK
							      ? room - WIRE_BEAT_TAG_BYTES
							      : LIMIT_BEAT_BYTES_PER_RANK);
			q->count += bytes > 0;
			room -=
			    bytes + WIRE_BEAT_TAG_BYTES < room ? bytes + WIRE_BEAT_TAG_BYTES : room;
		}
	}
	return room;
}
