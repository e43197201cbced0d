/* SPDX-License-Identifier: Apache-2.0 */
#include "model/request.h"

#include <string.h>

#include "base/hash.h"

const char *request_phase_name(unsigned phase)
{
	static const char *const names[REQUEST_PHASES] = {"none",   "api",   "queue", "prefill",
							  "decode", "pause", "output"};

	return names[phase < REQUEST_PHASES ? phase : 0];
}

const char *request_objective_name(unsigned objective)
{
	static const char *const names[] = {"ttft", "tpot", "none"};

	return names[objective < REQUEST_OBJECTIVES ? objective : REQUEST_OBJECTIVES];
}

uint64_t request_hash(const char *id)
{
	return hash_bytes(HASH_SEED, id, strlen(id)) | 1;
}
