/* SPDX-License-Identifier: Apache-2.0
 * job_mix.c - the built-in kernel mixes. Names, counts and durations are invented, in the
 * proportions of common models. */
#include <stdio.h>
#include <string.h>

#include "sim/job.h"

#define US 1000ull
#define MS 1000000ull

enum { S_COMPUTE = 1, S_COMM = 2, S_COPY = 3 };

struct builder {
	struct job_program *p;
	struct job_phase *ph;
	uint64_t at; /* the host's offset */
	unsigned next_event;
};

static void kernel(struct builder *b, const char *name, uint64_t us, unsigned grid, unsigned block)
{
	struct job_action *a = job_phase_add(b->ph, JOB_KERNEL, S_COMPUTE, b->at);

	a->function = job_program_name(b->p, name);
	a->dur_ns = us * US;
	a->grid[0] = grid;
	a->grid[1] = a->grid[2] = 1;
	a->block[0] = block;
	a->block[1] = a->block[2] = 1;
	a->ex = !strncmp(name, "triton_", 7);
	b->at += 9 * US; /* what a framework's launch costs on the host */
}

static void collective(struct builder *b, enum job_collective c, uint64_t bytes, unsigned stream)
{
	struct job_action *a;
	unsigned e = b->next_event++ % (JOB_EVENTS / 2) * 2;

	if (stream != S_COMPUTE) {
		job_phase_add(b->ph, JOB_RECORD, S_COMPUTE, b->at)->slot = (uint16_t)e;
		job_phase_add(b->ph, JOB_WAIT, stream, b->at)->slot = (uint16_t)e;
	}
	a = job_phase_add(b->ph, JOB_COLLECTIVE, stream, b->at);
	a->collective = (uint8_t)c;
	a->bytes = bytes;
	b->at += 15 * US;
}

/* The compute stream waits for the work of the comm stream so far. */
static void join_comm(struct builder *b)
{
	unsigned e = b->next_event++ % (JOB_EVENTS / 2) * 2 + 1;

	job_phase_add(b->ph, JOB_RECORD, S_COMM, b->at)->slot = (uint16_t)e;
	job_phase_add(b->ph, JOB_WAIT, S_COMPUTE, b->at)->slot = (uint16_t)e;
}

static void forward_layer(struct builder *b, uint64_t scale)
{
	kernel(b, "layer_norm_forward_kernel<float, 256>(float*, float const*, int)",
	       40 * scale / 4, 1024, 256);
	kernel(b, "ampere_bf16_s16816gemm_bf16_128x128_ldg8_f2f_stages_64x3_tn(qkv)",
	       620 * scale / 4, 768, 256);
	kernel(b, "rotary_embedding_kernel<bf16>(bf16*, int, int)", 35 * scale / 4, 512, 128);
	kernel(b, "flash_fwd_splitkv_kernel<64, 128, true>(Flash_fwd_params)", 480 * scale / 4, 384,
	       128);
	kernel(b, "ampere_bf16_s16816gemm_bf16_128x64_ldg8_f2f_stages_64x4_tn(out)",
	       240 * scale / 4, 512, 128);
	kernel(b, "triton_poi_fused_add_dropout_0", 45 * scale / 4, 2048, 128);
	kernel(b, "layer_norm_forward_kernel<float, 256>(float*, float const*, int)",
	       40 * scale / 4, 1024, 256);
	kernel(b, "ampere_bf16_s16816gemm_bf16_256x128_ldg8_f2f_stages_64x3_tn(up)",
	       820 * scale / 4, 1024, 256);
	kernel(b, "triton_poi_fused_gelu_1", 60 * scale / 4, 4096, 128);
	kernel(b, "ampere_bf16_s16816gemm_bf16_256x128_ldg8_f2f_stages_64x3_tn(down)",
	       800 * scale / 4, 1024, 256);
}

static void backward_layer(struct builder *b)
{
	static const char *const gemms[] = {
	    "ampere_bf16_s16816gemm_bf16_128x256_ldg8_f2f_stages_64x3_nn(dgrad)",
	    "ampere_bf16_s16816gemm_bf16_128x256_ldg8_f2f_stages_64x3_nt(wgrad)",
	};

	kernel(b, "triton_poi_fused_gelu_backward_2", 70, 4096, 128);
	for (int i = 0; i < 4; i++)
		kernel(b, gemms[i & 1], 480 + 90 * (unsigned)i, 1024 + 64 * (unsigned)i, 256);
	kernel(b, "layer_norm_backward_kernel<float, 256>(float*, float const*, int)", 90, 1024,
	       256);
	kernel(b, "flash_bwd_dq_dk_dv_loop_seqk_parallel_kernel<64>(Flash_bwd_params)", 980, 384,
	       256);
	for (int i = 0; i < 4; i++)
		kernel(b, gemms[i & 1], 260 + 40 * (unsigned)i, 640 + 64 * (unsigned)i, 256);
	kernel(b, "triton_red_fused_sum_3", 55, 256, 256);
}

static void optimizer(struct builder *b)
{
	kernel(b, "multi_tensor_l2norm_kernel(int, float*)", 150, 320, 512);
	kernel(b, "clip_coefficient_kernel(float*, float)", 6, 1, 32);
	for (int i = 0; i < 16; i++)
		kernel(b, "multi_tensor_adam_kernel<float, bf16>(AdamParams)", 180, 320, 512);
}

static void begin_step(struct builder *b, struct job_phase *ph, const char *name, uint64_t in_bytes)
{
	b->ph = ph;
	b->at = 300 * US; /* the data loader hands a batch over */
	snprintf(ph->name, sizeof(ph->name), "%s", name);
	job_phase_add(ph, JOB_PACE, S_COMPUTE, b->at);
	job_phase_add(ph, JOB_COPY_IN, S_COPY, b->at)->bytes = in_bytes;
	job_phase_add(ph, JOB_RECORD, S_COPY, b->at)->slot = 60;
	job_phase_add(ph, JOB_WAIT, S_COMPUTE, b->at)->slot = 60;
	kernel(b, "embedding_dense_kernel<bf16, long>(bf16*, long const*)", 120, 1024, 256);
}

static void end_step(struct builder *b)
{
	job_phase_add(b->ph, JOB_COPY_OUT, S_COMPUTE, b->at)->bytes = 4; /* loss.item() */
	job_phase_add(b->ph, JOB_SYNC, S_COMPUTE, b->at);
}

static void train_step(struct builder *b, struct job_phase *ph, const char *name, unsigned micro)
{
	begin_step(b, ph, name, 4 << 20);
	ph->work = micro;
	for (unsigned m = 0; m < micro; m++) {
		for (int l = 0; l < 12; l++)
			forward_layer(b, micro > 1 ? 2 : 4);
		kernel(b, "cross_entropy_loss_kernel<float>(float*, float const*, long const*)",
		       260, 512, 256);
		for (int l = 11; l >= 0; l--) {
			backward_layer(b);
			if (m == micro - 1 && l % 3 == 0)
				collective(b, JOB_ALLREDUCE, 96ull << 20, S_COMM);
		}
	}
	join_comm(b);
	optimizer(b);
	end_step(b);
}

/* The optimizer's state is sharded: each rank in turn updates its part and sends it to the
 * others. */
static void shard_step(struct builder *b, struct job_phase *ph, int ranks)
{
	begin_step(b, ph, "shard", 4 << 20);
	for (int l = 0; l < 12; l++)
		forward_layer(b, 4);
	kernel(b, "cross_entropy_loss_kernel<float>(float*, float const*, long const*)", 260, 512,
	       256);
	for (int l = 0; l < 4; l++)
		backward_layer(b);
	optimizer(b);
	job_phase_add(ph, JOB_SYNC, S_COMPUTE, b->at);
	for (int i = 0; i < ranks && i < JOB_MAX_RANKS; i++) {
		struct job_action *a = job_phase_add(ph, JOB_SHARE, S_COMM, b->at);

		a->slot = (uint16_t)i;
		a->bytes = 24 << 20;
	}
	end_step(b);
}

static void eval_step(struct builder *b, struct job_phase *ph)
{
	begin_step(b, ph, "eval", 2 << 20);
	for (int l = 0; l < 12; l++)
		forward_layer(b, 4);
	kernel(b, "argmax_accuracy_kernel<float>(float const*, long*)", 140, 256, 256);
	collective(b, JOB_ALLREDUCE, 64, S_COMM);
	join_comm(b);
	end_step(b);
}

/* Tensor-parallel layers: two small collectives each, in the compute stream. */
static void tensor_step(struct builder *b, struct job_phase *ph)
{
	begin_step(b, ph, "tensor", 1 << 20);
	for (int l = 0; l < 100; l++) {
		kernel(b, "ampere_bf16_s16816gemm_bf16_128x64_ldg8_f2f_stages_64x4_tn(out)", 290,
		       512, 128);
		collective(b, JOB_ALLREDUCE, 256 << 10, S_COMPUTE);
		kernel(b, "triton_poi_fused_gelu_1", 90, 1024, 128);
		collective(b, JOB_ALLGATHER, 32 << 10, S_COMPUTE);
		kernel(b, "ampere_bf16_s16816gemm_bf16_256x128_ldg8_f2f_stages_64x3_tn(down)", 390,
		       1024, 256);
		collective(b, JOB_REDUCESCATTER, 32 << 10, S_COMPUTE);
		kernel(b, "triton_poi_fused_add_dropout_0", 60, 512, 128);
		collective(b, JOB_ALLREDUCE, 128 << 10, S_COMPUTE);
	}
	optimizer(b);
	end_step(b);
}

/* ---- decode with graphs ---- */

#define BATCHES 6

static void decode_graph(struct builder *b, struct job_phase *ph, unsigned batch, int ranks)
{
	b->ph = ph;
	b->at = 0;
	snprintf(ph->name, sizeof(ph->name), "graph-b%u", batch);
	for (int l = 0; l < 16; l++) {
		kernel(b, "rms_norm_kernel<bf16>(bf16*, bf16 const*, float)", 6, batch, 256);
		kernel(b, "gemv_bf16_kernel<8, 4>(qkv)", 110 + batch, 256, 128);
		kernel(b, "paged_attention_v2_kernel<bf16, 128>(bf16*, int const*)", 40 + 4 * batch,
		       32 * batch, 128);
		kernel(b, "gemv_bf16_kernel<8, 4>(out)", 60 + batch / 2, 256, 128);
		if (ranks > 1)
			collective(b, JOB_ALLREDUCE, 16384ull * batch, S_COMPUTE);
		kernel(b, "gemv_bf16_kernel<8, 4>(up)", 150 + batch, 512, 128);
		kernel(b, "silu_and_mul_kernel<bf16>(bf16*, bf16 const*)", 6, batch, 512);
		kernel(b, "gemv_bf16_kernel<8, 4>(down)", 140 + batch, 256, 128);
		if (ranks > 1)
			collective(b, JOB_ALLREDUCE, 16384ull * batch, S_COMPUTE);
	}
}

static void decode_step(struct builder *b, struct job_phase *ph, unsigned index, unsigned batch)
{
	b->ph = ph;
	b->at = 200 * US;
	snprintf(ph->name, sizeof(ph->name), "decode-b%u", batch);
	ph->work = batch;
	job_phase_add(ph, JOB_PACE, S_COMPUTE, b->at);
	job_phase_add(ph, JOB_COPY_IN, S_COMPUTE, b->at)->bytes = 128ull * batch;
	job_phase_add(ph, JOB_GRAPH, S_COMPUTE, b->at)->slot = (uint16_t)index;
	kernel(b, "top_p_sampling_kernel<float>(float const*, int*)", 60 + batch, batch, 1024);
	job_phase_add(ph, JOB_COPY_OUT, S_COMPUTE, b->at)->bytes = 4ull * batch;
	job_phase_add(ph, JOB_SYNC, S_COMPUTE, b->at);
}

static void prefill_step(struct builder *b, struct job_phase *ph, unsigned tokens, int ranks)
{
	b->ph = ph;
	b->at = 400 * US;
	snprintf(ph->name, sizeof(ph->name), "prefill-%u", tokens);
	ph->work = tokens;
	job_phase_add(ph, JOB_PACE, S_COMPUTE, b->at);
	job_phase_add(ph, JOB_COPY_IN, S_COMPUTE, b->at)->bytes = 8ull * tokens;
	for (int l = 0; l < 16; l++) {
		kernel(b, "rms_norm_kernel<bf16>(bf16*, bf16 const*, float)", 4 + tokens / 100,
		       tokens, 256);
		kernel(b, "ampere_bf16_s16816gemm_bf16_128x128_ldg8_f2f_stages_64x3_tn(qkv)",
		       tokens / 3, tokens / 4, 256);
		kernel(b, "flash_fwd_splitkv_kernel<64, 128, true>(Flash_fwd_params)", tokens / 4,
		       tokens / 8, 128);
		if (ranks > 1)
			collective(b, JOB_ALLREDUCE, 8192ull * tokens, S_COMPUTE);
		kernel(b, "ampere_bf16_s16816gemm_bf16_256x128_ldg8_f2f_stages_64x3_tn(up)",
		       tokens / 2, tokens / 2, 256);
		if (ranks > 1)
			collective(b, JOB_ALLREDUCE, 8192ull * tokens, S_COMPUTE);
	}
	kernel(b, "top_p_sampling_kernel<float>(float const*, int*)", 80, 1, 1024);
	job_phase_add(ph, JOB_COPY_OUT, S_COMPUTE, b->at)->bytes = 4;
	job_phase_add(ph, JOB_SYNC, S_COMPUTE, b->at);
}

/* ---- choosing a step's phase ---- */

static unsigned choose_first(const struct job_program *p, uint64_t seed, uint64_t step)
{
	return 0;
}

/* Forty training steps, then eight of evaluation. */
static unsigned choose_eval(const struct job_program *p, uint64_t seed, uint64_t step)
{
	return step % 48 >= 40;
}

/* The batch varies with the traffic, equally on every rank; now and then a prompt arrives. */
static unsigned choose_serve(const struct job_program *p, uint64_t seed, uint64_t step)
{
	uint64_t s = seed ^ step / 16 * 0x5851f42d4c957f2dull,
		 t = seed ^ (step + 77) * 0x2545f491ull;

	if (job_random(&t) % 16 == 0)
		return BATCHES + (unsigned)(job_random(&t) % 3);
	return (unsigned)(job_random(&s) % BATCHES);
}

static void build_serve(struct job_program *p, struct builder *b, int ranks)
{
	p->phase_count = BATCHES + 3;
	p->phases = job_alloc(p->phase_count, sizeof(*p->phases));
	p->graph_count = BATCHES;
	p->graphs = job_alloc(p->graph_count, sizeof(*p->graphs));
	for (unsigned i = 0; i < BATCHES; i++) {
		decode_graph(b, &p->graphs[i], 1u << i, ranks);
		decode_step(b, &p->phases[i], i, 1u << i);
	}
	for (unsigned i = 0; i < 3; i++)
		prefill_step(b, &p->phases[BATCHES + i], 256u << i, ranks);
	p->choose = choose_serve;
	p->nominal_ns = 12 * MS;
}

const char *job_mix_names(void)
{
	return "train, accum, eval, tensor, serve, shard";
}

bool job_mix_build(struct job_program *p, const char *name, int ranks)
{
	struct builder b = {.p = p};

	p->jitter = 0.01;
	p->choose = choose_first;
	p->nominal_ns = 100 * MS;
	if (!strcmp(name, "serve")) {
		build_serve(p, &b, ranks);
		return true;
	}
	p->phase_count = !strcmp(name, "eval") ? 2 : 1;
	p->phases = job_alloc(p->phase_count, sizeof(*p->phases));
	if (!strcmp(name, "train")) {
		train_step(&b, &p->phases[0], "train", 1);
	} else if (!strcmp(name, "accum")) {
		train_step(&b, &p->phases[0], "accum", 4);
		p->nominal_ns = 330 * MS;
	} else if (!strcmp(name, "eval")) {
		train_step(&b, &p->phases[0], "train", 1);
		eval_step(&b, &p->phases[1]);
		p->choose = choose_eval;
	} else if (!strcmp(name, "shard")) {
		shard_step(&b, &p->phases[0], ranks);
	} else if (!strcmp(name, "tensor")) {
		tensor_step(&b, &p->phases[0]);
		p->nominal_ns = 90 * MS;
	} else {
		return false;
	}
	return true;
}
