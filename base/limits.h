/* SPDX-License-Identifier: Apache-2.0
 * limits.h - every bound of sysom, each with its reason. Names end in their unit. */
#ifndef SYSOM_BASE_LIMITS_H
#define SYSOM_BASE_LIMITS_H

/* ---- inside the job (ring/, preload/, cupti/) ---- */
/* The guest's whole shared memory, by DESIGN.md 3. */
#define LIMIT_RING_BYTES (8u << 20)
/* Large lanes: one per launching thread. PyTorch has a main, an autograd and few helper threads. */
#define LIMIT_RING_HOST_LANES 24
/* Threads beyond these get a small lane: what is left of 8 MiB. 64 slots hold what a thread launches
 * between two drains (10 ms) at 6,400 launches/s. */
#define LIMIT_RING_SMALL_LANES 480
#define LIMIT_RING_SMALL_LANE_SLOTS 64
/* The reader page has a tail for each. */
#define LIMIT_RING_LANES 511
/* 10,000 launches/s fill 2,048 slots in 0.2 s; sysomd drains every 10 to 40 ms
 * and goes back to 10 when a lane was half full. */
#define LIMIT_RING_HOST_LANE_SLOTS 2048
/* Device records: ours and CUPTI's own delivery thread. */
#define LIMIT_RING_DEVICE_LANES 2
#define LIMIT_RING_DEVICE_LANE_SLOTS 8192
/* Mangled kernel names run to 4 KB; a model has some hundred. */
#define LIMIT_RING_NAMES_BYTES (1u << 20)
#define LIMIT_NAME_BYTES 4096
#define LIMIT_NAME_COUNT 8192
/* Values of an explicit step's work vector. */
#define LIMIT_STEP_WORK 4

/* ---- on the node (sidecar/) ---- */
/* GPUs per node today at most 16 (and MIG slices); helpers and stragglers beside them. */
#define LIMIT_NODE_PROCESSES 64
/* Events taken from one process before the next one has its turn (fairness). */
#define LIMIT_DRAIN_BATCH 4096
/* Connections to the attach socket that have not said hello yet; a job's processes come together. */
#define LIMIT_ATTACH_PENDING 128u
/* CPU time for processes that connect and attach, of each second: the rest is for those that are there.
 * An attach takes 1 to 2 ms, so that all the processes of a node can attach in one second. */
#define LIMIT_ATTACH_WORK_NS 250000000ull
/* A registration message of a hostile peer. */
#define LIMIT_ATTACH_MESSAGE_BYTES 4096

/* ---- reading other processes (reader/) ---- */
/* What a parser may allocate: libtorch_cpu's table takes 80 MiB while it is made. */
#define LIMIT_READER_DATA_BYTES (192ull << 20)
/* A file that it writes: the index of the largest debug files' symbols. */
#define LIMIT_READER_FILE_BYTES (1ull << 30)
/* Pairs of processes at a time, ended ones that can't die included. */
#define LIMIT_READER_PAIRS 32u
/* Killed pairs that can't die, in all and of one user: a file system that hangs, of a user or of all. */
#define LIMIT_READER_ABANDONED 16u
#define LIMIT_READER_ABANDONED_USER 2u
/* Files that are not read again for ten minutes, the oldest forgotten first. */
#define LIMIT_READER_REFUSED 64u

/* ---- unwind tables (sampler/) ---- */
/* Call frame information of one file: libtorch_cpu has 10 MB, the largest CUDA libraries 7. */
#define LIMIT_UNWIND_SECTION_BYTES (64u << 20)
/* Functions and rows of one file: libtorch_cpu has 0.22 and 1.5 million. 8 million rows are 32 MiB. */
#define LIMIT_UNWIND_FDES (2u << 20)
#define LIMIT_UNWIND_ROWS (8u << 20)
/* Distinct rules that one file may bring, so that none takes those of the others: 785 were seen. */
#define LIMIT_UNWIND_FILE_RULES 4096u
/* From a file's first to its last function; the page index has 8 bytes per 4 KiB of it. */
#define LIMIT_UNWIND_SPAN_BYTES (1ull << 31)
/* A CIE's own program runs once per function in the worst case; real ones have 5 bytes. */
#define LIMIT_UNWIND_CIE_BYTES 256u
/* DW_CFA_remember_state nests in theory; compilers use 1. */
#define LIMIT_UNWIND_REMEMBER 8u
/* Files known at a time; a PyTorch process maps 316. */
#define LIMIT_UNWIND_FILES 16384u

/* ---- CPython (sampler/python_*) ---- */
/* Files remembered as with or without a CPython interpreter; a node runs a few versions. */
#define LIMIT_PYTHON_FILES 16u
/* Lines read of /proc/PID/maps: the kernel's own default bound (vm.max_map_count). */
#define LIMIT_PYTHON_MAPS_LINES 65530u
/* Code objects kept with their names per process, some 400 bytes each: a training job is sampled in a
 * few hundred to two thousand. */
#define LIMIT_PYTHON_CODES 8192u
/* Of a function's qualified name, a file name (the kernel's bound) and a code object's line table. */
#define LIMIT_PYTHON_NAME_BYTES 1024u
#define LIMIT_PYTHON_FILE_BYTES 4096u
#define LIMIT_PYTHON_LINES_BYTES 65536u
/* ---- OS signals (sidecar/os/os_signals.h) ---- */
/* A second each: the usual value looks back a minute, and a window may be asked for after two. */
#define LIMIT_OS_SECONDS 192u
/* Of 8 ranks: some 50 threads and CPUs each with a figure worth keeping; 900 bytes each. */
#define LIMIT_OS_SERIES 4096u
/* Counters whose last value is remembered: 15 of each thread, of which most stay 0. */
#define LIMIT_OS_COUNTERS (1u << 16)
/* Of one window. */
#define LIMIT_WINDOW_SIGNALS 64u

/* ---- on the wire ---- */
/* One window, encoded and compressed; enforced at both ends since nng re-sends a larger one for
 * ever. */
#define LIMIT_WIRE_MESSAGE_BYTES (8u << 20)
/* What a hostile 8 MiB of zstd may unpack to. */
#define LIMIT_WIRE_UNPACKED_BYTES (64u << 20)
/* What a byte of a message may make its reader unpack and fill, and every message once. Windows of
 * training jobs take 40 per byte (96 bytes of memory for 2.7 packed). A writer makes a denser window
 * longer. */
#define LIMIT_WIRE_WORK_PER_BYTE 256u
#define LIMIT_WIRE_WORK_BYTES (1u << 20)
#define LIMIT_WINDOW_RECORDS 1000000u
#define LIMIT_WINDOW_STEPS 4096u
/* From begin to end: a day is more than the recorder holds of a job that runs. A longer one would make
 * all later faults of its job one. */
#define LIMIT_WINDOW_NS 86400000000000ull
/* Of a signal of the operating system, in whatever unit. */
#define LIMIT_SIGNAL_VALUE 1e15
#define LIMIT_WINDOW_NAMES 16384u
/* DESIGN.md 1 */
#define LIMIT_BEAT_BYTES_PER_RANK 2048
/* DESIGN.md 1: a sketch, one a minute and rank; enforced at both ends. */
#define LIMIT_SKETCH_BYTES_PER_RANK 8192u
/* What a hostile one may unpack to: some 300 mangled names of 200 bytes are 60 kB. */
#define LIMIT_SKETCH_UNPACKED_BYTES (128u << 10)
/* A function below 0.1% of the time says nothing; as many kernels as a step keeps; the variables of a
 * launcher's environment that concern us are some tens. */
#define LIMIT_SKETCH_FUNCTIONS 512u
#define LIMIT_SKETCH_KERNELS 192u
#define LIMIT_SKETCH_SETTINGS 128u
#define LIMIT_SKETCH_VALUE_BYTES 256u

/* ---- what a live run gave to analysis/ (node/journal.h) ---- */
/* Of one block: 8 ms of a node with a million records a second; 0.8 MB in memory. */
#define LIMIT_JOURNAL_RECORDS 8192u
/* Its events: turns of 64 ranks, and a step has some 200 bytes. */
#define LIMIT_JOURNAL_EVENT_BYTES (1u << 20)
/* Packed; incompressible records have some 128 bytes. */
#define LIMIT_JOURNAL_BLOCK_BYTES (4u << 20)
/* Settings that memory grows with: what sysomd has, and the largest roofline.learn_max. */
#define LIMIT_JOURNAL_LAUNCHES (1u << 16)
#define LIMIT_JOURNAL_LEARN 100000u
/* Memory of all ranks' models while a file is read: 64 ranks with default settings take 1.35 GB. */
#define LIMIT_JOURNAL_MODEL_BYTES (3ull << 29)
/* And of those that are made again as ranks come and go, per byte of the file: 21 MB by default, in whose
 * life a rank leaves far more than 20 KB. */
#define LIMIT_JOURNAL_WORK 1024u

/* ---- in the cluster (aggregator/) ---- */
/* 10,000 nodes of 8 ranks (DESIGN.md 7) and room for their restarts. One node has LIMIT_NODE_PROCESSES
 * ranks at most. */
#define LIMIT_FLEET_NODES 16384u
#define LIMIT_FLEET_RANKS 131072u
/* Kernels per step that are told apart in one job: its stages, and what skew makes of them. */
#define LIMIT_FLEET_PACES 64u
/* A node runs one job, seldom several; made-up names take no more than that. */
#define LIMIT_FLEET_JOBS 16384u
/* Last sketches as they came, 8 KiB each at most: 80,000 ranks send some 4 KiB. */
#define LIMIT_FLEET_SKETCH_BYTES (512ull << 20)
/* How long a window waits for the first beat of its connection: twelve periods of beats. */
#define LIMIT_FLEET_HEAR_NS 60000000000ull
/* Commands waiting for a node's next beat: as many as a reply holds. */
#define LIMIT_FLEET_COMMANDS 64u
/* Windows asked for in a minute of one job (INV-10): a suspect and two peers, five times over. */
#define LIMIT_PULL_WINDOWS 16u
/* And once in ten minutes, of a job that hangs: its ranks' stacks, 100 kB each. */
#define LIMIT_PULL_HANG_WINDOWS 256u
/* ---- comparing the ranks of a job (analysis/cross/cross.h) ---- */
/* 32 groups a beat, a beat's period of difference between ranks, and half a period to wait. */
#define LIMIT_CROSS_ROWS 96u
#define LIMIT_CROSS_GROUP_STEPS (1u << 20)
/* Stages times kinds of work; 64-stage pipelines exist. */
#define LIMIT_CROSS_ROLES 256u
/* Sampled collectives of a job at a time: 24 a rank and beat, shared by the ranks of a communicator. */
#define LIMIT_CROSS_COLLS (1u << 17)
/* Collectives of a beat that an unplaced rank keeps until the next one: a few are enough to count by. */
#define LIMIT_CROSS_UNMATCHED 8u
/* Ranks of one collective that are looked at; a larger one says no more. */
#define LIMIT_CROSS_ENTRIES 4096u
/* Kernels that tell a rank's kind of work: the most launched; a step has some hundred names. */
#define LIMIT_ROLE_KERNELS 64u
/* Simultaneous faults of one job that began at different times. */
#define LIMIT_CROSS_FINDINGS 64u
/* ---- waterline and baselines ---- */
/* Functions told apart in a role: a rank's sketch has at most 512, and ranks of a role run the same. */
#define LIMIT_WATERLINE_FUNCTIONS 4096u
/* Sketches of a role in the sliding window; of larger roles every n-th rank's. */
#define LIMIT_WATERLINE_SKETCHES 256u
/* Runs kept of one job and role: the spread between runs is known from three on. */
#define LIMIT_BASELINE_RUNS 5u
/* Rows of all jobs, 8 KiB each at most; the longest untouched go first. */
#define LIMIT_BASELINES 8192u
/* One transaction, one fsync: what a reply waits for at most. */
#define LIMIT_COMMIT_WINDOWS 64u
#define LIMIT_COMMIT_NS 20000000ull
/* Messages received but not yet committed; more are told to come again. */
#define LIMIT_PENDING_BYTES (256ull << 20)
/* Messages that are coming in or being handled: twice that; above it the slowest peer goes. */
#define LIMIT_INGEST_BUFFER_BYTES (512ull << 20)
/* Senders without a connection whose time is remembered, 400 bytes each. */
#define LIMIT_SENDERS_OWING 4096u
/* Incidents that new windows may still join, and ranks told apart in one. */
#define LIMIT_INCIDENTS_LIVE 1024u
#define LIMIT_INCIDENT_RANKS 4096u
/* Findings without windows that wait for the committer; a fleet of 1,000 jobs in trouble at once. */
#define LIMIT_COMMIT_FINDINGS 1024u
/* Alerts that fire at a time; Alertmanager's own views end far below. */
#define LIMIT_ALERTS 1024u
/* Findings of one incident: a few slow ranks that were found one by one. */
#define LIMIT_INCIDENT_FINDINGS 32u
/* Pictures of windows (analysis/cause/picture.h), some 50 KB each, of all live incidents: 200 MB. */
#define LIMIT_INCIDENT_PICTURE_BYTES (200u << 20)
/* Ranks of one incident that a diagnosis looks at, of the suspects and of their peers each. */
#define LIMIT_VERDICT_RANKS 32u
/* What a picture keeps: the largest by time; mangled names are cut. */
#define LIMIT_PICTURE_FUNCTIONS 256u
#define LIMIT_PICTURE_KERNELS 192u
#define LIMIT_PICTURE_NAME_BYTES 1024u
#define LIMIT_PICTURE_POOL_BYTES (512u << 10)
/* Collectives of a picture, 32 bytes each; of more, one of 2, 4, 8 ... */
#define LIMIT_PICTURE_COLLECTIVES 1024u
/* Of all pictures that one ledger's collectives are divided by: some milliseconds of work. */
#define LIMIT_COLL_SPLIT 65536u
/* OS signals told of one: of several culprits, the strongest. */
#define LIMIT_INCIDENT_SIGNALS 128u
/* Threads that make answers: a page takes some milliseconds of one, and detection needs a core. */
#define LIMIT_API_WORKERS 4u
/* Requests that wait for them; further ones are told to come again. A connection has one at a time. */
#define LIMIT_API_WAITING 256u
/* Answers of the HTTP API. */
#define LIMIT_API_INCIDENTS 1000u
/* Of one page of a list; the next one is asked for. The one thread that writes to connections takes less
 * than a millisecond for it, and /healthz waits no longer. */
#define LIMIT_API_LIST_BYTES (1u << 20)
#define LIMIT_API_RANKS 1000u
#define LIMIT_API_WINDOWS 2000u
/* Requests about symbols: a PyTorch process maps 320 files; a window has some 10,000 addresses. The body
 * of the largest has 20 bytes per address. */
#define LIMIT_API_SYMBOL_FILES 4096u
#define LIMIT_API_SYMBOL_OBJECTS 1024u
#define LIMIT_API_SYMBOL_ADDRESSES 16384u
#define LIMIT_API_SYMBOL_BODY_BYTES (1u << 20)
/* Requests that wait for their answer from a disk; more are told to come again. */
#define LIMIT_API_SYMBOL_WAITING 64u

/* ---- CPU stacks (model/stack.h) ---- */
/* A PyTorch process maps some 320 files; a node of 8 ranks and their loaders shares most. */
#define LIMIT_STACK_OBJECTS (1u << 16)
/* One period of a node: 5 s, 99 Hz, 128 CPUs are 63,360 samples of about 60 frames, were they all
 * different. */
#define LIMIT_STACK_SAMPLES (1u << 18)
#define LIMIT_STACKS (1u << 17)
/* Of threads whose switches are recorded: 5 s of 26 that send 1,000 records per second each. */
#define LIMIT_STACK_SWITCHES (1u << 17)
/* One entry of each thread that is recorded (at most SAMPLER_SWITCH_THREADS) in each of 32 batches. */
#define LIMIT_STACK_SWITCH_THREADS (1u << 14)
#define LIMIT_STACK_FRAMES (1u << 23)
#define LIMIT_STACK_STRINGS (1u << 18)
#define LIMIT_STACK_STRING_BYTES (32u << 20)
/* Kernel, native and Python frames of one stack together: PyTorch under autograd reaches some 150, and
 * recursion is cut. */
#define LIMIT_STACK_DEPTH 1024u
/* Of one window: a minute of one rank with 30 busy threads at 99 Hz, mostly shared. */
#define LIMIT_WINDOW_STACK_FRAMES (1u << 20)
#define LIMIT_WINDOW_STACK_SAMPLES (1u << 16)
/* A minute of a few launching threads at 1,000 switches per second. */
#define LIMIT_WINDOW_SWITCHES (1u << 16)
#define LIMIT_WINDOW_SWITCH_THREADS (1u << 12)
/* Of a window that goes without its records: some 100 kB packed. */
#define LIMIT_WINDOW_SUMMARY_STACK_FRAMES (1u << 15)

/* Functions of one profile: a PyTorch process shows some 20,000; their names take 60 bytes each. */
#define LIMIT_PROFILE_FUNCTIONS (1u << 18)
#define LIMIT_PROFILE_NAME_BYTES (64u << 20)

/* Of a folded file: a day of a node at 99 Hz has fewer different stacks, of some 2 kB. */
#define LIMIT_FOLDED_LINES (8u << 20)
#define LIMIT_FOLDED_BYTES (2ull << 30)
/* Of an incident's file (`sysom replay window --incident`): an answer of the aggregator, in which a value
 * takes some 20 bytes of text and a hundred of memory. */
#define LIMIT_REPLAY_JSON_BYTES (16u << 20)
#define LIMIT_REPLAY_JSON_VALUES 1000000u

/* What sysomd keeps of them, packed: windows ask for the last minutes (the recorder's promise). */
#define LIMIT_STACKS_KEPT_BYTES (12u << 20)
#define LIMIT_STACKS_KEPT_NS 180000000000ull

/* Build IDs remembered as told to the aggregator: a node of 8 ranks of PyTorch maps some 400 files; a node
 * watched as a whole some thousand. 4,096 of 48 bytes and their paths. */
#define LIMIT_OFFER_FILES 4096u
#define LIMIT_OFFER_PATH_BYTES 1024u

/* ---- symbols (symbol/) ---- */
/* A note segment holds the Build ID, the ABI tag and a property: some hundred bytes. */
#define LIMIT_SYMBOL_NOTE_BYTES 4096
#define LIMIT_SYMBOL_SEGMENTS 128u
/* A 1 GB debug file has some millions; 2^26 rows of 32 bytes are 2 GiB of index file. */
#define LIMIT_SYMBOLS (1u << 26)
/* A mangled name of C++ can be longer; it is then cut, and not demangled. */
#define LIMIT_SYMBOL_NAME_BYTES 16384u
/* Files whose digest is remembered, 100 bytes each; a node of 8 ranks of PyTorch maps some 400. */
#define LIMIT_SYMBOL_CONTENTS 2048u
/* .gnu_debugdata unpacked, and what unpacking may take: libxul's are 8 MB. */
#define LIMIT_SYMBOL_MINI_BYTES (64u << 20)
/* Of a symbol table, LZMA makes a third to a tenth; of zeros it makes a seven-thousandth. */
#define LIMIT_SYMBOL_MINI_RATIO 64u
/* Files of a Build-ID directory, 40 bytes of memory each: a distribution with its debug files is
 * 170,000. */
#define LIMIT_SYMBOL_FILES (1u << 19)
/* One upload; debug files of the largest CUDA libraries have 3 to 5 GB. */
#define LIMIT_SYMBOL_FILE_BYTES (8ull << 30)
/* Uploads at a time; each holds a descriptor and a reserved part of the directory. */
#define LIMIT_SYMBOL_UPLOADS 64u
/* Of one upload, in one request. */
#define LIMIT_SYMBOL_CHUNK_BYTES (64u << 20)

/* ---- the CPU sampler (sampler/, bpf/) ---- */
/* Whole-node sampling of a training host sees some thousand; the kernel's map is made for as many. */
#define LIMIT_SAMPLER_PROCESSES 4096u
/* 20 bits of a frame name the file (bpf/sampler_format.h). */
#define LIMIT_SAMPLER_FILES 0xfffffu
/* Stacks of one period in user space: 5 s of 64 CPUs at 999 Hz are 320,000 samples, of which a busy
 * PyTorch node has some 10,000 distinct stacks of 400 bytes. */
#define LIMIT_SAMPLER_STACK_BYTES (16u << 20)
/* Counts of one period in the kernel, in each of two sets, 160 bytes each: 2 x 20 MiB at most. 128 CPUs at
 * 200 Hz fill it in 5 s if no two samples are alike; what finds no room is counted as lost. */
#define LIMIT_SAMPLER_COUNTS (1u << 17)
/* Records of switches that wait for a drain, 104 bytes each: a batch has room for what a drain adds. */
#define LIMIT_SAMPLER_SWITCHES (LIMIT_STACK_SWITCHES - 4096u)
/* Kernel symbols: a distribution's kernel with modules has 250,000, a third of them code. */
#define LIMIT_SAMPLER_KERNEL_SYMBOLS (1u << 19)
#define LIMIT_SAMPLER_KERNEL_NAME_BYTES (16u << 20)

#endif
