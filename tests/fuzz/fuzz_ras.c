/* SPDX-License-Identifier: Apache-2.0
 * fuzz_ras - an answer to STATUS by whoever listens on the port of NCCL's RAS service. What is read
 * fits, and is printable. */
#include <string.h>

#include "base/check.h"
#include "sidecar/ras/ras_answer.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	static const uint32_t pids[] = {1, 7, 323032};
	struct ras_report r;

	if (ras_answer_read((const char *)data, bytes, pids, 3, &r))
		return 0;
	CHECK(r.finding_count <= RAS_FINDINGS_MAX && r.ours < 8);
	for (uint32_t k = 0; k < r.finding_count; k++) {
		const char *text = r.finding[k].text;

		CHECK(memchr(text, 0, sizeof(r.finding[k].text)));
		for (; *text; text++)
			CHECK(*text >= ' ' && *text <= '~');
	}
	return 0;
}
