/* SPDX-License-Identifier: Apache-2.0
 * simjob.c - the launcher: parses the options, starts one process per rank as torchrun would (so
 * that the environment, including LD_PRELOAD, applies to each rank) and waits for them. */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <limits.h>
#include <linux/futex.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "sim/job.h"

#define CONTROL_ENV "SIMJOB_CONTROL_FD"

static const char usage_text[] =
    "usage: simjob [options]\n"
    "  --ranks N          processes, one simulated GPU each (default 8)\n"
    "  --seconds N        run for about N seconds (default 60); SIGUSR1 ends the run earlier,\n"
    "                     after the current step; 0: until --steps\n"
    "  --steps N          run exactly N steps\n"
    "  --mix NAME         train, accum, eval, tensor, serve or shard (default train)\n"
    "  --host-work WORK   of mix shard: pack:kib=N, pack:ms=N or lookups:count=N:dir=DIR\n"
    "  --comm-thread      of mix shard: a thread of its own packs and sends\n"
    "  --trace FILE...    replay traces (*.events.csv[.gz], Kineto *.json[.gz]), one per rank,\n"
    "                     or a directory with rankN.* files; replaces --mix\n"
    "  --stretch N        a trace's times are N times as long (1 to 1000, default 1):\n"
    "                     for hosts that can't launch as fast as the traced one\n"
    "  --skew X           kernels of each rank's step take exp(X z) times as long, z normal:\n"
    "                     inputs of uneven length (0 to 1, default 0)\n"
    "  --seed N           seed of jitter and choices (default 1)\n"
    "  --fault KIND:rank=R:start=STEP|Ss:steps=N:size=X[:kernel=NAME[:with=NAME]]\n"
    "                     slow, kernel, gaps, late, stop, stuck, variant, host, endless or\n"
    "                     mismatch; may be repeated; rank=all\n"
    "  --truth FILE       write what really happened, one JSON object a line\n"
    "  --explicit-steps B,E  call the functions of these names, if the process has them, at a\n"
    "                     step's begin(const double *work, unsigned count) and end()\n"
    "  --join FILE        run one rank of a job that a launcher starts (srun, torchrun). RANK or\n"
    "                     SLURM_PROCID is its number; all ranks of the job share FILE. Fault\n"
    "                     stop does not work here: simjob has to start the ranks\n"
    "  --verbose          progress on stderr\n";

static pid_t children[JOB_MAX_RANKS];
static volatile sig_atomic_t stop_signal, finish;

static void usage_error(const char *what, const char *arg)
{
	fprintf(stderr, "simjob: %s: %s; try --help\n", what, arg);
	exit(2);
}

static uint64_t number(const char *s, const char *what)
{
	char *end;
	unsigned long long v = strtoull(s, &end, 10);

	if (end == s || *end || *s == '-')
		usage_error(what, s);
	return v;
}

static void parse_fault(struct job_options *o, const char *arg)
{
	struct job_fault f = {.steps = UINT64_MAX, .size = 1.5};
	char copy[1024], *save = NULL, *t, *end;

	if (o->fault_count == JOB_MAX_FAULTS || strlen(arg) >= sizeof(copy))
		usage_error("--fault", arg);
	strcpy(copy, arg);
	t = strtok_r(copy, ":", &save);
	for (int i = 1; t && i <= JOB_FAULT_MISMATCH; i++)
		f.kind = strcmp(t, job_fault_names[i]) ? f.kind : (enum job_fault_kind)i;
	if (!f.kind)
		usage_error("--fault has no such kind", arg);
	while ((t = strtok_r(NULL, ":", &save))) {
		if (!strncmp(t, "rank=", 5)) {
			f.rank = strcmp(t + 5, "all") ? (int)number(t + 5, "--fault rank") : -1;
		} else if (!strncmp(t, "start=", 6)) {
			double v = strtod(t + 6, &end);

			if (end == t + 6 || v < 0 || (*end && strcmp(end, "s")))
				usage_error("--fault start", t);
			f.start_step = *end ? UINT64_MAX : (uint64_t)v;
			f.start_ns = (uint64_t)(v * 1e9);
		} else if (!strncmp(t, "steps=", 6)) {
			f.steps = number(t + 6, "--fault steps");
		} else if (!strncmp(t, "size=", 5)) {
			f.size = strtod(t + 5, &end);
			if (end == t + 5 || *end || f.size < 1 || f.size > 1000)
				usage_error("--fault size", t);
		} else if (!strncmp(t, "kernel=", 7)) {
			snprintf(f.kernel, sizeof(f.kernel), "%s", t + 7);
		} else if (!strncmp(t, "with=", 5)) {
			snprintf(f.variant, sizeof(f.variant), "%s", t + 5);
		} else {
			usage_error("--fault: not KEY=VALUE of it", t);
		}
	}
	if (f.kind == JOB_FAULT_KERNEL && !f.kernel[0])
		usage_error("--fault kernel needs kernel=NAME", arg);
	if (f.kind == JOB_FAULT_VARIANT && (!f.kernel[0] || !f.variant[0]))
		usage_error("--fault variant needs kernel=NAME:with=NAME", arg);
	o->faults[o->fault_count++] = f;
}

static void add_trace(struct job_options *o, const char *path)
{
	static const char *const forms[] = {"events.csv.gz", "events.csv", "json.gz", "json"};
	struct stat st;

	if (!o->traces)
		o->traces = job_alloc(JOB_MAX_RANKS, sizeof(*o->traces));
	if (stat(path, &st))
		usage_error("--trace", strerror(errno));
	if (!S_ISDIR(st.st_mode)) {
		if (o->trace_count == JOB_MAX_RANKS)
			usage_error("--trace", "too many");
		o->traces[o->trace_count++] = strdup(path);
		return;
	}
	for (size_t f = 0; f < sizeof(forms) / sizeof(forms[0]) && !o->trace_count; f++)
		for (int i = 0; i < JOB_MAX_RANKS; i++) {
			char file[PATH_MAX];

			snprintf(file, sizeof(file), "%s/rank%d.%s", path, i, forms[f]);
			if (access(file, R_OK))
				break;
			o->traces[o->trace_count++] = strdup(file);
		}
	if (!o->trace_count)
		usage_error("--trace: no rank0.* in", path);
}

static void check_options(struct job_options *o, int argc, char **argv, bool seconds)
{
	/* `--trace FILE FILE...`, from a pattern that the shell expanded. */
	for (; optind < argc; optind++) {
		if (!o->trace_count)
			usage_error("unexpected argument", argv[optind]);
		add_trace(o, argv[optind]);
	}
	if (o->ranks < 1 || o->ranks > JOB_MAX_RANKS)
		usage_error("--ranks", "1 to 64");
	for (int i = 0; i < o->fault_count; i++)
		if (o->faults[i].rank >= o->ranks)
			usage_error("--fault: rank", "not below --ranks");
	if (o->stretch < 1 || o->stretch > JOB_MAX_STRETCH)
		usage_error("--stretch", "1 to 1000");
	if (o->steps && !seconds)
		o->seconds = 0;
	if (!o->steps && !o->seconds)
		usage_error("nothing to do", "--seconds or --steps");
}

static void parse_marks(struct job_options *o, const char *arg)
{
	const char *comma = strchr(arg, ',');

	if (!comma)
		usage_error("--explicit-steps", arg);
	/* a copy, because the ranks get argv again */
	o->mark_begin = strndup(arg, (size_t)(comma - arg));
	o->mark_end = comma + 1;
}

static double parse_skew(const char *arg)
{
	char *end;
	double v = strtod(arg, &end);

	if (end == arg || *end || !(v >= 0 && v <= 1))
		usage_error("--skew", arg);
	return v;
}

static void parse(struct job_options *o, int argc, char **argv)
{
	static const struct option options[] = {
	    {"ranks", 1, NULL, 'r'},
	    {"seconds", 1, NULL, 's'},
	    {"steps", 1, NULL, 'n'},
	    {"mix", 1, NULL, 'm'},
	    {"trace", 1, NULL, 't'},
	    {"stretch", 1, NULL, 'x'},
	    {"seed", 1, NULL, 'S'},
	    {"fault", 1, NULL, 'f'},
	    {"truth", 1, NULL, 'T'},
	    {"explicit-steps", 1, NULL, 'e'},
	    {"verbose", 0, NULL, 'v'},
	    {"host-work", 1, NULL, 'w'},
	    {"comm-thread", 0, NULL, 'c'},
	    {"help", 0, NULL, 'h'},
	    {"skew", 1, NULL, 'k'},
	    {"join", 1, NULL, 'j'},
	    {NULL, 0, NULL, 0},
	};
	bool seconds = false;
	int c;

	*o = (struct job_options){
	    .ranks = 8, .seconds = 60, .seed = 1, .stretch = 1, .mix = "train"};
	job_host_parse(&o->host, "pack");
	while ((c = getopt_long(argc, argv, "vh", options, NULL)) != -1) {
		switch (c) {
		case 'r':
			o->ranks = (int)number(optarg, "--ranks");
			break;
		case 's':
			o->seconds = number(optarg, "--seconds");
			seconds = true;
			break;
		case 'n':
			o->steps = number(optarg, "--steps");
			break;
		case 'm':
			o->mix = optarg;
			break;
		case 't':
			add_trace(o, optarg);
			break;
		case 'x':
			o->stretch = (unsigned)number(optarg, "--stretch");
			break;
		case 'k':
			o->skew = parse_skew(optarg);
			break;
		case 'S':
			o->seed = number(optarg, "--seed");
			break;
		case 'f':
			parse_fault(o, optarg);
			break;
		case 'T':
			o->truth = optarg;
			break;
		case 'e':
			parse_marks(o, optarg);
			break;
		case 'w':
			if (!job_host_parse(&o->host, optarg))
				usage_error("--host-work", optarg);
			break;
		case 'j':
			o->join = optarg;
			break;
		case 'c':
			o->comm_thread = true;
			break;
		case 'v':
			o->verbose = true;
			break;
		case 'h':
			fputs(usage_text, stdout);
			exit(0);
		default:
			exit(2);
		}
	}
	check_options(o, argc, argv, seconds);
}

static void on_signal(int sig)
{
	if (sig == SIGUSR1)
		finish = 1;
	else
		stop_signal = sig;
}

static void kill_all(const struct job_options *o, int sig)
{
	for (int i = 0; i < o->ranks; i++)
		if (children[i] > 0)
			kill(children[i], sig);
}

static void set_number(const char *name, int value)
{
	char text[16];

	snprintf(text, sizeof(text), "%d", value);
	setenv(name, text, 1);
}

/* For the ranks, the doubles beside this program come first. */
static void set_library_path(void)
{
	char path[PATH_MAX + 64], list[2 * PATH_MAX + 96];
	const char *old = getenv("LD_LIBRARY_PATH");

	if (!job_rank_library_dir(path, sizeof(path)))
		return;
	snprintf(list, sizeof(list), "%s%s%s", path, old && *old ? ":" : "", old ? old : "");
	setenv("LD_LIBRARY_PATH", list, 1);
}

static void set_job(const struct job_options *o, int fd)
{
	set_number(CONTROL_ENV, fd);
	set_number("WORLD_SIZE", o->ranks);
	set_number("LOCAL_WORLD_SIZE", o->ranks);
	setenv("MASTER_ADDR", "127.0.0.1", 0);
	setenv("MASTER_PORT", "29500", 0);
	if (!getenv("SIM_DEVICE_COUNT") && o->ranks > 8)
		set_number("SIM_DEVICE_COUNT", o->ranks < 16 ? o->ranks : 16);
	set_library_path();
}

static void set_rank(const struct job_options *o, int rank)
{
	set_number("RANK", rank);
	set_number("LOCAL_RANK", rank % 16);
	set_number("SIM_SEED", (int)(o->seed * 1000 % 1000000) + rank + 1);
}

static void start_ranks(const struct job_options *o, int fd, char **argv)
{
	set_job(o, fd);
	for (int i = 0; i < o->ranks; i++) {
		set_rank(o, i);
		children[i] = fork();
		if (children[i] == 0) {
			execv("/proc/self/exe", argv);
			_exit(127);
		}
		if (children[i] < 0) {
			perror("simjob: fork");
			kill_all(o, SIGKILL);
			exit(1);
		}
	}
}

/* Stops a rank that asked for it: SIGSTOP, a pause, SIGCONT. */
static void serve_stop(struct job_control *c)
{
	uint32_t ms = __atomic_load_n(&c->stop_ms, __ATOMIC_ACQUIRE);
	struct timespec ts = {ms / 1000, (long)(ms % 1000) * 1000000};

	if (!ms || c->stop_rank >= JOB_MAX_RANKS)
		return;
	kill(children[c->stop_rank], SIGSTOP);
	nanosleep(&ts, NULL);
	__atomic_store_n(&c->stop_ms, 0, __ATOMIC_RELEASE);
	kill(children[c->stop_rank], SIGCONT);
	syscall(SYS_futex, &c->stop_ms, FUTEX_WAKE, 1, NULL, NULL, 0);
}

static bool has_fault(const struct job_options *o, enum job_fault_kind kind)
{
	for (int i = 0; i < o->fault_count; i++)
		if (o->faults[i].kind == kind)
			return true;
	return false;
}

static int wait_ranks(const struct job_options *o, struct job_control *c)
{
	struct timespec tick = {.tv_nsec = 50000000};
	bool ended = false, stuck = has_fault(o, JOB_FAULT_STUCK) ||
				    has_fault(o, JOB_FAULT_ENDLESS) ||
				    has_fault(o, JOB_FAULT_MISMATCH);
	int left = o->ranks, rc = 0;

	while (left) {
		int status;
		pid_t pid = waitpid(-1, &status, WNOHANG);

		if (pid > 0) {
			for (int i = 0; i < o->ranks; i++) {
				if (children[i] != pid)
					continue;
				children[i] = 0;
				left--;
				if (status && !ended) {
					fprintf(stderr, "simjob: rank %d ended with %s %d\n", i,
						WIFSIGNALED(status) ? "signal" : "status",
						WIFSIGNALED(status) ? WTERMSIG(status)
								    : WEXITSTATUS(status));
					rc = 1;
					ended = true;
					kill_all(o, SIGKILL);
				}
			}
			continue;
		}
		if (finish)
			__atomic_store_n(&c->finish, 1, __ATOMIC_RELEASE);
		if (stop_signal && !ended) {
			ended = true;
			rc = 128 + stop_signal;
			kill_all(o, SIGTERM);
		}
		if (stuck && o->seconds && !ended &&
		    sim_now() - c->start_ns > (o->seconds + 1) * 1000000000ull) {
			ended = true; /* a job that hangs on purpose */
			kill_all(o, SIGKILL);
		}
		/* Returns at a request to stop a rank, or at the tick. */
		syscall(SYS_futex, &c->stop_ms, FUTEX_WAIT, 0, &tick, NULL, 0);
		serve_stop(c);
	}
	return rc;
}

static void truth_header(const struct job_options *o)
{
	FILE *f = o->truth ? fopen(o->truth, "w") : NULL;

	if (!o->truth)
		return;
	if (!f)
		usage_error("--truth", strerror(errno));
	fprintf(f, "{\"ranks\":%d,\"seed\":%llu,\"mix\":\"%s\",\"clock\":\"monotonic\"}\n",
		o->ranks, (unsigned long long)o->seed, o->trace_count ? "trace" : o->mix);
	fclose(f);
}

/* The function of the n-th collective; -1: there are fewer. */
static int collective_at(const struct job_phase *ph, unsigned n)
{
	for (unsigned i = 0; i < ph->count; i++)
		if (ph->actions[i].kind == JOB_COLLECTIVE && !n--)
			return ph->actions[i].collective;
	return -1;
}

static unsigned collectives(const struct job_phase *ph)
{
	unsigned n = 0;

	while (collective_at(ph, n) >= 0)
		n++;
	return n;
}

/* Index of the first collective whose function differs; if none does, the number of a's
 * collectives. */
static unsigned same_collectives(const struct job_phase *a, const struct job_phase *b)
{
	unsigned n = 0;

	while (collective_at(a, n) >= 0 && collective_at(a, n) == collective_at(b, n))
		n++;
	return n;
}

/* Ranks with different collectives in their traces would wait for each other for ever. */
static void check_traces(const struct job_options *o)
{
	struct job_program first = {0};

	for (int t = 0; t < o->trace_count && t < o->ranks; t++) {
		struct job_program p = {0};

		if (job_trace_build(&p, o->traces[t], o->ranks, o->stretch))
			exit(2);
		if (t == 0) {
			first = p;
			continue;
		}
		if (p.phase_count != first.phase_count) {
			fprintf(stderr, "simjob: %s: %u steps, but %u in %s\n", o->traces[t],
				p.phase_count, first.phase_count, o->traces[0]);
			exit(2);
		}
		for (unsigned i = 0; i < p.phase_count; i++)
			if (collectives(&p.phases[i]) != collectives(&first.phases[i])) {
				fprintf(stderr,
					"simjob: %s: %u collectives in step %u, but %u in %s\n",
					o->traces[t], collectives(&p.phases[i]), i,
					collectives(&first.phases[i]), o->traces[0]);
				exit(2);
			} else if (same_collectives(&p.phases[i], &first.phases[i]) <
				   collectives(&p.phases[i])) {
				fprintf(stderr,
					"simjob: %s: collective %u of step %u is another "
					"function in %s\n",
					o->traces[t],
					same_collectives(&p.phases[i], &first.phases[i]), i,
					o->traces[0]);
				exit(2);
			}
	}
}

static struct job_control *map_control(int fd)
{
	struct job_control *c = mmap(NULL, sizeof(*c), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	if (c == MAP_FAILED) {
		perror("simjob: control");
		exit(1);
	}
	return c;
}

static void init_control(const struct job_options *o, struct job_control *c)
{
	c->host_kib = o->host.ms ? job_host_kib_of(o->host.ms) : 0;
	c->start_ns = sim_now();
	c->last_step = o->steps ? o->steps : UINT64_MAX;
	truth_header(o);
}

/* Becomes the rank that another launcher numbered. The first one makes the shared file. */
static void join_ranks(const struct job_options *o, char **argv)
{
	const char *rank = getenv("RANK") ? getenv("RANK") : getenv("SLURM_PROCID");
	int fd = open(o->join, O_RDWR | O_CREAT, 0600), n = rank ? atoi(rank) : -1;
	struct job_control *c;

	if (n < 0 || n >= o->ranks)
		usage_error("--join: RANK or SLURM_PROCID", rank ? rank : "not set");
	if (fd < 0 || flock(fd, LOCK_EX) || ftruncate(fd, sizeof(*c)))
		usage_error("--join", strerror(errno));
	c = map_control(fd);
	if (!c->start_ns)
		init_control(o, c);
	flock(fd, LOCK_UN);
	set_job(o, fd);
	set_rank(o, n);
	execv("/proc/self/exe", argv);
	perror("simjob: exec");
	exit(1);
}

int main(int argc, char **argv)
{
	const char *inherited = getenv(CONTROL_ENV), *rank = getenv("RANK");
	struct job_program probe = {0};
	struct job_control *control;
	struct job_options o;
	struct sigaction sa = {.sa_handler = on_signal};
	int fd;

	parse(&o, argc, argv);
	if (inherited && rank)
		return job_rank_run(&o, map_control(atoi(inherited)), atoi(rank));
	if (!o.trace_count && !job_mix_build(&probe, o.mix, o.ranks))
		usage_error("--mix", job_mix_names());
	check_traces(&o);
	if (o.join)
		join_ranks(&o, argv);
	fd = memfd_create("simjob", 0);
	if (fd < 0 || ftruncate(fd, sizeof(*control))) {
		perror("simjob: memfd");
		return 1;
	}
	control = map_control(fd);
	init_control(&o, control);
	sigaction(SIGTERM, &sa, NULL);
	sigaction(SIGINT, &sa, NULL);
	sigaction(SIGUSR1, &sa, NULL);
	if (o.verbose)
		fprintf(stderr, "simjob: %d ranks, %s, seed %llu\n", o.ranks,
			o.trace_count ? "trace" : o.mix, (unsigned long long)o.seed);
	start_ranks(&o, fd, argv);
	return wait_ranks(&o, control);
}
