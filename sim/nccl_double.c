/* SPDX-License-Identifier: Apache-2.0
 * nccl_double.c - NCCL's API (weak nccl*, strong pnccl*) over the modelled GPU. An operation is one
 * kernel. It starts when its stream reaches it, and ends on every rank at the last rank's arrival
 * plus the cost of the transfer. The kernel goes through cuLaunchKernelEx, found by
 * cuGetProcAddress as in the real library's static runtime. */
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "foreign/nccl.h"
#include "sim/gpu_iface.h"
#include "sim/nccl_peers.h"
#include "sim/nccl_profile.h"
#include "sim/scramble.h"
#include "sim/sim_base.h"

#define NCCL_EXPORT __attribute__((visibility("default")))
#define NCCL_API(name, params)                                                                     \
	NCCL_EXPORT nccl_result pnccl##name params;                                                \
	NCCL_EXPORT nccl_result nccl##name params __attribute__((weak, alias("pnccl" #name)));     \
	nccl_result pnccl##name params

#define COMM_MAGIC 0x434f4d4du
#define GROUP_MAX  4096
#define INIT_MAX   64

enum func {
	F_ALLREDUCE,
	F_ALLGATHER,
	F_REDUCESCATTER,
	F_BROADCAST,
	F_REDUCE,
	F_ALLTOALL,
	F_GATHER,
	F_SCATTER,
	F_SEND,
	F_RECV,
	F_COUNT
};

struct nccl_comm_st {
	uint32_t magic;
	unsigned refs;
	int rank, rank_count;
	cu_context context;
	struct nccl_peers *peers;
	uint8_t id[NCCL_PEERS_ID_BYTES];
	uint64_t collective_next;
	uint64_t *send_next, *recv_next;
	uint64_t split_next, shrink_next;
	uint64_t seq[F_COUNT]; /* as profilers count: per function, without captured ones */
	void *profile;
	bool profiled;
	bool aborted, destroyed;
};

struct part {
	enum func func;
	int peer;
	uint32_t what; /* the operation: nccl_peers_arrive */
	uint64_t cost_ns;
	void *event; /* the profiler's */
};

/* The work of one kernel. Captured plans live as long as their graphs. */
struct plan {
	unsigned refs;
	struct nccl_comm_st *comm;
	bool profiled;
	unsigned part_count;
	struct part parts[];
};

struct run_part {
	struct nccl_meet *meet;
	uint32_t generation, need;
	bool arrived, done;
};

struct run {
	struct plan *plan;
	uint64_t start_ns, end_ns, jitter_ns;
	unsigned left;
	struct run_part parts[];
};

struct group_op {
	struct nccl_comm_st *comm;
	cu_stream stream;
	enum func func;
	int peer;
	unsigned type, red;
	uint64_t bytes;
	size_t count;
	bool taken;
};

struct init_job {
	nccl_comm *out;
	struct nccl_comm_st *comm, *parent; /* parent: a split */
	uint64_t split;
};

static __thread struct {
	int depth;
	struct group_op *ops;
	unsigned op_count;
	struct init_job inits[INIT_MAX];
	unsigned init_count;
	nccl_result error;
} group;

static struct {
	pthread_once_t once;
	const struct gpu_iface *door;
	cu_launch_kernel_ex_fn launch;
	cu_result (*get_current)(cu_context *c);
	cu_result (*set_current)(cu_context c);
	cu_result (*retain)(cu_context *c, cu_device dev);
	cu_result (*capturing)(cu_stream s, int *status);
	uint64_t bytes_per_us, latency_ns, jitter_ns;
} driver = {.once = PTHREAD_ONCE_INIT};

/* ---- the driver below ---- */

static void driver_init(void)
{
	void *lib = dlopen("libcuda.so.1", RTLD_NOW);
	cu_get_proc_address_v2_fn get;
	int query;

	if (!lib)
		return;
	get = (cu_get_proc_address_v2_fn)dlsym(lib, "cuGetProcAddress_v2");
	driver.door = dlsym(lib, GPU_IFACE_SYMBOL);
	if (!get || !driver.door || driver.door->version != GPU_IFACE_VERSION) {
		driver.door = NULL;
		return;
	}
	get("cuLaunchKernelEx", (void **)&driver.launch, 11060, CU_GPA_DEFAULT, &query);
	get("cuCtxGetCurrent", (void **)&driver.get_current, 4000, CU_GPA_DEFAULT, &query);
	get("cuCtxSetCurrent", (void **)&driver.set_current, 4000, CU_GPA_DEFAULT, &query);
	get("cuDevicePrimaryCtxRetain", (void **)&driver.retain, 7000, CU_GPA_DEFAULT, &query);
	get("cuStreamIsCapturing", (void **)&driver.capturing, 10000, CU_GPA_DEFAULT, &query);
	driver.bytes_per_us = sim_number("SIM_NCCL_MBPS", 120000);
	driver.latency_ns = sim_number("SIM_NCCL_LATENCY_NS", 12000);
	driver.jitter_ns = sim_number("SIM_NCCL_JITTER_NS", 1000);
}

static bool driver_ready(void)
{
	pthread_once(&driver.once, driver_init);
	return driver.launch && driver.get_current && driver.set_current && driver.retain;
}

/* ---- communicators ---- */

static void comm_unref(struct nccl_comm_st *c)
{
	if (__atomic_sub_fetch(&c->refs, 1, __ATOMIC_ACQ_REL))
		return;
	nccl_peers_close(c->peers);
	free(c->send_next);
	free(c->recv_next);
	c->magic = 0;
	free(c);
}

static bool comm_ok(const struct nccl_comm_st *c)
{
	return c && c->magic == COMM_MAGIC && !c->destroyed;
}

static struct nccl_comm_st *comm_new(int rank, int rank_count)
{
	struct nccl_comm_st *c = calloc(1, sizeof(*c));

	if (!c)
		return NULL;
	c->magic = COMM_MAGIC;
	c->refs = 1;
	c->rank = rank;
	c->rank_count = rank_count;
	c->send_next = calloc((size_t)rank_count, sizeof(*c->send_next));
	c->recv_next = calloc((size_t)rank_count, sizeof(*c->recv_next));
	if (!c->send_next || !c->recv_next) {
		comm_unref(c);
		return NULL;
	}
	if (driver.get_current(&c->context) || !c->context) {
		driver.retain(&c->context, 0);
		driver.set_current(c->context);
	}
	return c;
}

/* A group's inits: everybody announces before anybody waits. */
static nccl_result inits_run(struct init_job *jobs, unsigned count)
{
	nccl_result rc = NCCL_OK;

	for (unsigned i = 0; i < count; i++) {
		struct init_job *j = &jobs[i];

		if (j->parent) {
			uint8_t id[NCCL_PEERS_ID_BYTES];
			int rank, n = nccl_peers_split_wait(j->parent->peers, j->split, &rank, id);

			if (!n)
				continue;
			j->comm = comm_new(rank, n);
			if (!j->comm)
				return NCCL_SYSTEM_ERROR;
			j->comm->context = j->parent->context;
			memcpy(j->comm->id, id, sizeof(id));
		}
		if (nccl_peers_open(&j->comm->peers, j->comm->id, j->comm->rank,
				    j->comm->rank_count))
			return NCCL_SYSTEM_ERROR;
	}
	for (unsigned i = 0; i < count; i++) {
		if (!jobs[i].comm)
			continue;
		nccl_peers_wait(jobs[i].comm->peers);
		if (driver.door->watch(nccl_peers_word(jobs[i].comm->peers)))
			rc = NCCL_SYSTEM_ERROR;
		jobs[i].comm->profiled = nccl_profile_comm_init(
		    &jobs[i].comm->profile,
		    scramble_bytes(SCRAMBLE_SEED, jobs[i].comm->id, NCCL_PEERS_ID_BYTES),
		    jobs[i].comm->rank_count, jobs[i].comm->rank);
		*jobs[i].out = jobs[i].comm;
	}
	return rc;
}

static nccl_result init_add(struct init_job job)
{
	if (!group.depth)
		return inits_run(&job, 1);
	if (group.init_count == INIT_MAX)
		return NCCL_INVALID_USAGE;
	group.inits[group.init_count++] = job;
	return NCCL_OK;
}

static nccl_result init_rank(nccl_comm *out, int n, const nccl_unique_id *id, int rank)
{
	struct nccl_comm_st *c;

	if (!out || n < 1 || rank < 0 || rank >= n || n > NCCL_PEERS_MAX_RANKS)
		return NCCL_INVALID_ARGUMENT;
	*out = NULL;
	if (!driver_ready())
		return NCCL_UNHANDLED_CUDA;
	c = comm_new(rank, n);
	if (!c)
		return NCCL_SYSTEM_ERROR;
	memcpy(c->id, id->internal + 8, sizeof(c->id));
	return init_add((struct init_job){.out = out, .comm = c});
}

NCCL_API(GetVersion, (int *version))
{
	if (!version)
		return NCCL_INVALID_ARGUMENT;
	*version = (int)sim_number("SIM_NCCL_VERSION", 22809);
	return NCCL_OK;
}

NCCL_API(GetUniqueId, (nccl_unique_id * id))
{
	if (!id)
		return NCCL_INVALID_ARGUMENT;
	memset(id, 0, sizeof(*id));
	memcpy(id->internal, "SIMNCCL", 8);
	return getrandom(id->internal + 8, NCCL_PEERS_ID_BYTES, 0) == NCCL_PEERS_ID_BYTES
		   ? NCCL_OK
		   : NCCL_SYSTEM_ERROR;
}

NCCL_API(CommInitRank, (nccl_comm * out, int n, nccl_unique_id id, int rank))
{
	return init_rank(out, n, &id, rank);
}

NCCL_API(CommInitRankConfig, (nccl_comm * out, int n, nccl_unique_id id, int rank, void *config))
{
	return init_rank(out, n, &id, rank);
}

NCCL_API(CommInitRankScalable,
	 (nccl_comm * out, int n, int rank, int id_count, nccl_unique_id *ids, void *config))
{
	return id_count > 0 && ids ? init_rank(out, n, &ids[0], rank) : NCCL_INVALID_ARGUMENT;
}

NCCL_API(CommInitAll, (nccl_comm * comms, int n, const int *devices))
{
	struct init_job jobs[INIT_MAX];
	nccl_unique_id id;
	cu_context old = NULL;
	nccl_result rc;

	if (!comms || n < 1 || n > INIT_MAX)
		return NCCL_INVALID_ARGUMENT;
	if (!driver_ready())
		return NCCL_UNHANDLED_CUDA;
	pncclGetUniqueId(&id);
	memset(jobs, 0, sizeof(jobs));
	driver.get_current(&old);
	for (int i = 0; i < n; i++) {
		cu_context c;

		if (driver.retain(&c, devices ? devices[i] : i))
			return NCCL_INVALID_ARGUMENT;
		driver.set_current(c);
		jobs[i].out = &comms[i];
		jobs[i].comm = comm_new(i, n);
		if (!jobs[i].comm)
			return NCCL_SYSTEM_ERROR;
		memcpy(jobs[i].comm->id, id.internal + 8, NCCL_PEERS_ID_BYTES);
	}
	rc = inits_run(jobs, (unsigned)n);
	if (old)
		driver.set_current(old);
	return rc;
}

NCCL_API(CommSplit, (nccl_comm c, int color, int key, nccl_comm *out, void *config))
{
	struct init_job j = {.out = out, .parent = c};

	if (!comm_ok(c) || !out)
		return NCCL_INVALID_ARGUMENT;
	*out = NULL;
	j.split = c->split_next++;
	if (nccl_peers_split_tell(c->peers, j.split, color, key))
		return NCCL_SYSTEM_ERROR;
	return init_add(j);
}

/* The excluded ranks make no call: the others meet under an id that each of them can compute. */
NCCL_API(CommShrink,
	 (nccl_comm c, int *excluded, int count, nccl_comm *out, void *config, int flags))
{
	uint64_t gone = 0, id[2];
	struct nccl_comm_st *to;
	int rank = 0, left = 0;

	if (!comm_ok(c) || !out || (count && !excluded))
		return NCCL_INVALID_ARGUMENT;
	*out = NULL;
	for (int i = 0; i < count; i++) {
		if (excluded[i] < 0 || excluded[i] >= c->rank_count || excluded[i] == c->rank)
			return NCCL_INVALID_ARGUMENT;
		gone |= 1ull << excluded[i];
	}
	for (int i = 0; i < c->rank_count; i++) {
		rank += i < c->rank && !(gone >> i & 1);
		left += !(gone >> i & 1);
	}
	to = comm_new(rank, left);
	if (!to)
		return NCCL_SYSTEM_ERROR;
	id[0] = scramble_bytes(SCRAMBLE_SEED ^ gone, c->id, NCCL_PEERS_ID_BYTES);
	id[1] = scramble_bytes(id[0] ^ ++c->shrink_next, c->id, NCCL_PEERS_ID_BYTES);
	memcpy(to->id, id, sizeof(to->id));
	return init_add((struct init_job){.out = out, .comm = to});
}

NCCL_API(CommFinalize, (nccl_comm c))
{
	return comm_ok(c) ? NCCL_OK : NCCL_INVALID_ARGUMENT;
}

static nccl_result comm_end(struct nccl_comm_st *c, bool abort)
{
	if (!comm_ok(c))
		return NCCL_INVALID_ARGUMENT;
	if (abort)
		c->aborted = true;
	c->destroyed = true;
	driver.door->unwatch(nccl_peers_word(c->peers));
	driver.door->kick();
	if (c->profiled)
		nccl_profile_comm_fini(c->profile);
	comm_unref(c);
	return NCCL_OK;
}

NCCL_API(CommDestroy, (nccl_comm c))
{
	return comm_end(c, false);
}

NCCL_API(CommAbort, (nccl_comm c))
{
	return comm_end(c, true);
}

NCCL_API(CommRevoke, (nccl_comm c, int flags))
{
	if (!comm_ok(c))
		return NCCL_INVALID_ARGUMENT;
	c->aborted = true;
	driver.door->kick();
	return NCCL_OK;
}

NCCL_API(CommCount, (const nccl_comm c, int *count))
{
	if (!comm_ok(c) || !count)
		return NCCL_INVALID_ARGUMENT;
	*count = c->rank_count;
	return NCCL_OK;
}

NCCL_API(CommUserRank, (const nccl_comm c, int *rank))
{
	if (!comm_ok(c) || !rank)
		return NCCL_INVALID_ARGUMENT;
	*rank = c->rank;
	return NCCL_OK;
}

/* ---- running kernels ---- */

static void plan_ref(void *arg)
{
	__atomic_add_fetch(&((struct plan *)arg)->refs, 1, __ATOMIC_RELAXED);
}

static void plan_unref(void *arg)
{
	struct plan *p = arg;

	if (__atomic_sub_fetch(&p->refs, 1, __ATOMIC_ACQ_REL))
		return;
	comm_unref(p->comm);
	free(p);
}

static void *run_begin(void *arg)
{
	struct plan *p = arg;
	struct nccl_comm_st *c = p->comm;
	struct run *r = calloc(1, sizeof(*r) + p->part_count * sizeof(r->parts[0]));
	uint64_t seed = (uint64_t)c->rank << 32 | c->collective_next;

	if (!r)
		abort(); /* without memory the model cannot continue */
	r->plan = p;
	r->left = p->part_count;
	r->jitter_ns = driver.jitter_ns ? scramble(seed) % driver.jitter_ns : 0;
	for (unsigned i = 0; i < p->part_count; i++) {
		struct run_part *q = &r->parts[i];
		int peer = p->parts[i].peer;

		if (p->parts[i].func == F_SEND) {
			q->need = 2;
			q->meet = nccl_peers_message(c->peers, c->rank, peer, c->send_next[peer]++,
						     &q->generation);
		} else if (p->parts[i].func == F_RECV) {
			q->need = 2;
			q->meet = nccl_peers_message(c->peers, peer, c->rank, c->recv_next[peer]++,
						     &q->generation);
		} else {
			q->need = (uint32_t)c->rank_count;
			q->meet =
			    nccl_peers_collective(c->peers, c->collective_next++, &q->generation);
		}
	}
	return r;
}

static uint64_t run_poll(void *arg)
{
	struct run *r = arg;
	struct plan *p = r->plan;

	if (__atomic_load_n(&p->comm->aborted, __ATOMIC_ACQUIRE))
		return sim_now();
	for (unsigned i = 0; i < p->part_count; i++) {
		struct run_part *q = &r->parts[i];
		uint64_t end;

		if (q->done)
			continue;
		if (!q->arrived)
			q->arrived =
			    nccl_peers_arrive(p->comm->peers, q->meet, q->generation, q->need,
					      p->parts[i].what, r->start_ns, p->parts[i].cost_ns);
		if (!q->arrived)
			continue;
		end = nccl_peers_end(q->meet, q->need);
		if (!end)
			continue;
		nccl_peers_leave(q->meet, q->need);
		q->done = true;
		r->left--;
		if (end > r->end_ns)
			r->end_ns = end;
	}
	if (r->left)
		return 0;
	for (unsigned i = 0; p->profiled && i < p->part_count; i++)
		nccl_profile_kernel(p->comm->profile, p->parts[i].event, p->comm->rank, r->start_ns,
				    r->end_ns + r->jitter_ns);
	return r->end_ns + r->jitter_ns;
}

static uint64_t run_start(void *arg, uint64_t start_ns)
{
	((struct run *)arg)->start_ns = start_ns;
	return run_poll(arg);
}

static void run_finish(void *arg)
{
	free(arg);
}

static const struct gpu_peer_ops peer_ops = {.ref = plan_ref,
					     .unref = plan_unref,
					     .begin = run_begin,
					     .start = run_start,
					     .poll = run_poll,
					     .finish = run_finish};

/* ---- operations ---- */

static uint64_t cost_ns(const struct group_op *o)
{
	uint64_t n = (uint64_t)o->comm->rank_count, moved;

	switch (o->func) {
	case F_ALLREDUCE:
		moved = 2 * (n - 1) * o->bytes / n;
		break;
	case F_ALLGATHER:
	case F_REDUCESCATTER:
	case F_ALLTOALL:
	case F_GATHER:
	case F_SCATTER:
		moved = (n - 1) * o->bytes;
		break;
	default:
		moved = o->bytes;
	}
	return driver.latency_ns + moved * 1000 / driver.bytes_per_us;
}

static const char *kernel_name(const struct group_op *o, char *buf, size_t bytes)
{
	static const char *types[] = {"i8",  "u8",  "i32", "u32",  "i64",    "u64",
				      "f16", "f32", "f64", "bf16", "f8e4m3", "f8e5m2"};
	static const char *reds[] = {"Sum", "Prod", "MinMax", "MinMax", "Sum"};
	static const char *names[] = {[F_ALLREDUCE] = "AllReduce",
				      [F_ALLGATHER] = "AllGather",
				      [F_REDUCESCATTER] = "ReduceScatter",
				      [F_BROADCAST] = "Broadcast",
				      [F_REDUCE] = "Reduce"};
	const char *t = o->type < 12 ? types[o->type] : "i8";
	const char *r = o->red < 5 ? reds[o->red] : "Sum";
	const char *proto = o->bytes > (4u << 20) ? "" : "_LL";

	switch (o->func) {
	case F_ALLREDUCE:
	case F_REDUCESCATTER:
	case F_REDUCE:
		snprintf(buf, bytes,
			 "ncclDevKernel_%s_%s_%s_RING%s(ncclDevKernelArgsStorage<4096ul>)",
			 names[o->func], r, t, proto);
		break;
	case F_ALLGATHER:
	case F_BROADCAST:
		snprintf(buf, bytes, "ncclDevKernel_%s_RING%s(ncclDevKernelArgsStorage<4096ul>)",
			 names[o->func], proto);
		break;
	default:
		snprintf(buf, bytes, "ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)");
	}
	return buf;
}

static bool is_message(enum func f)
{
	return f == F_SEND || f == F_RECV;
}

/* The two ends of a message only need to agree that it is one. */
static uint32_t what_of(const struct group_op *o)
{
	return is_message(o->func) ? 1 : 2 + ((uint32_t)o->func << 8 | o->type);
}

static bool fuses(const struct group_op *a, const struct group_op *b)
{
	return a->comm == b->comm && a->stream == b->stream &&
	       (is_message(a->func) ? is_message(b->func) : a->func == b->func);
}

static const char *const func_names[] = {"AllReduce", "AllGather", "ReduceScatter", "Broadcast",
					 "Reduce",    "AllToAll",  "Gather",	    "Scatter",
					 "Send",      "Recv"};
static const char *const type_names[] = {"ncclInt8",	 "ncclUint8",	   "ncclInt32",
					 "ncclUint32",	 "ncclInt64",	   "ncclUint64",
					 "ncclFloat16",	 "ncclFloat32",	   "ncclFloat64",
					 "ncclBfloat16", "ncclFloat8e4m3", "ncclFloat8e5m2"};

/* Reports an enqueued operation to the profiler; captured ones are not reported. */
static void *event_start(const struct group_op *o, void *parent, unsigned channels)
{
	struct nccl_comm_st *c = o->comm;
	struct nccl_profiler_v4_event e = {.parent = parent, .rank = c->rank};

	if (is_message(o->func)) {
		e.type = NCCL_PROFILE_P2P;
		e.p2p.func = func_names[o->func];
		e.p2p.datatype = type_names[o->type];
		e.p2p.count = o->count;
		e.p2p.peer = o->peer;
		e.p2p.channel_count = (uint8_t)channels;
	} else {
		e.type = NCCL_PROFILE_COLL;
		e.coll.seq = c->seq[o->func]++;
		e.coll.func = func_names[o->func];
		e.coll.datatype = type_names[o->type];
		e.coll.count = o->count;
		e.coll.root = o->peer;
		e.coll.channel_count = (uint8_t)channels;
		e.coll.warp_count = 17;
		e.coll.algorithm = "RING";
		e.coll.protocol = o->bytes > (4u << 20) ? "SIMPLE" : "LL";
	}
	return nccl_profile_start(c->profile, &e);
}

static bool profiled(const struct group_op *o)
{
	int status = 0;

	return o->comm->profiled && driver.capturing && !driver.capturing(o->stream, &status) &&
	       status == CU_CAPTURE_NONE;
}

/* Launches the kernel of ops[first] and of the operations fused with it. */
static nccl_result launch(struct group_op *ops, unsigned count, unsigned first)
{
	struct group_op *lead = &ops[first];
	struct nccl_comm_st *c = lead->comm;
	cu_launch_config config = {.grid_y = 1,
				   .grid_z = 1,
				   .block_x = 544,
				   .block_y = 1,
				   .block_z = 1,
				   .shared_bytes = 83000,
				   .stream = lead->stream};
	struct nccl_profiler_v4_event group_start = {.type = NCCL_PROFILE_GROUP, .rank = c->rank};
	cu_context old = NULL;
	void *group_event = NULL;
	struct plan *p;
	uint64_t bytes = 0;
	unsigned n = 0;
	void *param, *params[1] = {&param};
	char name[160];
	cu_function f;
	cu_result rc;

	for (unsigned i = first; i < count; i++)
		n += !ops[i].taken && fuses(lead, &ops[i]);
	p = calloc(1, sizeof(*p) + n * sizeof(p->parts[0]));
	if (!p)
		return NCCL_SYSTEM_ERROR;
	p->refs = 1;
	p->comm = c;
	__atomic_add_fetch(&c->refs, 1, __ATOMIC_RELAXED);
	for (unsigned i = first; i < count; i++)
		bytes += !ops[i].taken && fuses(lead, &ops[i]) ? ops[i].bytes : 0;
	config.grid_x = (unsigned)(bytes / 131072 < 1	 ? 1
				   : bytes / 131072 > 24 ? 24
							 : bytes / 131072);
	p->profiled = profiled(lead);
	if (p->profiled)
		group_event = nccl_profile_start(c->profile, &group_start);
	for (unsigned i = first; i < count; i++) {
		if (ops[i].taken || !fuses(lead, &ops[i]))
			continue;
		ops[i].taken = true;
		p->parts[p->part_count++] = (struct part){
		    ops[i].func, ops[i].peer, what_of(&ops[i]), cost_ns(&ops[i]),
		    p->profiled ? event_start(&ops[i], group_event, config.grid_x) : NULL};
	}
	f = driver.door->peer_function(kernel_name(lead, name, sizeof(name)), &peer_ops);
	param = p;
	driver.get_current(&old);
	if (old != c->context)
		driver.set_current(c->context);
	rc = f ? driver.launch(&config, f, params, NULL) : CU_OUT_OF_MEMORY;
	if (old && old != c->context)
		driver.set_current(old);
	for (unsigned i = 0; i < n && p->profiled; i++)
		nccl_profile_stop(p->parts[i].event);
	nccl_profile_stop(group_event);
	plan_unref(p);
	return rc ? NCCL_UNHANDLED_CUDA : NCCL_OK;
}

static nccl_result submit(struct group_op o, size_t count)
{
	if (!comm_ok(o.comm))
		return NCCL_INVALID_ARGUMENT;
	if (!nccl_type_bytes(o.type) || o.peer < 0 || o.peer >= o.comm->rank_count)
		return NCCL_INVALID_ARGUMENT;
	o.bytes = count * nccl_type_bytes(o.type);
	o.count = count;
	if (!group.depth)
		return launch(&o, 1, 0);
	if (!group.ops)
		group.ops = calloc(GROUP_MAX, sizeof(*group.ops));
	if (!group.ops || group.op_count == GROUP_MAX)
		return NCCL_SYSTEM_ERROR;
	group.ops[group.op_count++] = o;
	return NCCL_OK;
}

NCCL_API(GroupStart, (void))
{
	group.depth++;
	return NCCL_OK;
}

NCCL_API(GroupEnd, (void))
{
	nccl_result rc = NCCL_OK;

	if (!group.depth)
		return NCCL_INVALID_USAGE;
	if (--group.depth)
		return NCCL_OK;
	if (group.init_count)
		rc = inits_run(group.inits, group.init_count);
	group.init_count = 0;
	for (unsigned i = 0; i < group.op_count && !rc; i++)
		if (!group.ops[i].taken)
			rc = launch(group.ops, group.op_count, i);
	group.op_count = 0;
	return rc;
}

NCCL_API(GroupSimulateEnd, (void *info))
{
	return pncclGroupEnd();
}

/* An operation whose arguments are these; fields: of struct group_op. */
#define NCCL_OP(name, of, params, ...)                                                             \
	NCCL_API(name, params)                                                                     \
	{                                                                                          \
		return submit(                                                                     \
		    (struct group_op){                                                             \
			.comm = c, .stream = s, .func = of, .type = type, __VA_ARGS__},            \
		    count);                                                                        \
	}
NCCL_OP(AllReduce, F_ALLREDUCE,
	(const void *send, void *recv, size_t count, unsigned type, unsigned op, nccl_comm c,
	 cu_stream s),
	.red = op)
NCCL_OP(AllGather, F_ALLGATHER,
	(const void *send, void *recv, size_t count, unsigned type, nccl_comm c, cu_stream s))
NCCL_OP(ReduceScatter, F_REDUCESCATTER,
	(const void *send, void *recv, size_t count, unsigned type, unsigned op, nccl_comm c,
	 cu_stream s),
	.red = op)
NCCL_OP(Broadcast, F_BROADCAST,
	(const void *send, void *recv, size_t count, unsigned type, int root, nccl_comm c,
	 cu_stream s),
	.peer = root)
NCCL_OP(Bcast, F_BROADCAST,
	(void *buf, size_t count, unsigned type, int root, nccl_comm c, cu_stream s), .peer = root)
NCCL_OP(Reduce, F_REDUCE,
	(const void *send, void *recv, size_t count, unsigned type, unsigned op, int root,
	 nccl_comm c, cu_stream s),
	.red = op, .peer = root)
NCCL_OP(AlltoAll, F_ALLTOALL,
	(const void *send, void *recv, size_t count, unsigned type, nccl_comm c, cu_stream s))
NCCL_OP(Gather, F_GATHER,
	(const void *send, void *recv, size_t count, unsigned type, int root, nccl_comm c,
	 cu_stream s),
	.peer = root)
NCCL_OP(Scatter, F_SCATTER,
	(const void *send, void *recv, size_t count, unsigned type, int root, nccl_comm c,
	 cu_stream s),
	.peer = root)
NCCL_OP(Send, F_SEND,
	(const void *send, size_t count, unsigned type, int peer, nccl_comm c, cu_stream s),
	.peer = peer)
NCCL_OP(Recv, F_RECV, (void *recv, size_t count, unsigned type, int peer, nccl_comm c, cu_stream s),
	.peer = peer)
