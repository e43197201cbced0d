/* SPDX-License-Identifier: Apache-2.0
 * cuda_graph.c - stream capture and graphs of the libcuda double. A captured node keeps its work; a
 * launch submits all nodes at once with one correlation id. */
#include "sim/cuda_double.h"

#include <stdlib.h>
#include <string.h>

struct cu_graph_node_st {
	struct gpu_work work;
	unsigned index;
	unsigned *deps;
	unsigned dep_count;
	uint64_t id;
};

struct cu_graph_st {
	uint32_t id;
	struct cu_graph_node_st **nodes;
	unsigned count, room;
};

struct cu_graph_exec_st {
	uint32_t id;
	struct gpu_graph_node_view *views;
	struct cu_graph_node_st *nodes;
	unsigned count;
};

static void work_ref(const struct gpu_work *w)
{
	if (w->kind == GPU_OP_PEER)
		w->function->peer->ref(w->plan);
}

static void work_unref(const struct gpu_work *w)
{
	if (w->kind == GPU_OP_PEER)
		w->function->peer->unref(w->plan);
}

static cu_graph graph_new_locked(void)
{
	cu_graph g = calloc(1, sizeof(*g));

	if (g)
		g->id = gpu.next_graph++;
	return g;
}

static bool deps_copy(struct cu_graph_node_st ***to, unsigned *to_count,
		      struct cu_graph_node_st *const *from, unsigned count)
{
	struct cu_graph_node_st **copy = calloc(count ? count : 1, sizeof(*copy));

	if (!copy)
		return false;
	if (count)
		memcpy(copy, from, count * sizeof(*copy));
	free(*to);
	*to = copy;
	*to_count = count;
	return true;
}

cu_result cuda_graph_capture_locked(struct cu_stream_st *s, const struct gpu_work *w)
{
	cu_graph g = s->capture;
	struct cu_graph_node_st *n = calloc(1, sizeof(*n));

	if (!n)
		return CU_OUT_OF_MEMORY;
	if (g->count == g->room) {
		unsigned room = g->room ? g->room * 2 : 32;
		struct cu_graph_node_st **grown = realloc(g->nodes, room * sizeof(*grown));

		if (!grown) {
			free(n);
			return CU_OUT_OF_MEMORY;
		}
		g->nodes = grown;
		g->room = room;
	}
	n->work = *w;
	n->index = g->count;
	n->id = gpu.next_node++;
	n->deps = calloc(s->capture_dep_count ? s->capture_dep_count : 1, sizeof(*n->deps));
	if (!n->deps || !deps_copy(&s->capture_deps, &s->capture_dep_count, s->capture_deps,
				   s->capture_dep_count)) {
		free(n->deps);
		free(n);
		return CU_OUT_OF_MEMORY;
	}
	for (unsigned i = 0; i < s->capture_dep_count; i++)
		n->deps[n->dep_count++] = s->capture_deps[i]->index;
	work_ref(w);
	g->nodes[g->count++] = n;
	deps_copy(&s->capture_deps, &s->capture_dep_count, &n, 1);
	return CU_OK;
}

void cuda_graph_event_record_locked(struct cu_stream_st *s, struct cu_event_st *e)
{
	e->capture = s->capture;
	deps_copy(&e->capture_deps, &e->capture_dep_count, s->capture_deps, s->capture_dep_count);
}

cu_result cuda_graph_event_wait_locked(struct cu_stream_st *s, struct cu_event_st *e)
{
	struct cu_graph_node_st **merged;
	unsigned n = 0;

	if (!e->capture)
		return CU_OK; /* recorded before the capture: already ordered by the launch */
	if (s->capture && s->capture != e->capture)
		return 904; /* STREAM_CAPTURE_ISOLATION */
	if (!s->capture) {
		s->capture = e->capture;
		s->capture_status = CU_CAPTURE_ACTIVE;
		s->capture_dep_count = 0;
		s->capture_id = gpu.next_capture;
	}
	merged = calloc(s->capture_dep_count + e->capture_dep_count + 1, sizeof(*merged));
	if (!merged)
		return CU_OUT_OF_MEMORY;
	for (unsigned i = 0; i < s->capture_dep_count; i++)
		merged[n++] = s->capture_deps[i];
	for (unsigned i = 0; i < e->capture_dep_count; i++) {
		bool seen = false;

		for (unsigned k = 0; k < n; k++)
			seen |= merged[k] == e->capture_deps[i];
		if (!seen)
			merged[n++] = e->capture_deps[i];
	}
	free(s->capture_deps);
	s->capture_deps = merged;
	s->capture_dep_count = n;
	return CU_OK;
}

CU_API_TWO(10010, 10010, cuStreamBeginCapture_v2, _ptsz, (cu_stream h, int mode), (h, mode))
{
	struct cu_stream_st *s;
	cu_result rc = CU_OK;

	gpu_lock();
	s = cuda_double_stream_locked(h, pt);
	gpu.next_correlation++;
	if (!s)
		rc = CU_INVALID_HANDLE;
	else if (s->legacy || s->capture)
		rc = 900;
	else if (!(s->capture = graph_new_locked()))
		rc = CU_OUT_OF_MEMORY;
	else {
		s->capture_origin = true;
		s->capture_status = CU_CAPTURE_ACTIVE;
		s->capture_id = ++gpu.next_capture;
		s->capture_dep_count = 0;
	}
	gpu_unlock();
	return rc;
}

CU_API_TWO(10000, 10000, cuStreamEndCapture, _ptsz, (cu_stream h, cu_graph *out), (h, out))
{
	struct cu_stream_st *s;
	cu_result rc = CU_OK;

	*out = NULL;
	gpu_lock();
	s = cuda_double_stream_locked(h, pt);
	gpu.next_correlation++;
	if (!s || !s->capture)
		rc = CU_INVALID_VALUE;
	else if (!s->capture_origin)
		rc = 902; /* STREAM_CAPTURE_UNMATCHED */
	else {
		cu_graph g = s->capture;

		*out = g;
		for (struct cu_stream_st *o = s->context->streams; o; o = o->next)
			if (o->capture == g) {
				o->capture = NULL;
				o->capture_origin = false;
				o->capture_status = CU_CAPTURE_NONE;
				o->capture_dep_count = 0;
			}
	}
	gpu_unlock();
	return rc;
}

CU_API_TWO(10000, 10000, cuStreamIsCapturing, _ptsz, (cu_stream h, int *status), (h, status))
{
	struct cu_stream_st *s;

	gpu_lock();
	s = cuda_double_stream_locked(h, pt);
	if (s)
		*status = s->capture_status;
	gpu_unlock();
	return s ? CU_OK : CU_INVALID_HANDLE;
}

static cu_result capture_info(bool pt, cu_stream h, int *status, uint64_t *id, cu_graph *graph,
			      const cu_graph_node **deps, size_t *count)
{
	struct cu_stream_st *s;

	gpu_lock();
	s = cuda_double_stream_locked(h, pt);
	if (s) {
		*status = s->capture_status;
		if (id)
			*id = s->capture_id;
		if (graph)
			*graph = s->capture;
		if (deps)
			*deps = s->capture_deps;
		if (count)
			*count = s->capture ? s->capture_dep_count : 0;
	}
	gpu_unlock();
	return s ? CU_OK : CU_INVALID_HANDLE;
}

CU_API_TWO(10010, 10010, cuStreamGetCaptureInfo, _ptsz, (cu_stream s, int *status, uint64_t *id),
	   (s, status, id))
{
	return capture_info(pt, s, status, id, NULL, NULL, NULL);
}

CU_API_TWO(11030, 11030, cuStreamGetCaptureInfo_v2, _ptsz,
	   (cu_stream s, int *status, uint64_t *id, cu_graph *g, const cu_graph_node **deps,
	    size_t *n),
	   (s, status, id, g, deps, n))
{
	return capture_info(pt, s, status, id, g, deps, n);
}

CU_API_TWO(12030, 12030, cuStreamGetCaptureInfo_v3, _ptsz,
	   (cu_stream s, int *status, uint64_t *id, cu_graph *g, const cu_graph_node **deps,
	    const void **edges, size_t *n),
	   (s, status, id, g, deps, edges, n))
{
	if (edges)
		*edges = NULL;
	return capture_info(pt, s, status, id, g, deps, n);
}

CU_API(10000, cuGraphDestroy, (cu_graph g))
{
	if (!g)
		return CU_INVALID_VALUE;
	for (unsigned i = 0; i < g->count; i++) {
		work_unref(&g->nodes[i]->work);
		free(g->nodes[i]->deps);
		free(g->nodes[i]);
	}
	free(g->nodes);
	free(g);
	return CU_OK;
}

CU_API(10000, cuGraphGetNodes, (cu_graph g, cu_graph_node *nodes, size_t *count))
{
	if (!g || !count)
		return CU_INVALID_VALUE;
	for (size_t i = 0; nodes && i < *count; i++)
		nodes[i] = i < g->count ? g->nodes[i] : NULL;
	if (!nodes || *count > g->count)
		*count = g->count;
	return CU_OK;
}

static void exec_free(cu_graph_exec e)
{
	for (unsigned i = 0; i < e->count; i++) {
		work_unref(&e->nodes[i].work);
		free(e->nodes[i].deps);
	}
	free(e->nodes);
	free(e->views);
	free(e);
}

static cu_result instantiate(cu_graph_exec *out, cu_graph g)
{
	cu_graph_exec e;

	if (!g || !out)
		return CU_INVALID_VALUE;
	e = calloc(1, sizeof(*e));
	if (!e)
		return CU_OUT_OF_MEMORY;
	e->id = g->id;
	e->views = calloc(g->count + 1, sizeof(*e->views));
	e->nodes = calloc(g->count + 1, sizeof(*e->nodes));
	if (!e->views || !e->nodes) {
		exec_free(e);
		return CU_OUT_OF_MEMORY;
	}
	for (unsigned i = 0; i < g->count; i++) {
		struct cu_graph_node_st *n = &e->nodes[i];

		*n = *g->nodes[i];
		n->deps = calloc(n->dep_count ? n->dep_count : 1, sizeof(*n->deps));
		if (!n->deps) {
			exec_free(e);
			return CU_OUT_OF_MEMORY;
		}
		memcpy(n->deps, g->nodes[i]->deps, n->dep_count * sizeof(*n->deps));
		work_ref(&n->work);
		e->count = i + 1;
		e->views[i] = (struct gpu_graph_node_view){
		    .work = &n->work, .deps = n->deps, .dep_count = n->dep_count, .node_id = n->id};
	}
	*out = e;
	return CU_OK;
}

CU_API(11040, cuGraphInstantiateWithFlags,
       (cu_graph_exec * out, cu_graph g, unsigned long long flags))
{
	return instantiate(out, g);
}

CU_SYMBOL(instantiate_12_symbol, 12000, "cuGraphInstantiate", false, cuGraphInstantiateWithFlags);

CU_API(11000, cuGraphInstantiate_v2,
       (cu_graph_exec * out, cu_graph g, cu_graph_node *bad, char *log, size_t log_bytes))
{
	return instantiate(out, g);
}

struct instantiate_params {
	uint64_t flags;
	cu_stream upload;
	cu_graph_node bad;
	int result;
};

CU_API_TWO(12000, 12000, cuGraphInstantiateWithParams, _ptsz,
	   (cu_graph_exec * out, cu_graph g, struct instantiate_params *p), (out, g, p))
{
	cu_result rc = instantiate(out, g);

	if (p)
		p->result = rc ? 1 : 0;
	return rc;
}

struct kernel_node_params { /* CUDA_KERNEL_NODE_PARAMS_v2 */
	cu_function f;
	unsigned grid[3], block[3];
	unsigned shared_bytes;
	void **params, **extra;
	cu_function kernel;
	cu_context context;
};

/* The node belongs to the graph from which the executable was made. */
CU_API(12000, cuGraphExecKernelNodeSetParams_v2,
       (cu_graph_exec e, cu_graph_node n, const struct kernel_node_params *p))
{
	struct gpu_work *w;
	cu_result rc = CU_OK;

	if (!e || !n || !p || n->index >= e->count || e->nodes[n->index].id != n->id)
		return CU_INVALID_VALUE;
	gpu_lock();
	w = &e->nodes[n->index].work;
	if (w->kind != GPU_OP_KERNEL || (!p->f && !p->kernel)) {
		rc = CU_INVALID_VALUE;
	} else {
		w->function = p->f ? p->f : p->kernel;
		memcpy(w->grid, p->grid, sizeof(w->grid));
		memcpy(w->block, p->block, sizeof(w->block));
		w->shared_bytes = p->shared_bytes;
		w->dur_ns =
		    p->params && p->params[0] ? *(uint64_t *)p->params[0] : gpu.default_kernel_ns;
	}
	gpu_unlock();
	return rc;
}

CU_API(10000, cuGraphExecDestroy, (cu_graph_exec e))
{
	if (!e)
		return CU_INVALID_VALUE;
	exec_free(e); /* running launches have their own copies of the work */
	return CU_OK;
}

CU_API_TWO(10000, 10000, cuGraphLaunch, _ptsz, (cu_graph_exec e, cu_stream h), (e, h))
{
	struct cu_stream_st *s;
	cu_result rc = CU_OK;

	if (!e)
		return CU_INVALID_VALUE;
	gpu_hook_launch();
	gpu_lock();
	s = gpu.forked ? NULL : cuda_double_stream_locked(h, pt);
	if (!s) {
		rc = CU_INVALID_HANDLE;
	} else if (s->capture) {
		rc = 900; /* child graphs are not modelled */
	} else {
		gpu_stream_admit_locked(s);
		gpu_submit_graph_locked(s, e->views, e->count, e->id, gpu.next_correlation++);
	}
	gpu_unlock();
	return rc;
}
