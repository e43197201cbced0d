/* SPDX-License-Identifier: Apache-2.0 */
#include "model/request.h"

#include <string.h>

#include "base/hash.h"
#include "base/request_id.h"

const char *request_phase_name(unsigned phase)
{
	static const char *const names[REQUEST_PHASES] = {
	    "none", "api", "queue", "prefill", "decode", "pause", "output", "drafts", "transfer"};

	return names[phase < REQUEST_PHASES ? phase : 0];
}

const char *request_objective_name(unsigned objective)
{
	static const char *const names[] = {"ttft", "tpot", "none"};

	return names[objective < REQUEST_OBJECTIVES ? objective : REQUEST_OBJECTIVES];
}

uint64_t request_hash(const char *id, bool base)
{
	size_t bytes = strlen(id);

	return hash_bytes(HASH_SEED, id, base ? request_id_base_bytes(id, bytes) : bytes) | 1;
}

void request_counts_add(struct request_counts *to, const struct request_counts *from)
{
	to->arrived += from->arrived;
	to->ended += from->ended;
	to->lost += from->lost;
	to->violations_dropped += from->violations_dropped;
	for (int i = 0; i < REQUEST_OBJECTIVES; i++) {
		to->judged[i] += from->judged[i];
		to->violated[i] += from->violated[i];
	}
}

void request_anomaly(const char *job, const struct request_violation *v, uint8_t id[16])
{
	uint64_t h = hash_bytes(HASH_SEED, job, strlen(job) + 1), word[2];

	h = hash_mix(h ^ ((uint64_t)v->objective << 32 | v->phase));
	h = hash_bytes(h, v->span, strlen(v->span));
	word[0] = hash_mix(h) | 1;
	word[1] = hash_mix(h + 1);
	memcpy(id, word, sizeof(word));
}
