/* SPDX-License-Identifier: Apache-2.0
 * cupti_decode.c - one decoder for CUDA 11.0 to 13.0. The fields that we use have the same offsets
 * in CUpti_ActivityKernel5 to 10, in CUpti_ActivityMemcpy4 to 6 and in CUpti_ActivityMemcpyPtoP3 and 4.
 * Records differ in length, but cuptiActivityGetNextRecord handles that. */
#include "cupti/cupti_decode.h"

#include <string.h>

static enum cupti_decode_result cupti_decode_stamps(uint64_t start, uint64_t end)
{
	if (start && !end)
		return CUPTI_DECODE_PARTIAL; /* a forced flush delivered it before it ended */
	if (!start || !end)
		return CUPTI_DECODE_ZERO_STAMP;
	if (end < start)
		return CUPTI_DECODE_REVERSED;
	return CUPTI_DECODE_KERNEL;
}

static uint16_t cupti_decode_block(int32_t n)
{
	return n < 0 ? 0 : n > UINT16_MAX ? UINT16_MAX : (uint16_t)n;
}

static enum cupti_decode_result cupti_decode_kernel(const cupti_kernel *k, struct event_kernel *e,
						    const char **name)
{
	enum cupti_decode_result res = cupti_decode_stamps(k->start, k->end);

	memset(e, 0, sizeof(*e));
	e->head.kind = EVENT_KERNEL;
	e->head.flags = k->graph_node_id ? EVENT_FLAG_GRAPH_NODE : 0;
	e->head.t = k->start;
	e->end = k->end;
	e->correlation = k->correlation;
	e->device = k->device;
	e->context_id = k->context;
	e->stream_id = k->stream;
	for (int i = 0; i < 3; i++) {
		e->grid[i] = (uint32_t)k->grid[i];
		e->block[i] = cupti_decode_block(k->block[i]);
	}
	e->registers = k->registers;
	e->shared_static_bytes = (uint32_t)k->shared_static_bytes;
	e->shared_dynamic_bytes = (uint32_t)k->shared_dynamic_bytes;
	e->graph_id = k->graph_id;
	e->graph_node_id = k->graph_node_id;
	*name = k->name;
	return res;
}

static enum cupti_decode_result cupti_decode_copy(const cupti_memcpy *m, struct event_copy *e)
{
	enum cupti_decode_result res = cupti_decode_stamps(m->start, m->end);

	if (res != CUPTI_DECODE_KERNEL)
		return res;
	memset(e, 0, sizeof(*e));
	e->head.kind = EVENT_COPY;
	e->head.flags = m->graph_node_id ? EVENT_FLAG_GRAPH_NODE : 0;
	e->head.t = m->start;
	e->end = m->end;
	e->correlation = m->correlation;
	e->device = m->device;
	e->context_id = m->context;
	e->stream_id = m->stream;
	e->bytes = m->bytes;
	e->copy_kind = m->copy_kind;
	e->src_kind = m->src_kind;
	e->dst_kind = m->dst_kind;
	e->graph_id = m->graph_id;
	e->graph_node_id = m->graph_node_id;
	return CUPTI_DECODE_COPY;
}

/* Between two GPUs; `device` is the one whose engine copies. */
static enum cupti_decode_result cupti_decode_peer(const cupti_memcpy_peer *m, struct event_copy *e)
{
	cupti_memcpy one = {.copy_kind = m->copy_kind,
			    .src_kind = m->src_kind,
			    .dst_kind = m->dst_kind,
			    .bytes = m->bytes,
			    .start = m->start,
			    .end = m->end,
			    .device = m->device,
			    .context = m->context,
			    .stream = m->stream,
			    .correlation = m->correlation,
			    .graph_node_id = m->graph_node_id,
			    .graph_id = m->graph_id};

	return cupti_decode_copy(&one, e);
}

static enum cupti_decode_result cupti_decode_graph(const cupti_graph_trace *g,
						   struct event_kernel *e)
{
	enum cupti_decode_result res = cupti_decode_stamps(g->start, g->end);

	if (res != CUPTI_DECODE_KERNEL)
		return res;
	memset(e, 0, sizeof(*e));
	e->head.kind = EVENT_GRAPH_EXEC;
	e->head.t = g->start;
	e->end = g->end;
	e->correlation = g->correlation;
	e->device = g->device;
	e->context_id = g->context;
	e->stream_id = g->stream;
	e->graph_id = g->graph_id;
	return CUPTI_DECODE_GRAPH;
}

enum cupti_decode_result cupti_decode_record(const void *record, union cupti_decode_event *out,
					     const char **name)
{
	uint32_t kind;

	*name = NULL;
	memcpy(&kind, record, sizeof(kind));
	switch (kind) {
	case CUPTI_KIND_KERNEL:
	case CUPTI_KIND_CONCURRENT_KERNEL:
		return cupti_decode_kernel(record, &out->kernel, name);
	case CUPTI_KIND_MEMCPY:
		return cupti_decode_copy(record, &out->copy);
	case CUPTI_KIND_MEMCPY2:
		return cupti_decode_peer(record, &out->copy);
	case CUPTI_KIND_GRAPH_TRACE:
		return cupti_decode_graph(record, &out->kernel);
	default:
		return CUPTI_DECODE_UNKNOWN;
	}
}
