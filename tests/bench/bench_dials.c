/* SPDX-License-Identifier: Apache-2.0
 * bench_dials - how long it takes until so many nodes that dial an aggregator at once are up, which
 * is when each has the aggregator's greeting. dials.sh starts the aggregator.
 * usage: bench_dials URL COUNT [CERT KEY CA] */
#include <stdio.h>
#include <stdlib.h>

#include "base/check.h"
#include "base/daemon/log.h"
#include "base/text/text.h"
#include "tests/bench/dial_wait.h"
#include "wire/link/req.h"

#define LIMIT_NS 120000000000ull

static uint32_t up, lost;

static void changed(void *arg, bool connected)
{
	(void)arg;
	__atomic_add_fetch(&up, connected ? 1 : UINT32_MAX, __ATOMIC_RELAXED);
	if (!connected)
		__atomic_add_fetch(&lost, 1, __ATOMIC_RELAXED);
}

int main(int argc, char **argv)
{
	uint32_t count = argc > 2 ? (uint32_t)strtoul(argv[2], NULL, 10) : 0;
	struct req **reqs = calloc(count, sizeof(struct req *));
	struct tls_files files = {.crl = ""};
	char why[TLS_WHY_BYTES];
	struct dial_wait w;
	uint64_t begun_ns;
	struct tls *tls = NULL;

	if (!count || !reqs)
		return 2;
	log_init("bench_dials", LOG_ERROR);
	if (argc == 6) {
		text_copy(files.cert, sizeof(files.cert), argv[3]);
		text_copy(files.key, sizeof(files.key), argv[4]);
		text_copy(files.ca, sizeof(files.ca), argv[5]);
		if (tls_open(&tls, &files, TLS_NODE, NULL, why, sizeof(why))) {
			fprintf(stderr, "bench_dials: %s\n", why);
			return 1;
		}
	}
	*why = '\0';
	begun_ns = clock_monotonic_ns();
	for (uint32_t i = 0; i < count; i++) {
		const struct req_config c = {.url = argv[1],
					     .tls = tls,
					     .name = "localhost",
					     .answer_max_bytes = 4096,
					     .again_min_ms = 200,
					     .again_max_ms = 3500,
					     .changed = changed};

		CHECK(!req_open(&reqs[i], &c));
	}
	w = dial_wait(&up, count, begun_ns, LIMIT_NS);
	printf("%u of %u up after %.2f s, half of them after %.2f s, %u lost meanwhile", w.up,
	       count, (double)w.took_ns * 1e-9, (double)w.half_ns * 1e-9, lost);
	if (w.up < count)
		for (uint32_t i = 0; i < count && !*why; i++)
			req_why(reqs[i], why, sizeof(why));
	printf("%s%s\n", *why ? "; the first says: " : "", why);
	for (uint32_t i = 0; i < count; i++)
		req_close(reqs[i]);
	tls_close(tls);
	free(reqs);
	return w.up < count;
}
