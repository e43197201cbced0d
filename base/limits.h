/* SPDX-License-Identifier: Apache-2.0
 * limits.h - every bound of sysom, each with its reason. Names end in their unit. */
#pragma once

/* ---- inside the job (ring/, preload/, cupti/) ---- */
/* All shared memory of one process. The job pays for it. */
#define LIMIT_RING_BYTES (8u << 20)
/* Large lanes: one per launch thread. PyTorch has a main, an autograd and few helper threads. */
#define LIMIT_RING_HOST_LANES 24
/* Threads beyond these get a small lane from the rest of the 8 MiB. 64 slots hold what a thread
 * launches between two drains (10 ms) at 6,400 launches/s. */
#define LIMIT_RING_SMALL_LANES	    480
#define LIMIT_RING_SMALL_LANE_SLOTS 64
/* The reader page has one tail per lane. */
#define LIMIT_RING_LANES 511
/* 10,000 launches/s fill 2,048 slots in 0.2 s. sysomd drains every 10 to 40 ms; once a lane was
 * half full, again every 10 ms. */
#define LIMIT_RING_HOST_LANE_SLOTS 2048
/* Device records: one lane for us, one for CUPTI's own delivery thread. */
#define LIMIT_RING_DEVICE_LANES	     2
#define LIMIT_RING_DEVICE_LANE_SLOTS 8192
/* Mangled kernel names reach 4 KB; a model has some hundred. */
#define LIMIT_RING_NAMES_BYTES (1u << 20)
#define LIMIT_NAME_BYTES       4096
#define LIMIT_NAME_COUNT       8192
/* Span catalogues: how much one process looks for. All our catalogues together use less than a
 * third. */
#define LIMIT_SPAN_COUNT       256u
#define LIMIT_SPAN_FUNCTIONS   512u
#define LIMIT_SPAN_NVTX	       64u    /* patterns of NVTX texts; each costs at each range */
#define LIMIT_SPAN_TEXT_BYTES  160u   /* a name, or MODULE:CLASS.METHOD */
#define LIMIT_SPAN_PARTS       8u     /* names in a dotted one */
#define LIMIT_SPAN_ID_CHARS    256    /* a request's id */
#define LIMIT_SPAN_ITEMS       1024u  /* requests of one span, or items that a value adds up */
#define LIMIT_SPAN_TABLE_BYTES 65536u /* all catalogues, compiled */
/* NCCL's proxy threads whose CPU time is measured: one for each communicator's device, so some ten
 * in a process. */
#define LIMIT_PROXY_THREADS 64u
/* Values in the work vector of an explicit step. */
#define LIMIT_STEP_WORK 4

/* ---- on the node (sidecar/) ---- */
/* A node has at most 16 GPUs today (and MIG slices), plus helper processes and processes about to
 * exit. */
#define LIMIT_NODE_PROCESSES 64
/* Ranks whose process ended while other ranks of the job continued: a later process with such a
 * rank is reported as a restart. As many as a node has processes at once. */
#define LIMIT_NODE_ENDED LIMIT_NODE_PROCESSES
/* Open requests of serving jobs, some 600 bytes each: engines run some hundred at a time, and
 * queues of ten thousand would take minutes. */
#define LIMIT_NODE_REQUESTS 65536u
/* How long a node sends pieces of a job's requests after it was asked for them: twice the time
 * after which it is asked again. */
#define LIMIT_PIECES_ASKED_NS 60000000000ull
/* Events drained from one process of a user before the next user gets a turn (fairness). */
#define LIMIT_DRAIN_BATCH 4096
/* Connections to the attach socket that have not sent a hello yet; a job's processes connect
 * together. */
#define LIMIT_ATTACH_PENDING 128u
/* CPU time per second for connecting and attaching; the rest is for attached processes. An attach
 * takes 1 to 2 ms, so all processes of a node can attach within one second. */
#define LIMIT_ATTACH_WORK_NS 250000000ull
/* A registration message; the peer may be hostile. */
#define LIMIT_ATTACH_MESSAGE_BYTES 4096

/* ---- reading other processes (reader/) ---- */
/* Memory that a parser may allocate: building libtorch_cpu's table takes 80 MiB. */
#define LIMIT_READER_DATA_BYTES (192ull << 20)
/* A file that a parser writes, such as the symbol index of the largest debug file. */
#define LIMIT_READER_FILE_BYTES (1ull << 30)
/* Reader pairs at a time, including killed ones that cannot exit. */
#define LIMIT_READER_PAIRS 32u
/* Killed pairs that cannot exit because a file system hangs: in all, and per user. */
#define LIMIT_READER_ABANDONED	    16u
#define LIMIT_READER_ABANDONED_USER 2u
/* Files that readers failed on and skip for ten minutes; the oldest entry is forgotten first. */
#define LIMIT_READER_REFUSED 64u
/* An answer of NCCL's RAS service: some 600 bytes for each rank of each communicator. */
#define LIMIT_RAS_BYTES	     (4u << 20)
#define LIMIT_RAS_LINE_BYTES 4096u

/* ---- unwind tables (sampler/) ---- */
/* Call frame information of one file: libtorch_cpu has 10 MB, the largest CUDA libraries 7. */
#define LIMIT_UNWIND_SECTION_BYTES (64u << 20)
/* Functions and rows of one file: libtorch_cpu has 0.22 and 1.5 million. 8 million rows are 32
 * MiB. */
#define LIMIT_UNWIND_FDES (2u << 20)
#define LIMIT_UNWIND_ROWS (8u << 20)
/* Distinct rules per file, so that no file uses up the rules of others: 785 were seen. */
#define LIMIT_UNWIND_FILE_RULES 4096u
/* From a file's first to its last function; the page index takes 8 bytes per 4 KiB of it. */
#define LIMIT_UNWIND_SPAN_BYTES (1ull << 31)
/* In the worst case a CIE's program runs once per function; real ones have 5 bytes. */
#define LIMIT_UNWIND_CIE_BYTES 256u
/* DW_CFA_remember_state can nest; compilers use one level. */
#define LIMIT_UNWIND_REMEMBER 8u
/* Files with tables at a time; a PyTorch process maps 316. */
#define LIMIT_UNWIND_FILES 16384u

/* ---- CPython (sampler/python_*) ---- */
/* Files remembered as containing a CPython interpreter or not; a node runs a few versions. */
#define LIMIT_PYTHON_FILES 16u
/* Lines of /proc/PID/maps: the kernel's own default bound (vm.max_map_count). */
#define LIMIT_PYTHON_MAPS_LINES 65530u
/* Code objects with names kept per process, some 400 bytes each. Samples of a training job hit a
 * few hundred to two thousand. */
#define LIMIT_PYTHON_CODES 8192u
/* Bytes of a function's qualified name, a file name (the kernel's bound) and a code object's line
 * table. */
#define LIMIT_PYTHON_NAME_BYTES	 1024u
#define LIMIT_PYTHON_FILE_BYTES	 4096u
#define LIMIT_PYTHON_LINES_BYTES 65536u
/* ---- OS signals (sidecar/os/os_signals.h) ---- */
/* Buckets of one second each. The usual value uses all of them, and a window may be requested two
 * minutes late. */
#define LIMIT_OS_SECONDS 192u
/* For 8 ranks, each with some 50 threads and CPUs that have a figure worth keeping; 900 bytes per
 * row. */
#define LIMIT_OS_SERIES 4096u
/* Counters whose last value is kept: 15 per thread, most of which stay 0. */
#define LIMIT_OS_COUNTERS (1u << 16)
/* OS signals in one window. */
#define LIMIT_WINDOW_SIGNALS 64u

/* ---- on the wire ---- */
/* One window, encoded and compressed. Both ends enforce it, because nng resends a larger one
 * forever. */
#define LIMIT_WIRE_MESSAGE_BYTES (8u << 20)
/* How far a hostile 8 MiB of zstd may unpack. */
#define LIMIT_WIRE_UNPACKED_BYTES (64u << 20)
/* Bytes that a reader may unpack and fill for a message: WORK_BYTES, and WORK_PER_BYTE for each byte
 * of the message. Windows of training jobs need 40 per byte (96 bytes of memory for 2.7 packed). A
 * writer pads a denser window. */
#define LIMIT_WIRE_WORK_PER_BYTE 256u
#define LIMIT_WIRE_WORK_BYTES	 (1u << 20)
#define LIMIT_WINDOW_RECORDS	 1000000u
#define LIMIT_WINDOW_STEPS	 4096u
/* The longest time from a window's start to its end. The recorder holds less than a day of a
 * running job. A longer window would merge all later faults of its job. */
#define LIMIT_WINDOW_NS 86400000000000ull
/* Value of an OS signal, in any unit. */
#define LIMIT_SIGNAL_VALUE 1e15
#define LIMIT_WINDOW_NAMES 16384u
/* One beat per beat.period (docs/DESIGN.md, budgets); both ends enforce it. */
#define LIMIT_BEAT_BYTES_PER_RANK 2048
/* One sketch per minute and rank; both ends enforce it. */
#define LIMIT_SKETCH_BYTES_PER_RANK 8192u
/* How far a hostile sketch may unpack: some 300 mangled names of 200 bytes are 60 kB. */
#define LIMIT_SKETCH_UNPACKED_BYTES (128u << 10)
/* A function below 0.1% of the time means nothing. Kernels: as many as a step keeps. A launcher's
 * environment has some tens of relevant variables. */
#define LIMIT_SKETCH_FUNCTIONS	 512u
#define LIMIT_SKETCH_KERNELS	 192u
#define LIMIT_SKETCH_SETTINGS	 128u
#define LIMIT_SKETCH_VALUE_BYTES 256u

/* ---- the recorded input of analysis/ (node/journal.h) ---- */
/* Records of one block: 8 ms of a node with a million records a second; 0.8 MB in memory. */
#define LIMIT_JOURNAL_RECORDS 8192u
/* Events of one block: turns of 64 ranks; a step takes some 200 bytes. */
#define LIMIT_JOURNAL_EVENT_BYTES (1u << 20)
/* Packed; incompressible records take some 128 bytes each. */
#define LIMIT_JOURNAL_BLOCK_BYTES (4u << 20)
/* Settings that determine memory: sysomd's default, and the largest roofline.learn_max. */
#define LIMIT_JOURNAL_LAUNCHES (1u << 16)
#define LIMIT_JOURNAL_LEARN    100000u
/* Memory of all ranks' models while a file is read: 64 ranks with default settings take 1.35 GB. */
#define LIMIT_JOURNAL_MODEL_BYTES (3ull << 29)
/* Bytes of models allocated in all as ranks come and go, per byte of the file. A model takes 21 MB
 * by default, and a real rank writes far more than 20 KB. */
#define LIMIT_JOURNAL_WORK 1024u

/* ---- in the cluster (aggregator/) ---- */
/* 10,000 nodes of 8 ranks (docs/DESIGN.md, budgets), and space for their restarts. One node has at
 * most LIMIT_NODE_PROCESSES ranks. */
#define LIMIT_FLEET_NODES 16384u
#define LIMIT_FLEET_RANKS 131072u
/* Distinct kernel counts per step in one job: its stages, and variants due to skew. */
#define LIMIT_FLEET_PACES 64u
/* A node usually runs one job; made-up names cannot take more than this. */
#define LIMIT_FLEET_JOBS 16384u
/* The latest sketches as received, at most 8 KiB each: 80,000 ranks send some 4 KiB each. */
#define LIMIT_FLEET_SKETCH_BYTES (512ull << 20)
/* How long a window waits for the first beat of its connection: twelve beat periods. */
#define LIMIT_FLEET_HEAR_NS 60000000000ull
/* Commands queued for a node's next beat: as many as one reply holds. */
#define LIMIT_FLEET_COMMANDS 64u
/* Windows requested per minute and job (INV-10): for a suspect and two peers, five times. */
#define LIMIT_PULL_WINDOWS 16u
/* Jobs whose requests are joined from pieces of several nodes, and open requests of each: some 20 MB a
 * job. Clusters have some serving jobs with instances on different nodes. */
#define LIMIT_FLEET_JOINED	    16u
#define LIMIT_FLEET_JOINED_REQUESTS 4096u
/* Windows requested once in ten minutes from a job that hangs: the stacks of its ranks, 100 kB
 * each. */
#define LIMIT_PULL_HANG_WINDOWS 256u
/* ---- comparing the ranks of a job (analysis/cross/cross.h) ---- */
/* 32 groups per beat; ranks may be one beat period apart, and comparison waits half a period. */
#define LIMIT_CROSS_ROWS	96u
#define LIMIT_CROSS_GROUP_STEPS (1u << 20)
/* Stages times kinds of work; pipelines of 64 stages exist. */
#define LIMIT_CROSS_ROLES 256u
/* Sampled collectives of a job at a time: 24 per rank and beat, shared by a communicator's
 * ranks. */
#define LIMIT_CROSS_COLLS (1u << 17)
/* Collectives of a beat that a rank keeps until its step numbers are aligned: a few suffice. */
#define LIMIT_CROSS_UNMATCHED 8u
/* Ranks of one collective that are examined; more would add nothing. */
#define LIMIT_CROSS_ENTRIES 4096u
/* The most launched kernels identify a rank's kind of work; a step has some hundred names. */
#define LIMIT_ROLE_KERNELS 64u
/* Simultaneous faults of one job with different starts. */
#define LIMIT_CROSS_FINDINGS 64u
/* ---- waterline and baselines ---- */
/* Functions per role: a rank's sketch has at most 512, and ranks of a role run the same ones. */
#define LIMIT_WATERLINE_FUNCTIONS 4096u
/* Sketches of a role in the sliding window; in larger roles every n-th rank contributes. */
#define LIMIT_WATERLINE_SKETCHES 256u
/* Runs kept per job and role: three suffice to estimate the spread between runs. */
#define LIMIT_BASELINE_RUNS 5u
/* Rows of all jobs, at most 8 KiB each; the least recently used go first. */
#define LIMIT_BASELINES 8192u
/* One transaction with one fsync; a reply waits at most this long. */
#define LIMIT_COMMIT_WINDOWS 64u
#define LIMIT_COMMIT_NS	     20000000ull
/* Rules that keep some jobs' evidence longer or shorter, and their text. */
#define LIMIT_RETENTION_RULES	   64
#define LIMIT_RETENTION_TEXT_BYTES 4096
/* Messages received but not yet committed; senders of more are asked to retry. */
#define LIMIT_PENDING_BYTES (256ull << 20)
/* Messages being received or handled: twice LIMIT_PENDING_BYTES. Above it the slowest peer is
 * disconnected. */
#define LIMIT_INGEST_BUFFER_BYTES (512ull << 20)
/* Disconnected senders whose CPU time use is remembered, 400 bytes each. */
#define LIMIT_SENDERS_OWING 4096u
/* Incidents that new windows may still join, and distinct ranks in one. */
#define LIMIT_INCIDENTS_LIVE 1024u
#define LIMIT_INCIDENT_RANKS 4096u
/* Findings without windows that wait for the committer: a fleet with 1,000 jobs in trouble at
 * once. */
#define LIMIT_COMMIT_FINDINGS 1024u
/* Alerts that fire at a time; Alertmanager's pages become useless far earlier. */
#define LIMIT_ALERTS 1024u
/* Findings per incident: a few slow ranks, found one by one. */
#define LIMIT_INCIDENT_FINDINGS 32u
/* Functions of spikes per incident, 1.9 KB each; the longest ones. */
#define LIMIT_INCIDENT_SPIKES 8u
/* Excerpts (analysis/cause/excerpt.h), some 50 KB each, of all live incidents. */
#define LIMIT_INCIDENT_EXCERPT_BYTES (200u << 20)
/* Ranks per incident that a diagnosis examines: this many suspects, and this many peers. */
#define LIMIT_VERDICT_RANKS 32u
/* What an excerpt keeps: the entries with most time. Longer mangled names are cut. */
#define LIMIT_EXCERPT_FUNCTIONS	 256u
#define LIMIT_EXCERPT_KERNELS	 192u
#define LIMIT_EXCERPT_NAME_BYTES 1024u
#define LIMIT_EXCERPT_POOL_BYTES (512u << 10)
/* Collectives per excerpt, 32 bytes each. If there are more, it keeps one in 2, 4, 8 ... */
#define LIMIT_EXCERPT_COLLECTIVES 1024u
/* Collectives of all excerpts that split one ledger's communication: some milliseconds of work. */
#define LIMIT_COLL_SPLIT 65536u
/* OS signals listed per incident: with several culprits, the strongest. */
#define LIMIT_INCIDENT_SIGNALS 128u
/* Threads that build answers: a page takes one of them some milliseconds, and detection needs a
 * core. */
#define LIMIT_API_WORKERS 4u
/* Requests that wait for these threads; clients of more are asked to retry. One per connection. */
#define LIMIT_API_WAITING 256u
/* Rows of answers of the HTTP API. */
#define LIMIT_API_INCIDENTS 1000u
/* One page of a list; clients request the next one. The only writing thread needs less than a
 * millisecond for it, and /healthz waits no longer. */
#define LIMIT_API_LIST_BYTES (1u << 20)
#define LIMIT_API_RANKS	     1000u
#define LIMIT_API_WINDOWS    2000u
/* Requests about symbols: a PyTorch process maps 320 files, and a window has some 10,000 addresses.
 * The largest body takes 20 bytes per address. */
#define LIMIT_API_SYMBOL_FILES	    4096u
#define LIMIT_API_SYMBOL_OBJECTS    1024u
#define LIMIT_API_SYMBOL_ADDRESSES  16384u
#define LIMIT_API_SYMBOL_BODY_BYTES (1u << 20)
/* Requests that wait for a disk; clients of more are asked to retry. */
#define LIMIT_API_SYMBOL_WAITING 64u

/* ---- CPU stacks (model/stack.h) ---- */
/* A PyTorch process maps some 320 files; a node of 8 ranks and their loaders shares most. */
#define LIMIT_STACK_OBJECTS (1u << 16)
/* One period of a node: 5 s at 99 Hz on 128 CPUs are 63,360 samples of about 60 frames, if all
 * differ. */
#define LIMIT_STACK_SAMPLES (1u << 18)
#define LIMIT_STACKS	    (1u << 17)
/* Recorded context switches: 5 s of 26 threads with 1,000 records per second each. */
#define LIMIT_STACK_SWITCHES (1u << 17)
/* One entry per recorded thread (at most SAMPLER_SWITCH_THREADS) in each of 32 batches. */
#define LIMIT_STACK_SWITCH_THREADS (1u << 14)
#define LIMIT_STACK_FRAMES	   (1u << 23)
#define LIMIT_STACK_STRINGS	   (1u << 18)
#define LIMIT_STACK_STRING_BYTES   (32u << 20)
/* Kernel, native and Python frames of one stack together. PyTorch under autograd reaches some 150;
 * deep recursion is cut. */
#define LIMIT_STACK_DEPTH 1024u
/* Per window: a minute of one rank with 30 busy threads at 99 Hz, mostly shared stacks. */
#define LIMIT_WINDOW_STACK_FRAMES  (1u << 20)
#define LIMIT_WINDOW_STACK_SAMPLES (1u << 16)
/* A minute of a few launch threads at 1,000 switches per second. */
#define LIMIT_WINDOW_SWITCHES	    (1u << 16)
#define LIMIT_WINDOW_SWITCH_THREADS (1u << 12)
/* For a window sent without its records: some 100 kB packed. */
#define LIMIT_WINDOW_SUMMARY_STACK_FRAMES (1u << 15)

/* Functions of one profile: a PyTorch process shows some 20,000; names take 60 bytes each. */
#define LIMIT_PROFILE_FUNCTIONS	 (1u << 18)
#define LIMIT_PROFILE_NAME_BYTES (64u << 20)

/* Lines of a folded file: a day of a node at 99 Hz has fewer distinct stacks, of some 2 kB each. */
#define LIMIT_FOLDED_LINES (8u << 20)
#define LIMIT_FOLDED_BYTES (2ull << 30)
/* An incident's file (`sysom replay window --incident`), which is an answer of the aggregator. A
 * value takes some 20 bytes of text and a hundred bytes of memory. */
#define LIMIT_REPLAY_JSON_BYTES	 (16u << 20)
#define LIMIT_REPLAY_JSON_VALUES 1000000u

/* Packed stacks that sysomd keeps. Windows ask for the last minutes, as far back as the recorder
 * reaches. */
#define LIMIT_STACKS_KEPT_BYTES (12u << 20)
#define LIMIT_STACKS_KEPT_NS	180000000000ull

/* Build IDs that the aggregator was already asked about. A node with 8 ranks of PyTorch maps
 * some 400 files; if the whole node is sampled, some thousand. Each entry takes 64 bytes and its
 * path. */
#define LIMIT_OFFER_FILES      4096u
#define LIMIT_OFFER_PATH_BYTES 1024u

/* ---- symbols (symbol/) ---- */
/* A note segment holds the Build ID, the ABI tag and a property: some hundred bytes. */
#define LIMIT_SYMBOL_NOTE_BYTES 4096
#define LIMIT_SYMBOL_SEGMENTS	128u
/* A 1 GB debug file has some millions; 2^26 rows of 32 bytes are 2 GiB of index file. */
#define LIMIT_SYMBOLS (1u << 26)
/* C++ can mangle longer names; those are cut and not demangled. */
#define LIMIT_SYMBOL_NAME_BYTES 16384u
/* Files whose digest is cached, 80 bytes each; a node with 8 ranks of PyTorch maps some 400. */
#define LIMIT_SYMBOL_CONTENTS 2048u
/* .gnu_debugdata unpacked, and the memory for unpacking: libxul's has 8 MB. */
#define LIMIT_SYMBOL_MINI_BYTES (64u << 20)
/* LZMA packs a symbol table to between a third and a tenth, but zeros to a seven-thousandth. */
#define LIMIT_SYMBOL_MINI_RATIO 64u
/* Files in a Build-ID directory, 80 bytes of memory each. A distribution has 170,000 debug
 * files. */
#define LIMIT_SYMBOL_FILES (1u << 19)
/* One upload; debug files of the largest CUDA libraries are 3 to 5 GB. */
#define LIMIT_SYMBOL_FILE_BYTES (8ull << 30)
/* Uploads at a time; each holds a descriptor and reserves part of the directory. */
#define LIMIT_SYMBOL_UPLOADS 64u
/* The part of an upload in one request. */
#define LIMIT_SYMBOL_CHUNK_BYTES (64u << 20)

/* ---- the CPU sampler (sampler/, bpf/) ---- */
/* Sampling a whole training node sees some thousand processes; the kernel's map has this size. */
#define LIMIT_SAMPLER_PROCESSES 4096u
/* A frame has 20 bits for the file (bpf/sampler_format.h). */
#define LIMIT_SAMPLER_FILES 0xfffffu
/* Stacks of one period in user space: 5 s of 64 CPUs at 999 Hz are 320,000 samples. On a busy
 * PyTorch node they have some 10,000 distinct stacks of 400 bytes. */
#define LIMIT_SAMPLER_STACK_BYTES (16u << 20)
/* Counts of one period in the kernel, in two sets, 160 bytes each: at most 2 x 20 MiB. 128 CPUs at
 * 200 Hz fill one in 5 s if no two samples are alike. Samples without space are counted as lost. */
#define LIMIT_SAMPLER_COUNTS (1u << 17)
/* Switch records that wait for a drain, 208 bytes each: the difference is room in a batch for the
 * records that a drain adds. */
#define LIMIT_SAMPLER_SWITCHES (LIMIT_STACK_SWITCHES - 4096u)
/* Kernel symbols: a distribution's kernel with modules has 250,000, of which a third are code. */
#define LIMIT_SAMPLER_KERNEL_SYMBOLS	(1u << 19)
#define LIMIT_SAMPLER_KERNEL_NAME_BYTES (16u << 20)
