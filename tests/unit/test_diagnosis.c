/* SPDX-License-Identifier: Apache-2.0
 * A job of eight ranks, made by hand, of which rank 5 has one fault by construction; and its twin, the
 * same without the fault. Every cause is named in the one and not in the other. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "analysis/cause/diagnosis_private.h"

#define MS    1e6
#define ROOM  24
#define PEERS 3

struct fake {
	struct diagnosis_rank r;
	struct diagnosis_kernel kernel[ROOM];
	struct diagnosis_function function[ROOM];
	struct os_signal signal[ROOM];
	struct diagnosis_setting setting[ROOM];
};

struct world {
	struct fake sick, second, peer[PEERS], before;
	enum finding_kind kind;
	enum finding_cause known;
	bool with_before, without_peers;
	uint32_t suspects;
};

static struct diagnosis out;

static void signal_add(struct fake *f, enum os_signal_kind kind, const char *subject, double value,
		       double usual)
{
	struct os_signal *s = &f->signal[f->r.signal_count++];
	const char *cpu = strstr(subject, "on CPU ");

	os_signal_make(s, kind, subject, value, usual, f->r.step_ns * 1e-6);
	s->cpu = cpu ? (uint32_t)atoi(cpu + 7) + 1 : 0;
}

/* As other parts add signals that the table may not have. */
static void other_signal(struct fake *f, const char *name, const char *subject, double value,
			 double usual, bool raised)
{
	struct os_signal *s = &f->signal[f->r.signal_count++];

	*s = (struct os_signal){
	    .value = value, .usual = usual, .flags = raised ? OS_SIGNAL_RAISED : OS_SIGNAL_TOTAL};
	snprintf(s->name, sizeof(s->name), "%s", name);
	snprintf(s->subject, sizeof(s->subject), "%s", subject);
}

static void kernel(struct fake *f, const char *name, double count, double ms, double scale)
{
	f->kernel[f->r.kernel_count++] =
	    (struct diagnosis_kernel){name, count, ms * MS * scale, strstr(name, "nccl") != NULL};
}

static struct diagnosis_function *function(struct fake *f, const char *name, unsigned kind,
					   double self_ms, double total_ms, double launch_ms)
{
	struct diagnosis_function *x = &f->function[f->r.function_count++];

	*x = (struct diagnosis_function){.name = name,
					 .kind = (uint8_t)kind,
					 .self_ns = self_ms * MS,
					 .total_ns = total_ms * MS,
					 .launch_ns = launch_ms * MS};
	return x;
}

static struct diagnosis_function *find(struct fake *f, const char *name)
{
	for (uint32_t i = 0; i < f->r.function_count; i++)
		if (!strcmp(f->function[i].name, name))
			return &f->function[i];
	fail_msg("no function %s", name);
	return NULL;
}

/* Steps of 100 ms: 60 of kernels, 2 of copies, 30 idle, 8 of communication that nothing hides. noise:
 * what differs from healthy rank to healthy rank. */
static void healthy(struct fake *f, int rank, double noise)
{
	double k = 1 + noise;

	memset(f, 0, sizeof(*f));
	f->r = (struct diagnosis_rank){
	    .rank = rank,
	    .steps = 40,
	    .step_ns = 100 * MS,
	    .self_ns = 92 * MS * k,
	    .compute_ns = 60 * MS * k,
	    .comm_ns = 12 * MS,
	    .exposed_comm_ns = 8 * MS,
	    .copy_ns = 2 * MS,
	    .idle_ns = 30 * MS * k,
	    .kernels = 400,
	    .kernel = f->kernel,
	    .function = f->function,
	    .signal = f->signal,
	    .setting = f->setting,
	    .cpu_ns = 80 * MS,
	    .samples = 400,
	    .off_ns = 15 * MS,
	    .gil_wait_ns = 0.2 * MS,
	    .launch_thread = "python3",
	};
	kernel(f, "_ZN7cutlass6KernelI4GemmILi128ELi128EEEEvT_", 100, 30, k);
	kernel(f, "_ZN5flash9attentionILi64ELi2EEEvPf", 50, 20, k);
	kernel(f, "_ZN4norm7forwardEPf", 100, 6, k);
	kernel(f, "volta_sgemm_128x64_nn", 10, 4, k);
	kernel(f, "ncclDevKernel_AllReduce_Sum_f16_RING_LL", 10, 12, 1);
	function(f, "train_step (train.py)", FUNCTION_PYTHON, 2, 60 * k, 60 * k);
	function(f, "Layer.forward (model.py)", FUNCTION_PYTHON, 20, 35 * k, 35 * k);
	function(f, "cuLaunchKernel", FUNCTION_NATIVE, 15, 15 * k, 15 * k);
	function(f, "DataLoader.__next__ (dataloader.py)", FUNCTION_PYTHON, 1, 1, 1);
	function(f, "Logger.info (logger.py)", FUNCTION_PYTHON, 0.2, 0.5, 0.5);
	function(f, "BZ2_bzDecompress", FUNCTION_NATIVE, 2, 2, 0);
	function(f, "filemap_read", FUNCTION_KERNEL, 0.5, 0.5, 0.2);
	function(f, "do_syscall_64", FUNCTION_KERNEL, 1, 5, 4);
	signal_add(f, OS_SIGNAL_RUN_WAIT, "", 8, 7);
	signal_add(f, OS_SIGNAL_IO_WAIT, "", 0, 0);
	signal_add(f, OS_SIGNAL_LOCK_WAIT, "", 0, 0);
	signal_add(f, OS_SIGNAL_FAULTS, "", 300, 300);
	signal_add(f, OS_SIGNAL_GPU_SM_CLOCK, "GPU 0", 1410, 1410);
	f->setting[f->r.setting_count++] = (struct diagnosis_setting){"NCCL_ALGO", "Ring"};
	f->setting[f->r.setting_count++] = (struct diagnosis_setting){"torch", "2.6.0"};
	f->setting[f->r.setting_count++] =
	    (struct diagnosis_setting){"RANK", rank % 3 ? rank % 3 == 1 ? "1" : "2" : "0"};
}

static void build(struct world *w)
{
	memset(w, 0, sizeof(*w));
	w->kind = FINDING_SLOW_RANK;
	w->suspects = 1;
	healthy(&w->sick, 5, 0.002);
	healthy(&w->second, 2, -0.003);
	for (int i = 0; i < PEERS; i++)
		healthy(&w->peer[i], i, 0.004 * (i - 1));
	healthy(&w->before, 5, 0.001);
}

static void judge(struct world *w)
{
	struct diagnosis_rank suspects[2] = {w->sick.r, w->second.r}, peers[PEERS];
	struct diagnosis_input in = {.kind = w->kind,
				     .suspect = suspects,
				     .suspect_count = w->suspects,
				     .peer = peers,
				     .peer_count = w->without_peers ? 0 : PEERS,
				     .before = w->with_before ? &w->before.r : NULL,
				     .known = w->known};

	for (int i = 0; i < PEERS; i++)
		peers[i] = w->peer[i].r;
	diagnosis_make(&in, &out);
	/* no layer is both shown and ruled out, but for a host that is late, for whatever reason */
	for (uint32_t i = 0; i < out.ruled_out_count; i++)
		for (uint32_t k = 0; k < out.evidence_count; k++)
			assert_true(out.evidence[k].layer != out.ruled_out[i].layer ||
				    out.evidence[k].layer == LAYER_CPU);
}

/* ---- faults ---- */

/* The host is late by so much: the GPU idles. */
static void late(struct fake *f, double ms)
{
	f->r.idle_ns += ms * MS;
	f->r.self_ns += ms * MS;
	f->r.step_ns += ms * MS;
	f->r.exposed_comm_ns = 1 * MS;
}

static void slower_kernels(struct fake *f, double ratio)
{
	double extra = 0;

	for (uint32_t i = 0; i < f->r.kernel_count; i++)
		if (!f->kernel[i].collective) {
			extra += f->kernel[i].total_ns * (ratio - 1);
			f->kernel[i].total_ns *= ratio;
		}
	f->r.compute_ns += extra;
	f->r.self_ns += extra;
	f->r.step_ns += extra;
	f->r.exposed_comm_ns = 1 * MS;
}

static void one_kernel(struct fake *f, uint32_t k, double ratio)
{
	double extra = f->kernel[k].total_ns * (ratio - 1);

	f->kernel[k].total_ns += extra;
	f->r.compute_ns += extra;
	f->r.self_ns += extra;
	f->r.step_ns += extra;
}

static void gpu_slow(struct world *w)
{
	slower_kernels(&w->sick, 1.3);
}

static void gpu_clocks(struct world *w)
{
	slower_kernels(&w->sick, 1.3);
	w->sick.r.signal_count--;
	signal_add(&w->sick, OS_SIGNAL_GPU_SM_CLOCK, "GPU 0", 1080, 1410);
}

/* Low since the beginning: only the peers show it. */
static void gpu_clocks_since_ever(struct world *w)
{
	slower_kernels(&w->sick, 1.3);
	w->sick.r.signal_count--;
	signal_add(&w->sick, OS_SIGNAL_GPU_SM_CLOCK, "GPU 0", 1080, 1080);
}

static void gpu_thermal(struct world *w)
{
	gpu_clocks(w);
	signal_add(&w->sick, OS_SIGNAL_GPU_THROTTLE, "heat (hardware limit) of GPU 0", 900, 0);
}

static void gpu_power(struct world *w)
{
	gpu_clocks(w);
	signal_add(&w->sick, OS_SIGNAL_GPU_THROTTLE, "power cap of GPU 0", 700, 0);
}

static void gpu_ecc(struct world *w)
{
	gpu_clocks(w);
	signal_add(&w->sick, OS_SIGNAL_GPU_ECC, "GPU 0", 20, 0);
}

static void gpu_kernel(struct world *w)
{
	one_kernel(&w->sick, 1, 1.5);
}

static void gpu_variant(struct world *w)
{
	w->sick.kernel[0].name = "_ZN7cutlass6KernelI4GemmILi64ELi64EEEEvT_";
	one_kernel(&w->sick, 0, 1.4);
}

static void gpu_variant_by_plain_name(struct world *w)
{
	w->sick.kernel[3].name = "volta_sgemm_32x32_nn";
	one_kernel(&w->sick, 3, 3);
}

static void gpu_variant_of_one_family(struct world *w)
{
	w->sick.kernel[3].name = "volta_sgemm_64x64_sliced1x2_tn";
	one_kernel(&w->sick, 3, 3);
}

static void gpu_copy(struct world *w)
{
	w->sick.r.copy_ns += 9 * MS;
	w->sick.r.self_ns += 9 * MS;
	w->sick.r.step_ns += 9 * MS;
}

static void cpu_function(struct world *w)
{
	late(&w->sick, 12);
	w->sick.r.cpu_ns += 12 * MS;
	find(&w->sick, "train_step (train.py)")->total_ns += 1 * MS;
	function(&w->sick, "hash_weights", FUNCTION_NATIVE, 12, 12, 12);
}

static void cpu_python(struct world *w)
{
	late(&w->sick, 12);
	w->sick.r.cpu_ns += 12 * MS;
	find(&w->sick, "train_step (train.py)")->total_ns += 12 * MS;
	find(&w->sick, "train_step (train.py)")->launch_ns += 12 * MS;
	function(&w->sick, "check_gradients (train.py)", FUNCTION_PYTHON, 11, 12, 12);
}

static void cpu_gil(struct world *w)
{
	late(&w->sick, 14);
	w->sick.r.cpu_ns += 60 * MS;
	w->sick.r.gil_wait_ns = 14 * MS;
	w->sick.r.gil_holder = "gil_hog (train.py) in thread hog";
	function(&w->sick, "gil_hog (train.py)", FUNCTION_PYTHON, 60, 60, 0);
}

/* The holder's own time is longer than the wait that it causes. */
static void cpu_gil_for_a_part(struct world *w)
{
	cpu_gil(w);
	late(&w->sick, 6);
	w->sick.r.gil_wait_ns = 11 * MS;
}

/* The wait is short beside a step, but not beside what was lost. */
static void cpu_gil_of_a_small_fault(struct world *w)
{
	late(&w->sick, 3);
	w->sick.r.gil_wait_ns = 1.9 * MS;
	w->sick.r.gil_holder = "gil_hog (train.py) in thread hog";
}

static void cpu_host_gap(struct world *w)
{
	late(&w->sick, 10);
}

static void os_softirq(struct world *w)
{
	late(&w->sick, 20);
	signal_add(&w->sick, OS_SIGNAL_SOFTIRQ_STOLEN, "NET_RX from thread python3 on CPU 1", 180,
		   1);
	signal_add(&w->sick, OS_SIGNAL_RUN_WAIT_THREAD, "python3", 190, 8);
}

static void os_softirq_by_ksoftirqd(struct world *w)
{
	late(&w->sick, 20);
	signal_add(&w->sick, OS_SIGNAL_RUN_WAIT_THREAD, "python3", 180, 8);
	signal_add(&w->sick, OS_SIGNAL_CPU_HOG, "ksoftirqd/1 (pid 21)", 180, 0);
	signal_add(&w->sick, OS_SIGNAL_SOFTIRQ_CPU, "NET_RX on CPU 1", 400, 2);
}

/* Soft interrupts take more of the CPU than any process, and every rank has hogs of its own. */
static void os_softirq_on_a_busy_node(struct world *w)
{
	late(&w->sick, 20);
	signal_add(&w->sick, OS_SIGNAL_RUN_WAIT_THREAD, "python3", 180, -1);
	signal_add(&w->sick, OS_SIGNAL_SOFTIRQ_CPU, "NET_RX on CPU 1, packets of veth1", 700, 20);
	signal_add(&w->sick, OS_SIGNAL_CPU_HOG, "cc1 (pid 9)", 90, 0);
	for (int i = 0; i < PEERS; i++)
		signal_add(&w->peer[i], OS_SIGNAL_CPU_HOG, "cc1 (pid 8)", 300, 0);
}

static void os_softirq_in_stacks(struct world *w)
{
	late(&w->sick, 20);
	w->sick.r.cpu_ns += 20 * MS;
	find(&w->sick, "train_step (train.py)")->launch_ns += 20 * MS;
	find(&w->sick, "train_step (train.py)")->total_ns += 20 * MS;
	find(&w->sick, "Layer.forward (model.py)")->launch_ns += 12 * MS;
	find(&w->sick, "Layer.forward (model.py)")->total_ns += 12 * MS;
	function(&w->sick, "net_rx_action", FUNCTION_KERNEL, 5, 20, 20);
}

/* Stacks show a little more of it, but not whose packets they are. */
static void os_softirq_in_stacks_and_signals(struct world *w)
{
	os_softirq_in_stacks(w);
	signal_add(&w->sick, OS_SIGNAL_SOFTIRQ_STOLEN,
		   "NET_RX from thread python3 on CPU 1, packets of veth1", 150, 1);
}

static void os_irq(struct world *w)
{
	late(&w->sick, 20);
	signal_add(&w->sick, OS_SIGNAL_IRQ_STOLEN, "from thread python3 on CPU 1", 170, 1);
	signal_add(&w->sick, OS_SIGNAL_IRQ_LINE, "34 (virtio0-input.0) on CPU 1", 170, 1);
}

static void os_run_queue(struct world *w)
{
	late(&w->sick, 20);
	signal_add(&w->sick, OS_SIGNAL_RUN_WAIT_THREAD, "python3", 180, 8);
	signal_add(&w->sick, OS_SIGNAL_CPU_HOG, "backup (pid 77)", 180, 0);
}

static void os_run_queue_of_a_small_fault(struct world *w)
{
	late(&w->sick, 2.5);
	signal_add(&w->sick, OS_SIGNAL_RUN_WAIT_THREAD, "python3", 20, 2);
}

static void os_cpu_limit(struct world *w)
{
	late(&w->sick, 20);
	signal_add(&w->sick, OS_SIGNAL_THROTTLED, "", 170, 0);
	signal_add(&w->sick, OS_SIGNAL_RUN_WAIT_THREAD, "python3", 200, 8);
}

/* The threads wait for the CPUs that are left. */
static void os_steal(struct world *w)
{
	late(&w->sick, 20);
	signal_add(&w->sick, OS_SIGNAL_STEAL, "", 160, 10);
	signal_add(&w->sick, OS_SIGNAL_RUN_WAIT_THREAD, "python3", 150, 8);
	signal_add(&w->sick, OS_SIGNAL_CPU_HOG, "simjob (pid 77)", 60, 0);
	for (int i = 0; i < PEERS; i++)
		signal_add(&w->peer[i], OS_SIGNAL_STEAL, "", 12, 10);
}

/* All are on one machine, and only one is slow: where anything else shows, that is why. */
static void os_steal_on_all(struct world *w)
{
	os_steal(w);
	for (int i = 0; i < PEERS; i++)
		signal_add(&w->peer[i], OS_SIGNAL_STEAL, "", 160, 10);
}

/* The job's own processes share the CPUs that are left: each waits for the others longer than before, and
 * by more than was taken. */
static void os_steal_of_job(struct world *w)
{
	w->kind = FINDING_UNIFORM;
	w->with_before = true;
	late(&w->sick, 20);
	signal_add(&w->sick, OS_SIGNAL_STEAL, "", 90, 2);
	signal_add(&w->sick, OS_SIGNAL_RUN_WAIT_THREAD, "python3", 330, 150);
	signal_add(&w->sick, OS_SIGNAL_CPU_HOG, "python3 (pid 77)", 200, 90);
}

/* Somebody new takes them, and the hypervisor some more. */
static void os_newcomer_and_steal(struct world *w)
{
	os_steal_of_job(w);
	signal_add(&w->sick, OS_SIGNAL_CPU_HOG, "backup (pid 78)", 150, 0);
}

/* In a few steps it meets some and not others. */
static void os_steal_alone(struct world *w)
{
	late(&w->sick, 20);
	signal_add(&w->sick, OS_SIGNAL_STEAL, "", 300, 25);
	for (int i = 0; i < PEERS; i++)
		signal_add(&w->peer[i], OS_SIGNAL_STEAL, "", 300, 25);
}

/* A few samples of a short time are no cause of what the machine's stops explain. */
static void a_function_in_few_steps_of_steal(struct world *w)
{
	late(&w->sick, 3);
	w->sick.r.steps = 10;
	w->sick.r.cpu_ns += 3 * MS;
	function(&w->sick, "share", FUNCTION_NATIVE, 3.1, 3.1, 3.1);
	signal_add(&w->sick, OS_SIGNAL_STEAL, "", 100, 19);
	for (int i = 0; i < PEERS; i++)
		signal_add(&w->peer[i], OS_SIGNAL_STEAL, "", 100, 19);
}

static void a_function_in_many_steps_of_steal(struct world *w)
{
	a_function_in_few_steps_of_steal(w);
	w->sick.r.steps = 200;
}

static void os_numa(struct world *w)
{
	late(&w->sick, 10);
	signal_add(&w->sick, OS_SIGNAL_PAGES_MIGRATED, "", 45000, 100);
}

/* Whatever a fault is about is done while it is handled. */
static void in_a_page_fault(struct world *w, const char *name)
{
	late(&w->sick, 12);
	w->sick.r.cpu_ns += 12 * MS;
	function(&w->sick, "asm_exc_page_fault", FUNCTION_KERNEL, 0.2, 12, 12);
	function(&w->sick, name, FUNCTION_KERNEL, 3, 11.4, 11.4);
}

static void os_numa_in_stacks(struct world *w)
{
	in_a_page_fault(w, "do_numa_page");
}

static void os_lock(struct world *w)
{
	late(&w->sick, 20);
	signal_add(&w->sick, OS_SIGNAL_LOCK_PLACE,
		   "d_alloc_parallel in lookup_open, also find (pid 7)", 160, 0);
	signal_add(&w->sick, OS_SIGNAL_RUN_WAIT_THREAD, "python3", 60, 8);
}

/* As seen on a busy machine: more of the wait was spun than slept. */
static void os_lock_that_is_spun_for(struct world *w)
{
	late(&w->sick, 46);
	signal_add(&w->sick, OS_SIGNAL_LOCK_PLACE,
		   "walk_component in path_lookupat, also find (pid 7)", 114, 0);
	w->sick.r.cpu_ns += 33 * MS;
	function(&w->sick, "access", FUNCTION_NATIVE, 1, 50, 50);
	function(&w->sick, "path_lookupat", FUNCTION_KERNEL, 30, 44, 44);
	for (int i = 0; i < PEERS; i++) {
		function(&w->peer[i], "access", FUNCTION_NATIVE, 1, 17, 17);
		function(&w->peer[i], "path_lookupat", FUNCTION_KERNEL, 3, 15, 15);
	}
}

/* It waits a little for a lock in a call that it makes three times as often, and computes in it besides. */
static void a_function_beside_a_lock(struct world *w)
{
	os_lock_that_is_spun_for(w);
	find(&w->sick, "path_lookupat")->total_ns = 25 * MS;
	find(&w->sick, "path_lookupat")->launch_ns = 25 * MS;
}

static void os_faults(struct world *w)
{
	late(&w->sick, 12);
	signal_add(&w->sick, OS_SIGNAL_FAULTS_MAJOR, "", 900, 0);
}

static void os_memory(struct world *w)
{
	late(&w->sick, 12);
	w->sick.r.cpu_ns += 12 * MS;
	function(&w->sick, "try_to_free_mem_cgroup_pages", FUNCTION_KERNEL, 3, 12, 12);
}

static void os_memory_in_faults(struct world *w)
{
	in_a_page_fault(w, "try_to_free_mem_cgroup_pages");
}

/* The others' pressure is another one. */
static void os_memory_beside_busy_peers(struct world *w)
{
	late(&w->sick, 36);
	signal_add(&w->sick, OS_SIGNAL_PRESSURE, "memory in its cgroup", 300, 0);
	signal_add(&w->sick, OS_SIGNAL_PRESSURE, "cpu in its cgroup", 900, 900);
	for (int i = 0; i < PEERS; i++)
		signal_add(&w->peer[i], OS_SIGNAL_PRESSURE, "cpu in its cgroup", 900, 900);
}

static void os_stopped(struct world *w)
{
	late(&w->sick, 60);
	function(&w->sick, "do_signal_stop", FUNCTION_KERNEL, 0, 0, 0)->off_ns = 58 * MS;
}

static void os_memory_bandwidth(struct world *w)
{
	late(&w->sick, 12);
	other_signal(&w->sick, "memory_bandwidth", "socket 0, mostly stream (pid 9)", 90, 20, true);
}

/* The same copies as ever, each longer. */
static void os_memory_bandwidth_in_copies(struct world *w)
{
	late(&w->sick, 30);
	w->sick.r.cpu_ns += 120 * MS;
	function(&w->sick, "copy_in", FUNCTION_NATIVE, 120, 120, 120);
	for (int i = 0; i < PEERS; i++) {
		w->peer[i].r.cpu_ns += 90 * MS;
		function(&w->peer[i], "copy_in", FUNCTION_NATIVE, 90, 90, 90);
	}
	other_signal(&w->sick, "memory_bandwidth", "socket 0, mostly stream (pid 9)", 90, 20, true);
}

/* All ranks wait longer, nobody is late. */
static void slow_transfer(struct world *w, double ms)
{
	struct fake *all[] = {&w->sick, &w->peer[0], &w->peer[1], &w->peer[2]};

	w->kind = FINDING_UNIFORM;
	w->with_before = true;
	for (int i = 0; i < 4; i++) {
		all[i]->r.comm_ns += ms * MS;
		all[i]->r.exposed_comm_ns += ms * MS;
		all[i]->r.step_ns += ms * MS;
	}
}

static void net_transfer(struct world *w)
{
	slow_transfer(w, 9);
}

static void net_retransmits(struct world *w)
{
	slow_transfer(w, 9);
	signal_add(&w->sick, OS_SIGNAL_RETRANSMITS, "10.0.0.1:500 to 10.0.0.2:600", 80, 0);
	signal_add(&w->sick, OS_SIGNAL_RETRANSMIT_WAIT, "10.0.0.1:500 to 10.0.0.2:600", 400, 0);
}

/* The same in a job without GPU work, whose steps have nothing but a step time. */
static void net_retransmits_without_gpu(struct world *w)
{
	struct fake *all[] = {&w->sick, &w->peer[0], &w->peer[1], &w->peer[2], &w->before};

	net_retransmits(w);
	for (int i = 0; i < 5; i++) {
		struct diagnosis_rank *r = &all[i]->r;

		r->compute_ns = r->comm_ns = r->exposed_comm_ns = r->copy_ns = r->idle_ns = 0;
		r->self_ns = r->step_ns;
		r->kernel_count = 0;
		r->kernels = 0;
	}
}

/* A few steps lost nearly all of the time, so the mean is far above the median. */
static void net_retransmits_in_few_steps(struct world *w)
{
	net_retransmits_without_gpu(w);
	w->sick.signal[w->sick.r.signal_count - 1].value = 900; /* ms/s */
	w->sick.r.lost_ns = 1000 * MS;
}

/* They cost a tenth of the time that was lost. */
static void net_transfer_with_retransmits(struct world *w)
{
	slow_transfer(w, 9);
	signal_add(&w->sick, OS_SIGNAL_RETRANSMITS, "10.0.0.1:500 to 10.0.0.2:600", 80, 0);
	signal_add(&w->sick, OS_SIGNAL_RETRANSMIT_WAIT, "10.0.0.1:500 to 10.0.0.2:600", 10, 0);
}

/* A link without a socket of ours, such as InfiniBand: only its transfers say that it is slow. */
static void net_link(struct world *w)
{
	slow_transfer(w, 9);
	signal_add(&w->sick, OS_SIGNAL_LINK_TIME, "2 to 3 of communicator c0ffee", 180, 4);
	signal_add(&w->sick, OS_SIGNAL_LINK_WAIT, "2 to 3 of communicator c0ffee", 400, 0);
}

/* Its transfers lost a tenth of the time. */
static void net_transfer_beside_a_link(struct world *w)
{
	slow_transfer(w, 9);
	signal_add(&w->sick, OS_SIGNAL_LINK_TIME, "2 to 3 of communicator c0ffee", 180, 4);
	signal_add(&w->sick, OS_SIGNAL_LINK_WAIT, "2 to 3 of communicator c0ffee", 10, 0);
}

/* Both: retransmits say why. */
static void net_retransmits_on_a_link(struct world *w)
{
	net_retransmits(w);
	signal_add(&w->sick, OS_SIGNAL_LINK_TIME, "2 to 3 of communicator c0ffee", 180, 4);
	signal_add(&w->sick, OS_SIGNAL_LINK_WAIT, "2 to 3 of communicator c0ffee", 400, 0);
}

static void blocked(struct world *w, double ms)
{
	late(&w->sick, ms);
	w->sick.r.off_ns += ms * MS;
	find(&w->sick, "filemap_read")->off_ns = ms * MS;
	find(&w->sick, "train_step (train.py)")->off_ns = ms * MS;
}

static void storage_disk(struct world *w)
{
	blocked(w, 15);
	signal_add(&w->sick, OS_SIGNAL_IO_WAIT_THREAD, "python3", 130, 0);
	signal_add(&w->sick, OS_SIGNAL_DISK_LATENCY, "reads of vda", 40, 1);
}

static void storage_disk_that_answers_fast(struct world *w)
{
	blocked(w, 15);
	signal_add(&w->sick, OS_SIGNAL_IO_WAIT_THREAD, "python3", 130, 0);
	signal_add(&w->sick, OS_SIGNAL_IO_LATENCY, "", 0.6, 0.6);
}

static void storage_limit_by_the_cgroup(struct world *w)
{
	blocked(w, 15);
	signal_add(&w->sick, OS_SIGNAL_IO_WAIT_THREAD, "python3", 130, 0);
	signal_add(&w->sick, OS_SIGNAL_IO_LIMIT, "vda", 99, 0);
}

static void storage_loader(struct world *w)
{
	late(&w->sick, 15);
	w->sick.r.off_ns += 15 * MS;
	find(&w->sick, "DataLoader.__next__ (dataloader.py)")->off_ns = 15 * MS;
	find(&w->sick, "train_step (train.py)")->off_ns = 15 * MS;
}

static void storage_client(struct world *w)
{
	storage_loader(w);
	w->sick.r.cpu_ns += 70 * MS;
	find(&w->sick, "BZ2_bzDecompress")->self_ns += 70 * MS;
	find(&w->sick, "BZ2_bzDecompress")->total_ns += 70 * MS;
	signal_add(&w->sick, OS_SIGNAL_RUN_WAIT_THREAD, "python3", 120, 8);
}

static void everywhere(struct world *w)
{
	w->kind = FINDING_UNIFORM;
	w->with_before = true;
	w->sick.r.cpu_ns += 9 * MS;
	late(&w->sick, 9);
	w->sick.r.exposed_comm_ns = 8 * MS;
	find(&w->sick, "train_step (train.py)")->total_ns += 9 * MS;
	find(&w->sick, "train_step (train.py)")->launch_ns += 9 * MS;
}

static void sw_hot_path(struct world *w)
{
	everywhere(w);
	function(&w->sick, "validate_batch (train.py)", FUNCTION_PYTHON, 9, 9, 9);
}

static void sw_logging(struct world *w)
{
	everywhere(w);
	find(&w->sick, "Logger.info (logger.py)")->total_ns += 8.5 * MS;
	find(&w->sick, "Logger.info (logger.py)")->launch_ns += 8.5 * MS;
}

static void sw_kernels(struct world *w)
{
	w->kind = FINDING_UNIFORM;
	w->with_before = true;
	gpu_variant(w);
}

static void sw_slower(struct world *w)
{
	w->kind = FINDING_UNIFORM;
	w->with_before = true;
	w->sick.r.self_ns += 9 * MS;
	w->sick.r.step_ns += 9 * MS;
}

static void sw_environment(struct world *w)
{
	w->sick.setting[1].value = "2.4.1";
	w->sick.r.self_ns += 5 * MS;
	w->sick.r.step_ns += 5 * MS;
}

static void sw_environment_by_kernels(struct world *w)
{
	kernel(&w->sick, "_ZN5extra6kernelEv", 50, 8, 1);
	w->sick.r.compute_ns += 8 * MS;
	w->sick.r.self_ns += 8 * MS;
	w->sick.r.step_ns += 8 * MS;
	w->sick.r.kernels += 50;
}

static void imbalance_input(struct world *w)
{
	for (uint32_t i = 0; i < 4; i++) {
		w->sick.kernel[i].count *= 1.2;
		w->sick.kernel[i].total_ns *= 1.2;
	}
	w->sick.r.compute_ns *= 1.2;
	w->sick.r.self_ns += 12 * MS;
	w->sick.r.step_ns += 12 * MS;
	w->sick.r.kernels *= 1.2;
}

static void imbalance_stage(struct world *w)
{
	w->kind = FINDING_IMBALANCE;
	w->known = CAUSE_IMBALANCE_STAGE;
	slower_kernels(&w->sick, 1.2);
}

static void hang(struct world *w, enum finding_cause known)
{
	w->kind = FINDING_HANG;
	w->known = known;
}

static void hang_missing(struct world *w)
{
	hang(w, CAUSE_HANG_MISSING);
}

static void hang_mismatch(struct world *w)
{
	hang(w, CAUSE_HANG_MISMATCH);
}

static void hang_kernel(struct world *w)
{
	hang(w, CAUSE_HANG_KERNEL);
}

static void hang_transfer(struct world *w)
{
	hang(w, CAUSE_HANG_TRANSFER);
}

static const struct fault {
	enum finding_cause cause;
	void (*make)(struct world *w);
	const char *named; /* stands in the summary or the first line of evidence */
} faults[] = {
    {CAUSE_GPU_SLOW, gpu_slow, "1.30 times"},
    {CAUSE_GPU_CLOCKS, gpu_clocks, "SM clock"},
    {CAUSE_GPU_CLOCKS, gpu_clocks_since_ever, "1080"},
    {CAUSE_GPU_THERMAL, gpu_thermal, "heat"},
    {CAUSE_GPU_POWER, gpu_power, "power cap"},
    {CAUSE_GPU_ECC, gpu_ecc, "memory errors"},
    {CAUSE_GPU_KERNEL, gpu_kernel, "kernel flash::attention<64, 2> takes 1.50"},
    {CAUSE_GPU_VARIANT, gpu_variant,
     "Gemm<64, 64> > runs in place of cutlass::Kernel<Gemm<128, 128> >"},
    {CAUSE_GPU_VARIANT, gpu_variant_by_plain_name, "32x32"},
    {CAUSE_GPU_VARIANT, gpu_variant_of_one_family, "64x64_sliced1x2"},
    {CAUSE_GPU_COPY, gpu_copy, "11.0 ms"},
    {CAUSE_CPU_FUNCTION, cpu_function, "hash_weights"},
    {CAUSE_CPU_PYTHON, cpu_python, "check_gradients (train.py)"},
    {CAUSE_CPU_GIL, cpu_gil, "gil_hog"},
    {CAUSE_CPU_GIL, cpu_gil_for_a_part, "gil_hog"},
    {CAUSE_CPU_GIL, cpu_gil_of_a_small_fault, "gil_hog"},
    {CAUSE_CPU_HOST_GAP, cpu_host_gap, "launches late"},
    {CAUSE_OS_SOFTIRQ, os_softirq, "NET_RX"},
    {CAUSE_OS_SOFTIRQ, os_softirq_by_ksoftirqd, "NET_RX on CPU 1"},
    {CAUSE_OS_SOFTIRQ, os_softirq_on_a_busy_node, "veth1"},
    {CAUSE_OS_SOFTIRQ, os_softirq_in_stacks, "net_rx_action"},
    {CAUSE_OS_SOFTIRQ, os_softirq_in_stacks_and_signals, "veth1"},
    {CAUSE_OS_IRQ, os_irq, "virtio0-input.0"},
    {CAUSE_OS_RUN_QUEUE, os_run_queue, "backup (pid 77)"},
    {CAUSE_OS_RUN_QUEUE, os_run_queue_of_a_small_fault, "python3"},
    {CAUSE_OS_CPU_LIMIT, os_cpu_limit, "CPU limit"},
    {CAUSE_OS_NUMA, os_numa, "NUMA"},
    {CAUSE_OS_NUMA, os_numa_in_stacks, "do_numa_page"},
    {CAUSE_OS_LOCK, os_lock, "find (pid 7)"},
    {CAUSE_OS_LOCK, os_lock_that_is_spun_for, "find (pid 7)"},
    {CAUSE_CPU_FUNCTION, a_function_beside_a_lock, "access"},
    {CAUSE_OS_FAULTS, os_faults, "page faults"},
    {CAUSE_OS_MEMORY, os_memory, "try_to_free_mem_cgroup_pages"},
    {CAUSE_OS_MEMORY, os_memory_in_faults, "try_to_free_mem_cgroup_pages"},
    {CAUSE_OS_MEMORY, os_memory_beside_busy_peers, "some task of its cgroup waits for memory"},
    {CAUSE_OS_MEMORY_BANDWIDTH, os_memory_bandwidth, "stream (pid 9)"},
    {CAUSE_OS_MEMORY_BANDWIDTH, os_memory_bandwidth_in_copies, "stream (pid 9)"},
    {CAUSE_OS_STOPPED, os_stopped, "do_signal_stop"},
    {CAUSE_OS_STEAL, os_steal, "hypervisor"},
    {CAUSE_OS_RUN_QUEUE, os_steal_on_all, "simjob (pid 77)"},
    {CAUSE_OS_STEAL, os_steal_alone, "hypervisor"},
    {CAUSE_OS_STEAL, os_steal_of_job, "hypervisor"},
    {CAUSE_OS_STEAL, a_function_in_few_steps_of_steal, "hypervisor"},
    {CAUSE_CPU_FUNCTION, a_function_in_many_steps_of_steal, "share"},
    {CAUSE_OS_RUN_QUEUE, os_newcomer_and_steal, "backup (pid 78)"},
    {CAUSE_NET_TRANSFER, net_transfer, "transfers take longer"},
    {CAUSE_NET_RETRANSMITS, net_retransmits, "10.0.0.2:600"},
    {CAUSE_NET_RETRANSMITS, net_retransmits_without_gpu, "10.0.0.2:600"},
    {CAUSE_NET_RETRANSMITS, net_retransmits_in_few_steps, "10.0.0.2:600"},
    {CAUSE_NET_TRANSFER, net_transfer_with_retransmits, "transfers take longer"},
    {CAUSE_NET_LINK, net_link, "2 to 3 of communicator c0ffee"},
    {CAUSE_NET_TRANSFER, net_transfer_beside_a_link, "transfers take longer"},
    {CAUSE_NET_RETRANSMITS, net_retransmits_on_a_link, "10.0.0.2:600"},
    {CAUSE_STORAGE_DISK, storage_disk, "vda"},
    {CAUSE_STORAGE_DISK, storage_disk_that_answers_fast, "0.6 ms"},
    {CAUSE_STORAGE_LIMIT, storage_limit_by_the_cgroup, "I/O limit"},
    {CAUSE_STORAGE_LOADER, storage_loader, "DataLoader.__next__"},
    {CAUSE_STORAGE_CLIENT, storage_client, "BZ2_bzDecompress"},
    {CAUSE_SW_HOT_PATH, sw_hot_path, "validate_batch (train.py)"},
    {CAUSE_SW_LOGGING, sw_logging, "Logger.info"},
    {CAUSE_SW_KERNELS, sw_kernels, "cutlass"},
    {CAUSE_SW_SLOWER, sw_slower, ""},
    {CAUSE_SW_ENVIRONMENT, sw_environment, "torch"},
    {CAUSE_SW_ENVIRONMENT, sw_environment_by_kernels, "mostly extra::kernel"},
    {CAUSE_IMBALANCE_INPUT, imbalance_input, "480 compute kernels|more of the same"},
    {CAUSE_IMBALANCE_STAGE, imbalance_stage, ""},
    {CAUSE_HANG_MISSING, hang_missing, ""},
    {CAUSE_HANG_MISMATCH, hang_mismatch, ""},
    {CAUSE_HANG_KERNEL, hang_kernel, ""},
    {CAUSE_HANG_TRANSFER, hang_transfer, ""},
};

static bool is_named(const char *word)
{
	size_t n = strcspn(word, "|");
	char first[64];

	snprintf(first, sizeof(first), "%.*s", (int)n, word);
	if (strstr(out.summary, first) ||
	    (out.evidence_count && strstr(out.evidence[0].text, first)))
		return true;
	return word[n] && is_named(word + n + 1);
}

static void names_every_cause_where_it_is(void **unused)
{
	static struct world w;
	unsigned wrong = 0;

	for (size_t i = 0; i < sizeof(faults) / sizeof(*faults); i++) {
		build(&w);
		faults[i].make(&w);
		judge(&w);
		if (out.cause == faults[i].cause && is_named(faults[i].named) && out.remedy[0] &&
		    (out.confidence >= 0.3 || out.cause == CAUSE_CPU_HOST_GAP))
			continue;
		wrong++;
		print_message("# fault %zu: %s, not %s, confidence %.2f: %s | %s\n", i,
			      finding_cause_id(out.cause), finding_cause_id(faults[i].cause),
			      out.confidence, out.summary,
			      out.evidence_count ? out.evidence[0].text : "");
	}
	assert_int_equal(wrong, 0);
}

/* Causes that only a ledger shows: test_diagnosis_ledger has them. */
static const enum finding_cause by_ledger[] = {CAUSE_GPU_QUEUE, CAUSE_CPU_LOCK, CAUSE_CPU_PROCESS,
					       CAUSE_CPU_SLEEP, CAUSE_NET_WAIT, CAUSE_STORAGE_SYNC,
					       CAUSE_SW_OUTPUT};

/* Causes of requests that missed an objective: test_fleet has them. */
static const enum finding_cause by_requests[] = {
    CAUSE_REQUEST_API,	 CAUSE_REQUEST_QUEUE,  CAUSE_REQUEST_PREFILL, CAUSE_REQUEST_DECODE,
    CAUSE_REQUEST_PAUSE, CAUSE_REQUEST_OUTPUT, CAUSE_REQUEST_DRAFTS,  CAUSE_REQUEST_TRANSFER};

/* Every cause of the catalogue but "unknown" has a fault above. */
static void every_cause_of_the_catalogue_has_its_fault(void **unused)
{
	for (int c = CAUSE_UNKNOWN + 1; c < CAUSE_COUNT; c++) {
		bool has = false;

		for (size_t i = 0; i < sizeof(faults) / sizeof(*faults); i++)
			has |= faults[i].cause == (enum finding_cause)c;
		for (size_t i = 0; i < sizeof(by_ledger) / sizeof(*by_ledger); i++)
			has |= by_ledger[i] == (enum finding_cause)c;
		for (size_t i = 0; i < sizeof(by_requests) / sizeof(*by_requests); i++)
			has |= by_requests[i] == (enum finding_cause)c;
		if (!has)
			fail_msg("no fault for %s", finding_cause_id((enum finding_cause)c));
	}
}

/* The twin: the same kind of question, and nothing wrong. */
static void names_no_cause_where_none_is(void **unused)
{
	static struct world w, twin;

	for (size_t i = 0; i < sizeof(faults) / sizeof(*faults); i++) {
		build(&w);
		faults[i].make(&w);
		build(&twin);
		twin.kind = w.kind;
		twin.with_before = w.with_before;
		judge(&twin);
		if (out.cause != CAUSE_UNKNOWN && out.cause != CAUSE_SW_SLOWER &&
		    out.confidence > 0.3)
			fail_msg("twin of %s: %s, %s", finding_cause_id(faults[i].cause),
				 finding_cause_id(out.cause), out.summary);
		if (out.cause == faults[i].cause && faults[i].cause != CAUSE_SW_SLOWER)
			fail_msg("twin of %s is called so", finding_cause_id(faults[i].cause));
	}
}

/* The fault is everybody's: no reason why one is slow. */
static void what_peers_have_too_is_not_the_cause(void **unused)
{
	static struct world w;

	build(&w);
	late(&w.sick, 20);
	signal_add(&w.sick, OS_SIGNAL_SOFTIRQ_STOLEN, "NET_RX from thread python3 on CPU 1", 180,
		   1);
	for (int i = 0; i < PEERS; i++)
		signal_add(&w.peer[i], OS_SIGNAL_SOFTIRQ_STOLEN,
			   "NET_RX from thread python3 on CPU 2", 175, 1);
	judge(&w);
	assert_int_equal(out.cause, CAUSE_CPU_HOST_GAP);
}

static bool rules_out(enum finding_layer layer)
{
	for (uint32_t i = 0; i < out.ruled_out_count; i++)
		if (out.ruled_out[i].layer == layer)
			return true;
	return false;
}

static bool shows(enum finding_layer layer)
{
	for (uint32_t i = 0; i < out.evidence_count; i++)
		if (out.evidence[i].layer == layer)
			return true;
	return false;
}

/* What the kernel does about the memory of a rank, and what one of it costs. */
static const struct memory_signal {
	enum os_signal_kind kind;
	enum finding_cause cause;
	const char *subject, *evidence, *remedy;
	double usual, each_ns;
} memory_signals[] = {
    {OS_SIGNAL_FAULTS, CAUSE_OS_FAULTS, "", "page faults: ", "huge pages", 300, 1e3},
    {OS_SIGNAL_FAULTS_MAJOR, CAUSE_OS_FAULTS, "", "read from storage", "file-backed", 0, 1e5},
    {OS_SIGNAL_PAGES_MIGRATED, CAUSE_OS_NUMA, "", "between NUMA nodes", "NUMA balancing", 0, 2e3},
    {OS_SIGNAL_NUMA_MOVES, CAUSE_OS_NUMA, "", "by NUMA balancing", "GPU's node", 0, 5e4},
    {OS_SIGNAL_NODE_MIGRATIONS, CAUSE_OS_NUMA, "", "another NUMA node", "GPU's node", 0, 5e4},
    {OS_SIGNAL_PRESSURE, CAUSE_OS_MEMORY, "memory in its cgroup", "for memory in its cgroup",
     "memory limit", 0, 1e6},
    {OS_SIGNAL_PRESSURE, CAUSE_OS_MEMORY, "memory", "some task waited for memory", "free memory", 0,
     1e6},
};
#define MEMORY_SIGNALS (sizeof(memory_signals) / sizeof(*memory_signals))

/* The rank is late by so much, of which the signal explains so much; share: what its peers have of it. */
static void judge_memory(const struct memory_signal *m, double late_ms, double explained_ms,
			 double share)
{
	static struct world w;
	double value;

	build(&w);
	late(&w.sick, late_ms);
	value = explained_ms * MS / m->each_ns / (w.sick.r.step_ns * 1e-9);
	signal_add(&w.sick, m->kind, m->subject, m->usual + value, m->usual);
	for (int i = 0; i < PEERS && share > 0; i++)
		signal_add(&w.peer[i], m->kind, m->subject, m->usual + share * value, m->usual);
	judge(&w);
}

static void memory_is_the_cause_where_it_explains_the_loss(void **unused)
{
	for (size_t i = 0; i < MEMORY_SIGNALS; i++) {
		const struct memory_signal *m = &memory_signals[i];

		judge_memory(m, 36, 32, 0);
		assert_string_equal(finding_cause_id(out.cause), finding_cause_id(m->cause));
		assert_int_equal(finding_cause_layer(out.cause), LAYER_OS);
		assert_float_equal(out.effect_ns, 32 * MS, 0.1 * MS);
		assert_int_equal(out.evidence[0].layer, LAYER_OS);
		assert_non_null(strstr(out.evidence[0].text, m->evidence));
		assert_float_equal(out.evidence[0].effect_ns, 32 * MS, 0.1 * MS);
		assert_non_null(strstr(out.remedy, m->remedy));
		assert_true(out.confidence > 0.5);
	}
}

static void memory_that_peers_lack_as_much_is_not_the_cause(void **unused)
{
	for (size_t i = 0; i < MEMORY_SIGNALS; i++) {
		judge_memory(&memory_signals[i], 36, 32, 0.9);
		assert_int_equal(out.cause, CAUSE_CPU_HOST_GAP);
		assert_true(rules_out(LAYER_OS));
	}
}

static void memory_that_explains_far_less_is_not_the_cause(void **unused)
{
	for (size_t i = 0; i < MEMORY_SIGNALS; i++) {
		judge_memory(&memory_signals[i], 1000, 150, 0);
		assert_int_equal(out.cause, CAUSE_CPU_HOST_GAP);
		assert_true(rules_out(LAYER_OS) != shows(LAYER_OS)); /* with its figure */
	}
}

/* A rank that waits for a CPU is ruled out only because others wait too, so the report shows these. */
static void what_peers_wait_for_as_long_is_ruled_out_with_their_figure(void **unused)
{
	static struct world w;
	bool said = false;

	build(&w);
	slower_kernels(&w.sick, 1.3);
	w.sick.r.signal_count = 0;
	signal_add(&w.sick, OS_SIGNAL_RUN_WAIT, "", 500, 22);
	for (int i = 0; i < PEERS; i++) {
		w.peer[i].r.signal_count = 0;
		signal_add(&w.peer[i], OS_SIGNAL_RUN_WAIT, "", 480, 22);
	}
	judge(&w);
	for (uint32_t i = 0; i < out.ruled_out_count; i++)
		said |= strstr(out.ruled_out[i].text,
			       "waited 500 ms/s (usually 22) for a CPU, its peers' threads 480") !=
			NULL;
	assert_true(said);
}

/* The slow steps launch half as many again as the median one did before. Detection expects that of the
 * job, whose launches vary: it measured 10 ms as lost, and not 30. */
static void work_that_detection_expects_is_no_loss(void **unused)
{
	for (int expected = 0; expected < 2; expected++) {
		struct world w;

		build(&w);
		w.kind = FINDING_UNIFORM;
		w.with_before = true;
		late(&w.sick, 30);
		w.sick.r.kernels *= 1.53;
		w.sick.r.lost_ns = (expected ? 10 : 30) * MS;
		signal_add(&w.sick, OS_SIGNAL_RUN_WAIT_THREAD, "python3", 90, 5);
		judge(&w);
		assert_int_equal(out.cause, expected ? CAUSE_OS_RUN_QUEUE : CAUSE_SW_KERNELS);
	}
}

/* A busy host that does not hold the GPU up is no cause of slow kernels. */
static void a_signal_explains_no_slow_kernels(void **unused)
{
	static struct world w;

	build(&w);
	slower_kernels(&w.sick, 1.3);
	signal_add(&w.sick, OS_SIGNAL_RUN_WAIT_THREAD, "python3", 300, 8);
	signal_add(&w.sick, OS_SIGNAL_CPU_HOG, "backup (pid 77)", 300, 0);
	judge(&w);
	assert_int_equal(out.cause, CAUSE_GPU_SLOW);
}

/* Compilers run one after the other: the one that ran longest took a twentieth of the wait. */
static void a_task_that_took_little_of_the_wait_is_not_named(void **unused)
{
	static struct world w;

	build(&w);
	late(&w.sick, 20);
	signal_add(&w.sick, OS_SIGNAL_RUN_WAIT_THREAD, "python3", 500, 8);
	signal_add(&w.sick, OS_SIGNAL_CPU_HOG, "sysomd (pid 77)", 25, 0);
	judge(&w);
	assert_int_equal(out.cause, CAUSE_OS_RUN_QUEUE);
	assert_null(strstr(out.summary, "sysomd"));
	assert_null(strstr(out.remedy, "sysomd"));
}

static void kernels_are_not_alike_if_one_of_them_differs(void **unused)
{
	static struct world w;

	for (int differs = 0; differs < 2; differs++) {
		bool said = false;

		build(&w);
		w.kind = FINDING_UNIFORM;
		w.with_before = true;
		late(&w.sick, 40);
		if (differs)
			w.sick.kernel[3].total_ns *= 3;
		judge(&w);
		assert_true(rules_out(LAYER_GPU));
		for (uint32_t i = 0; i < out.ruled_out_count; i++)
			said |= strstr(out.ruled_out[i].text, "no single kernel differs") != NULL;
		assert_true(said == !differs);
	}
}

/* Their finding has the cause: the windows of the time are of whoever was asked. */
static void late_requests_compare_no_rank(void **unused)
{
	static struct world w;

	build(&w);
	late(&w.sick, 20);
	w.kind = FINDING_REQUESTS;
	w.without_peers = true;
	judge(&w);
	assert_int_equal(out.cause, CAUSE_UNKNOWN); /* the finding has it */
	assert_int_equal(out.evidence_count, 0);
	assert_int_equal(out.missing_count, 0);
	assert_false(out.by_ledger);
}

/* However red it is. */
static void a_signal_is_no_cause_where_nothing_was_lost(void **unused)
{
	static struct world w;

	build(&w);
	late(&w.sick, -1);
	signal_add(&w.sick, OS_SIGNAL_SOFTIRQ_STOLEN, "NET_RX from thread python3 on CPU 1", 180,
		   1);
	judge(&w);
	assert_int_equal(out.cause, CAUSE_UNKNOWN);
	assert_false(shows(LAYER_OS));
}

/* Figures are a ledger of a few accounts: the causes' parts add up to what was lost. */
static void two_causes_share_the_excess_of_figures(void **unused)
{
	static struct world w;

	build(&w);
	gpu_copy(&w);	  /* 9 ms */
	os_run_queue(&w); /* 20 ms; the signal measures more */
	judge(&w);
	assert_int_equal(out.cause, CAUSE_OS_RUN_QUEUE);
	assert_float_equal(out.effect_ns, 20 * MS, .2 * MS);
	assert_float_equal(out.confidence, .86, .02); /* of 20 / 29 */
	assert_true(shows(LAYER_GPU));
	build(&w);
	gpu_copy(&w);
	late(&w.sick, 5);
	judge(&w);
	assert_int_equal(out.cause, CAUSE_GPU_COPY);
	assert_float_equal(out.confidence, .80, .02); /* of 9 / 14 */
}

/* A rank that was slow before the fault got worse: its peers show all of it. */
static void a_past_with_half_of_the_fault_is_no_reference(void **unused)
{
	struct world w;

	build(&w);
	late(&w.sick, 20);
	late(&w.before, 10);
	w.with_before = true;
	judge(&w);
	assert_float_equal(out.effect_ns, 20 * MS, .5 * MS);
}

/* A lock and a disk each explain all of it; one of them does so by chance. Waits for a CPU may have the
 * lock as their cause. */
static void what_explains_as_much_makes_a_cause_less_sure(void **unused)
{
	static const enum os_signal_kind rivals[] = {OS_SIGNAL_RUN_WAIT_THREAD,
						     OS_SIGNAL_IO_WAIT_THREAD};
	double alone;
	struct world w;

	build(&w);
	os_lock(&w);
	judge(&w);
	alone = out.confidence;
	for (size_t i = 0; i < 2; i++) {
		build(&w);
		os_lock(&w);
		signal_add(&w.sick, rivals[i], "python3", 150, 0);
		judge(&w);
		assert_int_equal(out.cause, CAUSE_OS_LOCK);
		assert_float_equal(out.confidence, i ? .6 : alone, i ? .1 : 1e-9);
	}
}

static void mostly_idle(struct fake *f)
{
	f->r.compute_ns *= 0.1;
	f->r.idle_ns += 54 * MS;
	for (uint32_t i = 0; i < f->r.kernel_count; i++)
		f->kernel[i].total_ns *= 0.1;
}

/* A cause explains a fifth of the excess at least. That the host is late, and nobody saw why, is no cause
 * beside what was seen, nor are kernels that explain next to nothing of it. */
static void slower_kernels_are_the_gpus_though_it_waits_longer_too(void **unused)
{
	static struct world w;

	for (int longer = 0; longer < 2; longer++) {
		build(&w);
		mostly_idle(&w.sick);
		for (int i = 0; i < PEERS; i++)
			mostly_idle(&w.peer[i]);
		slower_kernels(&w.sick, 1.5);
		late(&w.sick, longer ? 40 : 10);
		judge(&w);
		assert_int_equal(out.cause, longer ? CAUSE_CPU_HOST_GAP : CAUSE_GPU_SLOW);
	}
}

/* What the steps before were like is no reason for a rank to stop. */
static void a_rank_that_stands_still_is_not_explained_by_its_last_steps(void **unused)
{
	static struct world w;

	build(&w);
	w.kind = FINDING_HANG;
	w.sick.r.exposed_comm_ns += 30 * MS;
	w.sick.r.step_ns += 30 * MS;
	late(&w.sick, 20);
	slower_kernels(&w.sick, 1.2);
	judge(&w);
	assert_int_equal(out.cause, CAUSE_UNKNOWN);
	assert_int_equal(out.evidence_count, 0);
	for (uint32_t i = 0; i < out.ruled_out_count; i++)
		assert_true(out.ruled_out[i].layer != LAYER_NETWORK &&
			    out.ruled_out[i].layer != LAYER_GPU &&
			    out.ruled_out[i].layer != LAYER_CPU);
	assert_non_null(strstr(out.missing[0], "entered which collective"));
}

static void rules_out_the_other_layers_with_figures(void **unused)
{
	static struct world w;

	build(&w);
	os_softirq(&w);
	judge(&w);
	assert_true(rules_out(LAYER_GPU));
	assert_true(rules_out(LAYER_CPU));
	assert_true(rules_out(LAYER_NETWORK));
	assert_true(rules_out(LAYER_STORAGE));
	assert_true(rules_out(LAYER_SOFTWARE));
	assert_false(rules_out(LAYER_OS));
	for (uint32_t i = 0; i < out.ruled_out_count; i++)
		assert_non_null(strpbrk(out.ruled_out[i].text, "0123456789"));
	assert_int_equal(out.missing_count, 0);
	assert_non_null(strstr(out.remedy, "CPU 1"));
	assert_true(out.effect_ns > 15 * MS && out.effect_ns < 25 * MS);
	assert_non_null(strstr(out.summary, "rank 5"));
	w.sick.r.rank = -1;
	w.without_peers = true;
	judge(&w);
	assert_true(out.missing_count > 0);
	assert_int_equal(strncmp(out.summary, "a process without a rank is slow because ", 41), 0);
	for (uint32_t i = 0; i < out.missing_count; i++)
		assert_null(strstr(out.missing[i], "-1"));
}

/* The name is the thread's own. */
static void a_threads_name_redirects_no_remedy(void **unused)
{
	static struct world w;

	build(&w);
	late(&w.sick, 20);
	signal_add(&w.sick, OS_SIGNAL_SOFTIRQ_STOLEN, "NET_RX from thread a on CPU 9 on CPU 1", 180,
		   1);
	w.sick.signal[w.sick.r.signal_count - 1].cpu = 2;
	judge(&w);
	assert_int_equal(out.cause, CAUSE_OS_SOFTIRQ);
	assert_non_null(strstr(out.remedy, "CPU 1 "));
	assert_null(strstr(out.remedy, "CPU 9"));
	assert_non_null(strstr(out.summary, "interrupts run on CPU 1 in place of"));
	assert_non_null(strstr(out.summary, "thread a on CPU 9"));
}

static void names_the_device_of_a_storm_in_the_remedy(void **unused)
{
	static struct world w;

	build(&w);
	late(&w.sick, 20);
	signal_add(&w.sick, OS_SIGNAL_SOFTIRQ_STOLEN,
		   "NET_RX from thread python3 on CPU 1, packets of veth-storm", 180, 1);
	judge(&w);
	assert_int_equal(out.cause, CAUSE_OS_SOFTIRQ);
	assert_non_null(strstr(out.remedy, "CPU 1 "));
	assert_non_null(strstr(out.remedy, "rps_cpus of veth-storm"));
	assert_non_null(strstr(out.summary, "veth-storm"));
	assert_non_null(strstr(out.summary, "launch thread python3"));
}

static void names_who_to_stop_for_a_lock(void **unused)
{
	static const char *const subjects[] = {
	    "d_alloc_parallel in lookup_open, also find (pid 7)",
	    "d_alloc_parallel in lookup_open, which is shared with find (pid 7)",
	};
	static struct world w;

	for (int i = 0; i < 2; i++) {
		build(&w);
		late(&w.sick, 20);
		signal_add(&w.sick, OS_SIGNAL_LOCK_PLACE, subjects[i], 160, 0);
		judge(&w);
		assert_int_equal(out.cause, CAUSE_OS_LOCK);
		assert_string_equal(out.remedy,
				    "stop or move find (pid 7), which takes the same lock");
	}
}

static void says_what_is_missing_and_is_less_sure(void **unused)
{
	static struct world w;
	double sure, less;

	build(&w);
	os_softirq(&w);
	judge(&w);
	sure = out.confidence;
	for (int i = 0; i < PEERS; i++)
		w.peer[i].r.samples = w.peer[i].r.function_count = 0;
	w.sick.r.samples = w.sick.r.function_count = 0;
	judge(&w);
	assert_int_equal(out.cause, CAUSE_OS_SOFTIRQ);
	assert_true(out.confidence < sure);
	assert_true(out.missing_count > 0);
	less = out.confidence;
	w.without_peers = true;
	judge(&w);
	assert_int_equal(out.cause, CAUSE_OS_SOFTIRQ);
	assert_true(out.missing_count > 1);
	assert_true(out.confidence < less);
	assert_true(1 - out.confidence > 1.5 * (1 - sure)); /* wrong at least half as often again */
}

/* Nothing but zeros and "not known" must be handled, too. */
static void knows_nothing_of_nothing(void **unused)
{
	struct diagnosis_rank empty = {.rank = 3};
	struct diagnosis_input in = {
	    .kind = FINDING_SLOW_RANK, .suspect = &empty, .suspect_count = 1};

	diagnosis_make(&in, &out);
	assert_int_equal(out.cause, CAUSE_UNKNOWN);
	assert_true(out.missing_count > 0);
	in.suspect_count = 0;
	diagnosis_make(&in, &out);
	assert_int_equal(out.cause, CAUSE_UNKNOWN);
}

static void separates_two_faults_at_once(void **unused)
{
	static struct world w;
	struct diagnosis_rank suspects[2], peers[PEERS];
	struct diagnosis_input in = {.kind = FINDING_SLOW_RANK,
				     .suspect = suspects,
				     .suspect_count = 2,
				     .peer = peers,
				     .peer_count = PEERS};
	uint32_t group[2], shows[2];
	struct diagnosis_wait waits[2];

	build(&w);
	os_softirq(&w);
	slower_kernels(&w.second, 1.3);
	suspects[0] = w.sick.r;
	suspects[1] = w.second.r;
	for (int i = 0; i < PEERS; i++)
		peers[i] = w.peer[i].r;
	assert_int_equal(diagnosis_split(&in, group, shows, waits), 2);
	assert_int_equal(group[0], 0);
	assert_int_equal(group[1], 1);
	in.suspect = &suspects[1];
	in.suspect_count = 1;
	diagnosis_make(&in, &out);
	assert_int_equal(out.cause, CAUSE_GPU_SLOW);
	build(&w);
	os_softirq(&w);
	late(&w.second, 20);
	signal_add(&w.second, OS_SIGNAL_SOFTIRQ_STOLEN, "NET_RX from thread python3 on CPU 3", 180,
		   1);
	suspects[0] = w.sick.r;
	suspects[1] = w.second.r;
	in.suspect = suspects;
	in.suspect_count = 2;
	assert_int_equal(diagnosis_split(&in, group, shows, waits), 1);
	diagnosis_make(&in, &out);
	assert_non_null(strstr(out.summary, "ranks 5 and 2 are slow"));
	assert_non_null(strstr(out.summary, "in place of their launch threads python3"));
}

/* A rank is what its process says, and the longest number has eleven letters. */
static void names_as_many_ranks_as_there_is_room_for(void **unused)
{
	static struct world w;
	struct diagnosis_rank suspects[8];
	struct diagnosis_input in = {
	    .kind = FINDING_SLOW_RANK, .suspect = suspects, .suspect_count = 8};

	build(&w);
	for (int k = 0; k < 8; k++) {
		suspects[k] = w.sick.r;
		suspects[k].rank = 131064 + k;
	}
	diagnosis_make(&in, &out);
	assert_non_null(
	    strstr(out.summary, "131065, 131066, 131067, 131068, 131069 and 2 more are"));
	for (int k = 0; k < 8; k++)
		suspects[k].rank = INT32_MIN + k;
	diagnosis_make(&in, &out);
	assert_non_null(strstr(out.summary, "ranks -2147483648, -2147483647"));
	assert_non_null(strstr(out.summary, " more are slow"));
}

/* Titles are of one GPU and one rank; after a colon stands a signal, which has its own words. */
static void speaks_of_several_ranks_in_the_plural(void **unused)
{
	static struct world w;

	for (size_t i = 0; i < sizeof(faults) / sizeof(*faults); i++) {
		build(&w);
		faults[i].make(&w);
		w.suspects = 2;
		judge(&w);
		if (w.kind == FINDING_UNIFORM ||
		    strstr(out.summary, finding_cause_title(out.cause)))
			continue;
		out.summary[strcspn(out.summary, ":")] = '\0';
		if (!strstr(out.summary, "ranks 5 and 2 ") || strstr(out.summary, " it ") ||
		    strstr(out.summary, " its "))
			fail_msg("fault %zu: %s", i, out.summary);
	}
	build(&w);
	os_run_queue(&w);
	w.suspects = 2;
	judge(&w);
	assert_non_null(strstr(out.summary,
			       "ranks 5 and 2 are slow because their launch threads python3 "
			       "wait for a CPU taken by backup (pid 77)"));
}

/* No rule knows what it is, but where it blocks says more than that it is late. */
static void says_what_blocks_a_late_host(void **unused)
{
	static struct world w;

	build(&w);
	late(&w.sick, 10);
	function(&w.sick, "acquire (quota.py)", FUNCTION_PYTHON, 0, 0.1, 0.1)->off_ns = 10 * MS;
	function(&w.sick, "clock_nanosleep", FUNCTION_NATIVE, 0, 0.1, 0.1)->off_ns = 10 * MS;
	function(&w.sick, "do_nanosleep", FUNCTION_KERNEL, 0, 0.1, 0.1)->off_ns = 10 * MS;
	function(&w.sick, "fit (train.py)", FUNCTION_PYTHON, 0, 60, 60)->off_ns = 20 * MS;
	for (int i = 0; i < PEERS; i++)
		function(&w.peer[i], "fit (train.py)", FUNCTION_PYTHON, 0, 60, 60)->off_ns =
		    10 * MS;
	judge(&w);
	assert_int_equal(out.cause, CAUSE_CPU_HOST_GAP);
	assert_non_null(
	    strstr(out.summary, "blocked longer in acquire (quota.py) than on the peers (10."));
	/* peers wait elsewhere meanwhile: more than the gap it does not cost */
	build(&w);
	late(&w.sick, 10);
	function(&w.sick, "acquire (quota.py)", FUNCTION_PYTHON, 0, 0.1, 0.1)->off_ns = 25 * MS;
	judge(&w);
	assert_non_null(strstr(out.summary, "longer in acquire (quota.py) than on the peers "
					    "(10.1 ms more per step than its peers)"));
	/* compared with its earlier steps, since no peer has a profile */
	build(&w);
	w.with_before = true;
	late(&w.sick, 10);
	function(&w.sick, "acquire (quota.py)", FUNCTION_PYTHON, 0, 0.1, 0.1)->off_ns = 10 * MS;
	for (int i = 0; i < PEERS; i++) {
		w.peer[i].r.samples = w.peer[i].r.function_count = 0;
		w.peer[i].r.off_ns = -1;
	}
	judge(&w);
	assert_non_null(strstr(out.summary, "longer in acquire (quota.py) than before "));
	/* too little to hold it up */
	build(&w);
	late(&w.sick, 10);
	function(&w.sick, "acquire (quota.py)", FUNCTION_PYTHON, 0, 0.1, 0.1)->off_ns = 3 * MS;
	judge(&w);
	assert_int_equal(out.cause, CAUSE_CPU_HOST_GAP);
	assert_non_null(strstr(out.summary, "was not seen"));
}

/* Sketches name Python functions without their file, stacks with it. */
static void knows_a_function_with_and_without_its_file(void **unused)
{
	static struct world w;

	build(&w);
	late(&w.sick, 10);
	for (int i = 0; i < PEERS; i++)
		for (uint32_t k = 0; k < w.peer[i].r.function_count; k++)
			if (!strcmp(w.peer[i].function[k].name, "Layer.forward (model.py)"))
				w.peer[i].function[k].name = "Layer.forward";
	judge(&w);
	assert_int_equal(out.cause, CAUSE_CPU_HOST_GAP);
}

/* Long names of a hostile job: cut, not overrun. */
static void bears_long_names(void **unused)
{
	static char name[5000];
	static struct world w;

	memset(name, 'x', sizeof(name) - 1);
	build(&w);
	w.sick.kernel[0].name = name;
	one_kernel(&w.sick, 0, 1.5);
	function(&w.sick, name, FUNCTION_PYTHON, 12, 12, 12);
	w.sick.r.gil_holder = name;
	w.sick.r.gil_wait_ns = 30 * MS;
	w.sick.setting[0].value = name;
	judge(&w);
	for (uint32_t i = 0; i < out.evidence_count; i++)
		assert_true(strnlen(out.evidence[i].text, FINDING_TEXT_BYTES) < FINDING_TEXT_BYTES);
}

static void a_version_that_is_not_known_is_no_difference(void **unused)
{
	static struct world w;
	struct fake *all[] = {&w.sick, &w.peer[0], &w.peer[1], &w.peer[2]};

	build(&w);
	late(&w.sick, 10);
	for (int i = 1; i < PEERS + 1; i++)
		all[i]->setting[all[i]->r.setting_count++] =
		    (struct diagnosis_setting){"cuda", "12.4"};
	judge(&w);
	assert_int_not_equal(out.cause, CAUSE_SW_ENVIRONMENT);
	for (uint32_t i = 0; i < out.evidence_count; i++)
		assert_null(strstr(out.evidence[i].text, "cuda"));
	/* nor the other way round */
	build(&w);
	late(&w.sick, 10);
	w.sick.setting[w.sick.r.setting_count++] = (struct diagnosis_setting){"cuda", "12.4"};
	judge(&w);
	assert_int_not_equal(out.cause, CAUSE_SW_ENVIRONMENT);
	/* a variable that is not there is not set */
	build(&w);
	w.sick.r.self_ns += 5 * MS;
	w.sick.r.step_ns += 5 * MS;
	w.sick.setting[w.sick.r.setting_count++] = (struct diagnosis_setting){"NCCL_DEBUG", "INFO"};
	judge(&w);
	assert_int_equal(out.cause, CAUSE_SW_ENVIRONMENT);
}

/* Ranks that wait for a slow one hardly run, so that none of their few samples may be of them. */
static void blocked_time_needs_no_samples(void **unused)
{
	static struct world w;
	struct fake *all[PEERS + 1] = {&w.peer[0], &w.peer[1], &w.peer[2], &w.before};

	build(&w);
	late(&w.sick, 110);
	w.sick.r.off_ns += 110 * MS;
	find(&w.sick, "DataLoader.__next__ (dataloader.py)")->off_ns = 110 * MS;
	find(&w.sick, "train_step (train.py)")->off_ns = 110 * MS;
	for (int i = 0; i < PEERS + 1; i++)
		all[i]->r.samples = all[i]->r.cpu_ns = 0;
	judge(&w);
	assert_int_equal(out.cause, CAUSE_STORAGE_LOADER);
	assert_true(out.effect_ns > 100 * MS);
	/* nobody's profile at all: they can't have waited there for longer than their steps took, and by
	 * no more than their GPUs idled did it hold them up */
	for (int i = 0; i < PEERS + 1; i++) {
		all[i]->r.off_ns = -1;
		all[i]->r.function_count = 0;
	}
	judge(&w);
	assert_int_equal(out.cause, CAUSE_STORAGE_LOADER);
	assert_true(out.effect_ns > 75 * MS && out.effect_ns < 85 * MS);
	assert_true(out.missing_count > 0);
	/* within what they took, it is not known to be new */
	find(&w.sick, "DataLoader.__next__ (dataloader.py)")->off_ns = 80 * MS;
	find(&w.sick, "train_step (train.py)")->off_ns = 80 * MS;
	judge(&w);
	assert_int_equal(out.cause, CAUSE_CPU_HOST_GAP);
}

static void the_catalogue_is_documented(void **unused)
{
	assert_int_equal(system("tools/causes.py --check"), 0);
}

/* Of healthy earlier runs only baselines are stored. */
static void remedies_compare_with_what_is_kept_of_earlier_runs(void **unused)
{
	struct world w;

	for (int c = CAUSE_SW_HOT_PATH; c <= CAUSE_SW_SLOWER; c++) {
		const char *remedy = finding_cause_remedy((enum finding_cause)c);

		assert_true(!strstr(remedy, "sysom diff") ||
			    strstr(remedy, "sysom diff baseline:JOB "));
	}
	build(&w);
	w.kind = FINDING_UNIFORM;
	w.with_before = w.without_peers = true;
	sw_hot_path(&w);
	judge(&w);
	assert_int_equal(out.cause, CAUSE_SW_HOT_PATH);
	assert_non_null(strstr(out.remedy, "validate_batch (train.py)"));
	assert_non_null(strstr(out.remedy, "earlier run: sysom diff baseline:JOB ID"));
}

/* ---- the waterline ---- */

/* Ten sketches of the role, in which "Layer.forward" has 44% of the CPU time and nobody spins. */
static const struct diagnosis_usual usuals[] = {
    {"train_step", FUNCTION_PYTHON, .75, .78},
    {"Layer.forward", FUNCTION_PYTHON, .44, .46},
    {"cuLaunchKernel", FUNCTION_NATIVE, .19, .21},
    {"spin", FUNCTION_PYTHON, .02, .03},
    {"DataLoader.__next__", FUNCTION_PYTHON, .012, .014},
    {"Logger.info", FUNCTION_PYTHON, .006, .008},
    {"BZ2_bzDecompress", FUNCTION_NATIVE, .025, .03},
};
static struct diagnosis_group group = {.function = usuals, .function_count = 7, .sketches = 10};

/* 30 of 110 ms of CPU time per step. */
static void spins(struct world *w)
{
	late(&w->sick, 30);
	w->sick.r.cpu_ns += 30 * MS;
	function(&w->sick, "spin (train.py)", FUNCTION_PYTHON, 30, 30, 30);
	w->sick.r.group = &group;
}

static const struct finding_line *line_that_says(const char *what)
{
	for (uint32_t i = 0; i < out.evidence_count; i++)
		if (strstr(out.evidence[i].text, what))
			return &out.evidence[i];
	return NULL;
}

static void a_share_above_the_groups_line_is_evidence(void **unused)
{
	const struct finding_line *l;
	double sure;
	struct world w;

	build(&w);
	spins(&w);
	w.sick.r.group = NULL;
	judge(&w);
	assert_null(line_that_says("of its role is"));
	sure = out.confidence;
	w.sick.r.group = &group;
	judge(&w);
	assert_int_equal(out.cause, CAUSE_CPU_PYTHON);
	assert_float_equal(out.confidence, sure, 1e-9);
	l = line_that_says(
	    "spin (train.py) takes 27.3% of the rank's CPU time, 24.3 points above the threshold "
	    "of 3.0% (median + 2 x 1.4826 MAD, 10 sketches); the median of its role is 2.0%");
	assert_non_null(l);
	assert_ptr_not_equal(l, &out.evidence[0]);
	assert_int_equal(l->layer, LAYER_CPU);
	/* what it is without its usual share of the 80 ms that the rest takes: 28.4 ms */
	assert_float_equal(l->effect_ns, 110 * MS * (30. / 110 - .02) / .98, .01 * MS);
	group.paper = true;
	judge(&w);
	group.paper = false;
	assert_non_null(line_that_says(
	    "threshold of 3.0% (mean + 2 sigma, 10 sketches); the mean of its role is 2.0%"));
}

static void the_groups_line_outweighs_no_other_cause(void **unused)
{
	static void (*const others[])(struct world *) = {gpu_clocks, os_run_queue, os_lock};
	enum finding_cause cause;
	struct world w;

	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
		build(&w);
		others[i](&w);
		for (int k = 0; k < PEERS; k++) /* whose profile is not known */
			w.peer[k].r.samples = w.peer[k].r.function_count = 0;
		judge(&w);
		cause = out.cause;
		function(&w.sick, "spin (train.py)", FUNCTION_PYTHON, 30, 30, 30);
		w.sick.r.cpu_ns += 30 * MS;
		w.sick.r.group = &group;
		judge(&w);
		assert_int_equal(out.cause, cause);
	}
	/* the peers spin too: their windows decide, and not the group's older sketches */
	build(&w);
	spins(&w);
	for (int k = 0; k < PEERS; k++) {
		function(&w.peer[k], "spin (train.py)", FUNCTION_PYTHON, 30, 30, 30);
		w.peer[k].r.cpu_ns += 30 * MS;
	}
	judge(&w);
	assert_int_equal(out.cause, CAUSE_CPU_HOST_GAP);
	assert_non_null(line_that_says("of its role is"));
}

static void without_other_evidence_the_groups_line_may_be_the_cause(void **unused)
{
	struct world w;

	build(&w);
	spins(&w);
	w.without_peers = true;
	judge(&w);
	assert_int_equal(out.cause, CAUSE_CPU_PYTHON);
	assert_true(out.confidence > .25 && out.confidence < .45);
	assert_non_null(strstr(out.summary, "takes 27% of its CPU time; 2% is usual in its role"));
	w.sick.r.group = NULL;
	judge(&w);
	assert_int_equal(out.cause, CAUSE_UNKNOWN);
	/* peers' windows without stacks: more than that the host is late */
	build(&w);
	spins(&w);
	for (int k = 0; k < PEERS; k++)
		w.peer[k].r.samples = w.peer[k].r.function_count = 0;
	judge(&w);
	assert_int_equal(out.cause, CAUSE_CPU_PYTHON);
	assert_true(out.confidence > .25 && out.confidence < .45);
}

static void what_is_below_the_line_or_may_be_noise_is_no_evidence(void **unused)
{
	struct diagnosis_usual nameless[] = {{"libwork.so+0x1000", FUNCTION_NATIVE, .3, .35}};
	struct diagnosis_group other = group;
	struct world w;

	build(&w); /* healthy but for its lateness */
	late(&w.sick, 30);
	w.sick.r.group = &group;
	judge(&w);
	assert_null(line_that_says("of its role is"));
	other.sketches = 3;
	for (int few = 0; few < 2; few++) {
		build(&w);
		spins(&w);
		w.sick.r.samples = few ? 400 : 20;
		w.sick.r.group = few ? &other : &group;
		judge(&w);
		assert_null(line_that_says("of its role is"));
	}
	/* the group's sketches had no symbols: it may be the function that has a third of everything */
	build(&w);
	spins(&w);
	w.sick.r.function_count = 0;
	function(&w.sick, "work", FUNCTION_NATIVE, 30, 30, 30);
	other = (struct diagnosis_group){.function = nameless, .function_count = 1, .sketches = 10};
	w.sick.r.group = &other;
	judge(&w);
	assert_null(line_that_says("of its role is"));
	nameless[0] = (struct diagnosis_usual){"libwork.so+0x1000", FUNCTION_NATIVE, .08, .1};
	judge(&w);
	assert_non_null(line_that_says("of its role is"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(names_every_cause_where_it_is),
	    cmocka_unit_test(every_cause_of_the_catalogue_has_its_fault),
	    cmocka_unit_test(names_no_cause_where_none_is),
	    cmocka_unit_test(what_peers_have_too_is_not_the_cause),
	    cmocka_unit_test(memory_is_the_cause_where_it_explains_the_loss),
	    cmocka_unit_test(memory_that_peers_lack_as_much_is_not_the_cause),
	    cmocka_unit_test(memory_that_explains_far_less_is_not_the_cause),
	    cmocka_unit_test(what_peers_wait_for_as_long_is_ruled_out_with_their_figure),
	    cmocka_unit_test(a_signal_explains_no_slow_kernels),
	    cmocka_unit_test(a_task_that_took_little_of_the_wait_is_not_named),
	    cmocka_unit_test(kernels_are_not_alike_if_one_of_them_differs),
	    cmocka_unit_test(late_requests_compare_no_rank),
	    cmocka_unit_test(a_signal_is_no_cause_where_nothing_was_lost),
	    cmocka_unit_test(two_causes_share_the_excess_of_figures),
	    cmocka_unit_test(a_past_with_half_of_the_fault_is_no_reference),
	    cmocka_unit_test(what_explains_as_much_makes_a_cause_less_sure),
	    cmocka_unit_test(slower_kernels_are_the_gpus_though_it_waits_longer_too),
	    cmocka_unit_test(a_rank_that_stands_still_is_not_explained_by_its_last_steps),
	    cmocka_unit_test(rules_out_the_other_layers_with_figures),
	    cmocka_unit_test(a_threads_name_redirects_no_remedy),
	    cmocka_unit_test(names_the_device_of_a_storm_in_the_remedy),
	    cmocka_unit_test(names_who_to_stop_for_a_lock),
	    cmocka_unit_test(says_what_is_missing_and_is_less_sure),
	    cmocka_unit_test(knows_nothing_of_nothing),
	    cmocka_unit_test(separates_two_faults_at_once),
	    cmocka_unit_test(names_as_many_ranks_as_there_is_room_for),
	    cmocka_unit_test(speaks_of_several_ranks_in_the_plural),
	    cmocka_unit_test(says_what_blocks_a_late_host),
	    cmocka_unit_test(knows_a_function_with_and_without_its_file),
	    cmocka_unit_test(bears_long_names),
	    cmocka_unit_test(the_catalogue_is_documented),
	    cmocka_unit_test(work_that_detection_expects_is_no_loss),
	    cmocka_unit_test(a_version_that_is_not_known_is_no_difference),
	    cmocka_unit_test(blocked_time_needs_no_samples),
	    cmocka_unit_test(remedies_compare_with_what_is_kept_of_earlier_runs),
	    cmocka_unit_test(a_share_above_the_groups_line_is_evidence),
	    cmocka_unit_test(the_groups_line_outweighs_no_other_cause),
	    cmocka_unit_test(without_other_evidence_the_groups_line_may_be_the_cause),
	    cmocka_unit_test(what_is_below_the_line_or_may_be_noise_is_no_evidence),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
