/* SPDX-License-Identifier: Apache-2.0 */
#include "base/metrics/otlp.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/metrics/otlp.pb-c.h"
#include "base/text/text.h"
#include "base/text/utf8.h"
#include "base/version.h"

#define CUMULATIVE 2

typedef Otlp__ExportMetricsServiceRequest request_t;

struct otlp {
	struct metrics metrics;
	const struct otlp_resource *resource;
	uint64_t now_ns;
	otlp_fn fn;
	void *arg;
	request_t *request; /* NULL: the next sample begins one */
	Otlp__Metric *metric;
	char *name, *help;
	bool counter;
	uint32_t points;
	int failed;
};

/* Everything is allocated as the library's own unpacking does, so that the library can free it. */

static char *copy(struct otlp *o, const char *text)
{
	char *out = strdup(text);

	if (out)
		utf8_repair(out, strlen(out));
	else
		o->failed = -ENOMEM;
	return out;
}

/* Appends `item` to an array of pointers that has room for the next power of two. */
static bool append(struct otlp *o, void *array, size_t *count, void *item)
{
	void **items = *(void ***)array;

	if (item && (*count & (*count - 1)) == 0) {
		items = realloc(items, (*count ? 2 * *count : 1) * sizeof(*items));
		if (items)
			*(void ***)array = items;
	}
	if (!item || !items) {
		o->failed = -ENOMEM;
		return false;
	}
	items[(*count)++] = item;
	return true;
}

/* A message without fields; NULL: no memory. */
static void *new_message(const ProtobufCMessageDescriptor *d)
{
	void *m = malloc(d->sizeof_message);

	if (m)
		protobuf_c_message_init(d, m);
	return m;
}

static bool add_attribute(struct otlp *o, Otlp__KeyValue ***list, size_t *count, const char *key,
			  const char *value)
{
	Otlp__KeyValue *kv = new_message(&otlp__key_value__descriptor);

	if (!append(o, list, count, kv)) {
		free(kv);
		return false;
	}
	kv->key = copy(o, key);
	kv->value = new_message(&otlp__any_value__descriptor);
	if (!kv->value)
		return false;
	kv->value->value_case = OTLP__ANY_VALUE__VALUE_STRING_VALUE;
	kv->value->string_value = copy(o, value);
	return kv->key && kv->value->string_value;
}

/* The unit in UCUM, as OpenTelemetry's conventions require. */
static const char *unit_of(const char *name, bool counter)
{
	static const struct {
		const char *suffix, *unit;
	} units[] = {{"_seconds", "s"}, {"_bytes", "By"}, {"_ratio", "1"}, {"_celsius", "Cel"},
		     {"_watts", "W"},	{"_hertz", "Hz"}, {"_joules", "J"}};
	size_t n = strlen(name) - (counter && strlen(name) > 6 ? strlen("_total") : 0);

	for (size_t i = 0; i < ARRAY_LEN(units); i++) {
		size_t k = strlen(units[i].suffix);

		if (n > k && !strncmp(name + n - k, units[i].suffix, k))
			return units[i].unit;
	}
	return "";
}

static void begin_request(struct otlp *o)
{
	Otlp__ResourceMetrics *rm = new_message(&otlp__resource_metrics__descriptor);
	Otlp__ScopeMetrics *sm = new_message(&otlp__scope_metrics__descriptor);
	Otlp__Resource *r = new_message(&otlp__resource__descriptor);

	o->request = new_message(&otlp__export_metrics_service_request__descriptor);
	if (!o->request || !rm || !sm || !r ||
	    !append(o, &o->request->resource_metrics, &o->request->n_resource_metrics, rm)) {
		free(rm);
		free(sm);
		free(r);
		o->failed = -ENOMEM;
		return;
	}
	rm->resource = r;
	if (!append(o, &rm->scope_metrics, &rm->n_scope_metrics, sm)) {
		free(sm);
		return;
	}
	add_attribute(o, &r->attributes, &r->n_attributes, "service.name", o->resource->service);
	add_attribute(o, &r->attributes, &r->n_attributes, "service.version", SYSOM_VERSION);
	add_attribute(o, &r->attributes, &r->n_attributes, "service.instance.id",
		      o->resource->host);
	add_attribute(o, &r->attributes, &r->n_attributes, "host.name", o->resource->host);
	sm->scope = new_message(&otlp__instrumentation_scope__descriptor);
	if (sm->scope)
		sm->scope->name = copy(o, "sysom");
}

static void end_request(struct otlp *o)
{
	struct buf b;

	if (!o->request)
		return;
	buf_init(&b, OTLP_REQUEST_BYTES);
	if (!o->failed) {
		size_t bytes = otlp__export_metrics_service_request__get_packed_size(o->request);
		uint8_t *at = buf_reserve(&b, bytes);

		if (at) {
			b.bytes += otlp__export_metrics_service_request__pack(o->request, at);
			o->fn(o->arg, &b);
			b = (struct buf){.data = NULL};
		} else {
			o->failed = -EMSGSIZE;
		}
	}
	buf_fini(&b);
	otlp__export_metrics_service_request__free_unpacked(o->request, NULL);
	o->request = NULL;
	o->metric = NULL;
	o->points = 0;
}

static void begin_metric(struct otlp *o)
{
	Otlp__Metric *m = new_message(&otlp__metric__descriptor);
	Otlp__ScopeMetrics *sm;

	if (!o->request)
		begin_request(o);
	if (o->failed || !m) {
		o->failed = o->failed ? o->failed : -ENOMEM;
		free(m);
		return;
	}
	sm = o->request->resource_metrics[0]->scope_metrics[0];
	if (!append(o, &sm->metrics, &sm->n_metrics, m)) {
		free(m);
		return;
	}
	m->name = copy(o, o->name);
	m->description = copy(o, o->help);
	m->unit = copy(o, unit_of(o->name, o->counter));
	if (o->counter) {
		m->sum = new_message(&otlp__sum__descriptor);
		m->data_case = m->sum ? OTLP__METRIC__DATA_SUM : OTLP__METRIC__DATA__NOT_SET;
	} else {
		m->gauge = new_message(&otlp__gauge__descriptor);
		m->data_case = m->gauge ? OTLP__METRIC__DATA_GAUGE : OTLP__METRIC__DATA__NOT_SET;
	}
	if (!m->data_case) {
		o->failed = -ENOMEM;
		return;
	}
	if (o->counter) {
		m->sum->aggregation_temporality = CUMULATIVE;
		m->sum->is_monotonic = true;
	}
	o->metric = m;
}

/* A metric begins only with its first sample, so metrics without samples are left out. */
static void put_family(struct metrics *m, const char *name, const char *type, const char *help)
{
	struct otlp *o = m->out;

	free(o->name);
	free(o->help);
	o->name = copy(o, name);
	o->help = copy(o, help);
	o->counter = !strcmp(type, "counter");
	o->metric = NULL;
}

static void put_sample(struct metrics *m, const char *name, double value,
		       const struct metrics_label *labels, size_t count)
{
	struct otlp *o = m->out;
	Otlp__NumberDataPoint *p;

	(void)name;
	if (o->failed)
		return;
	if (o->points == OTLP_POINTS)
		end_request(o);
	if (!o->failed && !o->metric)
		begin_metric(o);
	if (o->failed)
		return;
	p = new_message(&otlp__number_data_point__descriptor);
	if (o->counter
		? !append(o, &o->metric->sum->data_points, &o->metric->sum->n_data_points, p)
		: !append(o, &o->metric->gauge->data_points, &o->metric->gauge->n_data_points, p)) {
		free(p);
		return;
	}
	p->start_time_unix_nano = o->counter ? o->resource->start_unix_ns : 0;
	p->time_unix_nano = o->now_ns;
	p->value_case = OTLP__NUMBER_DATA_POINT__VALUE_AS_DOUBLE;
	p->as_double = value;
	for (size_t i = 0; i < count; i++)
		add_attribute(o, &p->attributes, &p->n_attributes, labels[i].name, labels[i].value);
	o->points++;
}

int otlp_begin(struct otlp **out, const struct otlp_resource *r, uint64_t now_unix_ns, otlp_fn fn,
	       void *arg)
{
	struct otlp *o = calloc(1, sizeof(*o));

	if (!o)
		return -ENOMEM;
	*o = (struct otlp){.metrics = {put_family, put_sample, o},
			   .resource = r,
			   .now_ns = now_unix_ns,
			   .fn = fn,
			   .arg = arg};
	*out = o;
	return 0;
}

struct metrics *otlp_metrics(struct otlp *o)
{
	return &o->metrics;
}

uint64_t otlp_rejected(const void *answer, size_t bytes, char *why, size_t why_bytes)
{
	Otlp__ExportMetricsServiceResponse *r =
	    otlp__export_metrics_service_response__unpack(NULL, bytes, answer);
	const Otlp__ExportMetricsPartialSuccess *partial = r ? r->partial_success : NULL;
	int64_t rejected = partial ? partial->rejected_data_points : 0;

	text_copy(why, why_bytes, partial ? partial->error_message : "");
	for (char *at = why; *at; at++) /* makes the text safe for logs and terminals */
		if (*at < ' ' || *at > '~')
			*at = '?';
	if (r)
		otlp__export_metrics_service_response__free_unpacked(r, NULL);
	return rejected > 0 ? (uint64_t)rejected : 0;
}

int otlp_end(struct otlp *o)
{
	int failed;

	end_request(o);
	failed = o->failed;
	free(o->name);
	free(o->help);
	free(o);
	return failed;
}
