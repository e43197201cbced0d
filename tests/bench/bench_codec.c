/* SPDX-License-Identifier: Apache-2.0
 * bench_codec - bytes per stored event and speed of the window codec, beside zstd level 3 on the raw
 * 96-byte records and on 24-byte rows (name, start, duration, stream, correlation), in the same run. */
#include <glob.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <zstd.h>

#include "base/check.h"
#include "base/clock.h"
#include "base/limits.h"
#include "tests/wire_synth.h"
#include "wire/columns.h"

#define RUNS 7

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return x < y ? -1 : x > y;
}

struct row {
	uint32_t name, stream, correlation, duration;
	uint64_t begin;
};

static size_t zstd_bytes(const void *data, size_t bytes, double *mev, double events)
{
	size_t room = ZSTD_compressBound(bytes), n = 0;
	void *out = malloc(room);
	double runs[RUNS];

	CHECK(out);
	for (int i = 0; i < RUNS; i++) {
		uint64_t t = clock_monotonic_ns();

		n = ZSTD_compress(out, room, data, bytes, 3);
		runs[i] = events / (double)(clock_monotonic_ns() - t) * 1e3;
	}
	qsort(runs, RUNS, sizeof(*runs), by_value);
	*mev = runs[RUNS / 2];
	free(out);
	return n;
}

static size_t rows_bytes(const struct synth *s, double *mev)
{
	uint32_t n = s->host_count + s->device_count;
	struct row *rows = calloc(n + 1, sizeof(*rows));
	size_t bytes;

	CHECK(rows);
	for (uint32_t i = 0; i < n; i++) {
		const struct record *r =
		    i < s->host_count ? &s->host[i] : &s->device[i - s->host_count];

		rows[i] = (struct row){r->name, r->stream, r->correlation,
				       (uint32_t)(r->end_ns - r->begin_ns), r->begin_ns};
	}
	bytes = zstd_bytes(rows, n * sizeof(*rows), mev, n);
	free(rows);
	return bytes;
}

static void measure(const char *title, const struct synth *s)
{
	uint32_t n = s->host_count + s->device_count;
	double encode[RUNS], decode[RUNS], raw_mev = 0, rows_mev = 0;
	struct record *all = calloc(n + 1, sizeof(*all)), *h = calloc(n + 1, sizeof(*h)),
		      *d = calloc(n + 1, sizeof(*d));
	size_t raw, rows;
	struct buf b;

	CHECK(all && h && d);
	buf_init(&b, LIMIT_WIRE_MESSAGE_BYTES);
	for (int i = 0; i < RUNS; i++) {
		uint64_t t0 = clock_monotonic_ns(), t1;

		buf_clear(&b);
		CHECK(!columns_pack(s->host, s->host_count, s->device, s->device_count, PACK_CLOSE,
				    &b));
		t1 = clock_monotonic_ns();
		CHECK(!columns_unpack(b.data, b.bytes, LIMIT_WIRE_UNPACKED_BYTES, h, s->host_count,
				      d, s->device_count));
		encode[i] = n / (double)(t1 - t0) * 1e3;
		decode[i] = n / (double)(clock_monotonic_ns() - t1) * 1e3;
	}
	CHECK(!memcmp(h, s->host, s->host_count * sizeof(*h)));
	CHECK(!memcmp(d, s->device, s->device_count * sizeof(*d)));
	memcpy(all, s->host, s->host_count * sizeof(*all));
	memcpy(all + s->host_count, s->device, s->device_count * sizeof(*all));
	raw = zstd_bytes(all, n * sizeof(*all), &raw_mev, n);
	rows = rows_bytes(s, &rows_mev);
	qsort(encode, RUNS, sizeof(*encode), by_value);
	qsort(decode, RUNS, sizeof(*decode), by_value);
	printf("%-34s %8u events  %5.2f B/event (budget 3)  encode %5.1f (%.1f-%.1f)  decode %5.1f "
	       "(%.1f-%.1f) M events/s\n",
	       title, n, (double)b.bytes / n, encode[RUNS / 2], encode[0], encode[RUNS - 1],
	       decode[RUNS / 2], decode[0], decode[RUNS - 1]);
	printf("    zstd-3: 96 B records %5.2f B/event (x%.1f) %5.1f M events/s; 24 B rows %5.2f "
	       "B/event "
	       "(x%.1f) %5.1f M events/s\n",
	       (double)raw / n, (double)raw / (double)b.bytes, raw_mev, (double)rows / n,
	       (double)rows / (double)b.bytes, rows_mev);
	buf_fini(&b);
	free(all);
	free(h);
	free(d);
}

static bool host_first(const struct synth *s, uint32_t h, uint32_t d)
{
	return d >= s->device_count ||
	       (h < s->host_count && s->host[h].begin_ns <= s->device[d].begin_ns);
}

/* Bytes per event of windows cut out of the stream at a quarter, a half and three quarters of it,
 * the median of the three; as long as the stream has so many events. */
static void measure_sizes(const char *title, const struct synth *s)
{
	static const uint32_t sizes[] = {200, 500, 1000, 4000, 20000};
	uint32_t all = s->host_count + s->device_count;

	printf("%-34s", title);
	for (size_t k = 0; k < ARRAY_LEN(sizes) && sizes[k] <= all; k++) {
		double bytes[3];

		for (uint32_t part = 0; part < 3; part++) {
			uint32_t h = 0, d = 0, h0, d0, skip = (all - sizes[k]) / 4 * (part + 1);
			struct buf b;

			while (h + d < skip)
				*(host_first(s, h, d) ? &h : &d) += 1;
			h0 = h;
			d0 = d;
			while (h + d < skip + sizes[k])
				*(host_first(s, h, d) ? &h : &d) += 1;
			buf_init(&b, LIMIT_WIRE_MESSAGE_BYTES);
			CHECK(!columns_pack(s->host + h0, h - h0, s->device + d0, d - d0,
					    PACK_CLOSE, &b));
			bytes[part] = (double)b.bytes / sizes[k];
			buf_fini(&b);
		}
		qsort(bytes, 3, sizeof(*bytes), by_value);
		printf(" %8.2f", bytes[1]);
	}
	printf("\n");
}

static void measure_files(const char *root, void (*fn)(const char *, const struct synth *))
{
	static const char *const patterns[] = {"kineto-single/*.events.csv.gz",
					       "kineto-dataloader-ab/*.events.csv.gz",
					       "dlrm-8rank-v100/rank0.events.csv.gz"};

	for (size_t i = 0; i < ARRAY_LEN(patterns); i++) {
		char pattern[512];
		glob_t g;

		snprintf(pattern, sizeof(pattern), "%s/%s", root, patterns[i]);
		if (glob(pattern, 0, NULL, &g))
			continue;
		for (size_t k = 0; k < g.gl_pathc; k++) {
			const char *base = strrchr(g.gl_pathv[k], '/') + 1;
			struct synth s;

			synth_init(&s, 200000, 1);
			if (synth_load_csv(&s, g.gl_pathv[k]))
				fn(base, &s);
			synth_fini(&s);
		}
		globfree(&g);
	}
}

int main(void)
{
	static const struct {
		uint32_t events;
		double jitter;
	} cases[] = {{1000, 0.012}, {10000, 0.012}, {100000, 0.012}, {100000, 0.05}};
	const char *data = getenv("SYSOM_DATA");

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		char title[64];
		struct synth s;

		synth_init(&s, cases[i].events, 42);
		synth_transformer(&s, cases[i].jitter);
		qsort(s.device, s.device_count, sizeof(struct record), synth_by_begin);
		snprintf(title, sizeof(title), "transformer, %g%% jitter", cases[i].jitter * 100);
		measure(title, &s);
		if (i == 1) {
			s.host_count = 0;
			measure("  its device records alone", &s);
		}
		synth_fini(&s);
	}
	measure_files(data ? data : "../shared/data", measure);
	printf("\nwindows of so many events, B/event %8s %8s %8s %8s %8s\n", "200", "500", "1000",
	       "4000", "20000");
	for (size_t i = 2; i < ARRAY_LEN(cases); i++) {
		char title[64];
		struct synth s;

		synth_init(&s, cases[i].events, 42);
		synth_transformer(&s, cases[i].jitter);
		qsort(s.device, s.device_count, sizeof(struct record), synth_by_begin);
		snprintf(title, sizeof(title), "transformer, %g%% jitter", cases[i].jitter * 100);
		measure_sizes(title, &s);
		synth_fini(&s);
	}
	measure_files(data ? data : "../shared/data", measure_sizes);
	return 0;
}
