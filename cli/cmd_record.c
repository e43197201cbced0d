/* SPDX-License-Identifier: Apache-2.0
 * `sysom record` needs no sysomd: the sampler is part of this program. Equal stacks are merged as they are
 * drained, so memory grows with the number of different stacks, not with time. */
#include <errno.h>
#include <getopt.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/check.h"
#include "base/clock.h"
#include "base/job_key.h"
#include "base/text/json_text.h"
#include "base/text/jsonget.h"
#include "cli/commands.h"
#include "cli/profile/profile_out.h"
#include "cli/run_as.h"
#include "cli/text/outfile.h"
#include "render/term.h"
#include "sampler/sampler.h"

#define PIDS_MAX 64u
#define DRAIN_NS 1000000000ull
/* The unwind tables of a PyTorch process take some seconds when nobody has sampled it before. */
#define READY_NS 15000000000ull
/* No table was pending for this long: all are ready. */
#define SETTLED_NS 200000000ull

struct record_args {
	struct sampler_options sampler;
	struct profile_out out;
	struct options client; /* of --rank: job, control */
	uint32_t pids[PIDS_MAX];
	uint32_t pid_count;
	int rank;   /* -1: not given */
	int format; /* enum profile_format; -1: by the file's name */
	int mode;   /* above SAMPLER_COPY */
	bool json, debuginfod, no_wait;
	double off_cpu_min_ms;
	const char *symbols; /* URL of an aggregator; NULL: only local files give names */
	double seconds;	     /* 0: until the command ends, or Ctrl-C */
	char **command;	     /* NULL: none */
	const char *user;
	struct run_as run_as; /* of the command */
};

struct recording {
	struct record_args *a;
	struct outfile out;
	struct sampler *sampler;
	struct reader *reader;
	struct stack_batch total;
	struct sampler_stats before, after;
	uint64_t begin_ns, end_ns, realtime_ns, samples;
	pid_t child;
	int child_fd, child_status;
	bool child_ended;
	bool live; /* progress */
};

static volatile sig_atomic_t stopped;

/* ---- arguments ---- */

/* Appends comma-separated process ids. */
static const char *take_pids(void *to, const char *text)
{
	struct record_args *a = to;
	const char *at = text;

	while (*at) {
		char *end;
		long v = strtol(at, &end, 10);

		if (end == at || v <= 0 || v > INT32_MAX || (*end && *end != ',') ||
		    a->pid_count == PIDS_MAX)
			break;
		a->pids[a->pid_count++] = (uint32_t)v;
		at = *end ? end + 1 : end;
	}
	return *text && !*at ? NULL : "at most 64 process ids, separated by commas";
}

#define AT(field) offsetof(struct record_args, field)

static const struct option_row rows[] = {
    {"pid", 'p', "PID[,PID...]", "these processes and their children", OPTION_TAKEN,
     .take = take_pids},
    {"rank", 'r', "R", "this rank's process, as the local sysomd knows it", OPTION_COUNT,
     .at = AT(rank), .most = INT32_MAX},
    {"job", 'J', "JOB", "the job of --rank", OPTION_TEXT, .at = AT(client.job)},
    {"all", 'a', NULL, "the whole node", OPTION_SWITCH, .at = AT(sampler.all_processes)},
    {"user", 0, "NAME", "run CMD as this user (root: as root under sudo)", OPTION_TEXT,
     .at = AT(user)},
    {"seconds", 'S', "S", "how long to record (default 10; with CMD: until it ends)", OPTION_NUMBER,
     .at = AT(seconds), .least = 0.01, .most = 86400 * 7},
    {"rate", 0, "HZ", "ticks per second and CPU, 10 to 999 (default 99)", OPTION_COUNT,
     .at = AT(sampler.rate_hz), .least = 10, .most = 999},
    {"fraction", 0, "PERCENT", "share of ticks that take a sample (default 100)", OPTION_COUNT,
     .at = AT(sampler.fraction_percent), .least = 1, .most = 100},
    {"no-off-cpu", 0, NULL, "no blocked time", OPTION_OFF, .at = AT(sampler.off_cpu)},
    {"off-cpu-min", 0, "MS", "shortest blocked time to record (default 1)", OPTION_NUMBER,
     .at = AT(off_cpu_min_ms), .least = 0.001, .most = 1e6},
    {"no-python", 0, NULL, "no CPython frames", OPTION_OFF, .at = AT(sampler.python)},
    {"mode", 0, "copy|bpf_tail|bpf", "the best sampling mode to try (default bpf)", OPTION_WORD,
     .at = AT(mode)},
    {"no-wait", 0, NULL, "start before the unwind tables are ready", OPTION_SWITCH,
     .at = AT(no_wait)},
    {"control", 'c', "PATH", "sysomd's control socket, for --rank", OPTION_TEXT,
     .at = AT(client.control)},
    {"output", 'o', "FILE", "default record.html; - is standard output", OPTION_TEXT,
     .at = AT(out.path)},
    {"format", 'f', "html|folded|pprof",
     "default by FILE: .folded .txt .collapsed, .pb.gz .pprof, .html", OPTION_WORD,
     .at = AT(format)},
    {"group", 0, "name|thread|none",
     "level below the root: thread names (default), threads, or none", OPTION_WORD,
     .at = AT(out.group)},
    {"blocked", 0, NULL, "folded stacks with blocked time instead of CPU time (ns)", OPTION_SWITCH,
     .at = AT(out.blocked)},
    {"debuginfod", 0, NULL, "ask the servers of DEBUGINFOD_URLS for symbols", OPTION_SWITCH,
     .at = AT(debuginfod)},
    {"symbols", 0, "URL", "ask this aggregator for symbols that no local file has", OPTION_TEXT,
     .at = AT(symbols)},
    {"json", 'j', NULL, "print what was recorded as JSON", OPTION_SWITCH, .at = AT(json)},
    {0},
};

static const struct command command = {
    .name = "record",
    .rows = rows,
    .args = "-p PID | --rank R [--job J] | -a | -- CMD...",
    .args_max = -1,
    .summary = "CPU stacks of processes as a flame graph, folded stacks or pprof",
    .status = "0 done, 1 nothing was recorded, 2 bad arguments, 3 failed; with CMD its status,\n"
	      "even if nothing was recorded",
};

static int bad(const char *flag, const char *value, const char *want)
{
	fprintf(stderr, "sysom record: %s %s: %s\n", flag, term_safe(value, 60), want);
	return EXIT_USAGE;
}

/* OPTIONS_GO_ON, or the exit status. */
static int parse(struct record_args *a, int argc, char **argv)
{
	struct client aggregator;
	int status, r, what;

	*a = (struct record_args){.out.path = "record.html", .rank = -1, .format = -1, .mode = -1};
	sampler_options_init(&a->sampler);
	a->sampler.fraction_percent = 100;
	status = options_read(&command, a, argc, argv);
	if (status != OPTIONS_GO_ON)
		return status;
	a->command = optind < argc ? argv + optind : NULL;
	what =
	    (a->pid_count > 0) + (a->rank >= 0) + a->sampler.all_processes + (a->command != NULL);
	if (what != 1) {
		fputs(what
			  ? "sysom record: use only one of -p, --rank, -a and -- CMD\n"
			  : "sysom record: nothing to record: use -p PID, --rank R, -a or -- CMD\n",
		      stderr);
		return EXIT_USAGE;
	}
	if (a->command && (r = run_as_find(&a->run_as, a->user)))
		return bad("--user", a->user,
			   r == -EPERM ? "only root can run a command as another user"
				       : "no such user");
	if (a->symbols && client_init_url(&aggregator, a->symbols))
		return bad("--symbols", a->symbols, "expected an http:// or https:// URL");
	if (a->off_cpu_min_ms > 0)
		a->sampler.off_cpu_min_ns = (uint64_t)(a->off_cpu_min_ms * 1e6);
	if (a->mode >= 0)
		a->sampler.mode_max = (enum sampler_mode)(SAMPLER_COPY + a->mode);
	a->out.format =
	    a->format < 0 ? profile_out_format(a->out.path) : (enum profile_format)a->format;
	if (a->format < 0 && a->out.format == PROFILE_HTML &&
	    !commands_html_name("record", a->out.path))
		return EXIT_USAGE;
	if (!a->seconds && !a->command)
		a->seconds = 10;
	return OPTIONS_GO_ON;
}

/* The exit status. */
static int find_rank(struct record_args *a)
{
	struct client_error e;
	const json_t *r;
	struct client c;
	json_t *n;
	size_t i;

	if (commands_control(&a->client, &c))
		return EXIT_USAGE;
	n = commands_node_status(&a->client, &c, &e);
	if (!n) {
		return commands_complain("record", &e);
	}
	json_array_foreach (json_object_get(n, "ranks"), i, r) {
		if (jsonget_integer(r, "rank") != a->rank ||
		    !strcmp(jsonget_text(r, "state"), "gone") ||
		    (a->client.job && !job_key_matches(jsonget_text(r, "job"), a->client.job)))
			continue;
		if (a->pid_count < PIDS_MAX && jsonget_integer(r, "pid") > 0)
			a->pids[a->pid_count++] = (uint32_t)jsonget_integer(r, "pid");
	}
	json_decref(n);
	if (a->pid_count)
		return 0;
	fprintf(stderr, "sysom record: no rank %d%s%s runs on this node (see sysom status)\n",
		a->rank, a->client.job ? " of job " : "",
		a->client.job ? term_safe(a->client.job, 60) : "");
	return EXIT_NOTHING;
}

/* ---- the command ---- */

static void on_stop(int signum)
{
	stopped = 1;
}

/* The child waits until the sampler knows it. */
static int start_command(struct recording *r, int *go)
{
	int gate[2], err = 0;
	char byte;

	if (pipe(gate))
		return -errno;
	fflush(NULL);
	r->child = fork();
	if (r->child == 0) {
		close(gate[1]);
		signal(SIGINT, SIG_DFL);
		signal(SIGTERM, SIG_DFL);
		if (read(gate[0], &byte, 1) != 1)
			_exit(127);
		close(gate[0]);
		err = run_as_become(&r->a->run_as);
		if (err) {
			fprintf(stderr, "sysom record: cannot run %s as user %u: %s\n",
				r->a->command[0], (unsigned)r->a->run_as.uid, strerror(-err));
			_exit(126);
		}
		execvp(r->a->command[0], r->a->command);
		fprintf(stderr, "sysom record: %s: %s\n", r->a->command[0], strerror(errno));
		_exit(errno == ENOENT ? 127 : 126);
	}
	if (r->child < 0)
		err = -errno;
	close(gate[0]);
	*go = gate[1];
	r->child_fd = err ? -1 : (int)syscall(SYS_pidfd_open, r->child, 0);
	return err;
}

static void look_at_child(struct recording *r)
{
	int status;

	if (r->child <= 0 || r->child_ended || waitpid(r->child, &status, WNOHANG) != r->child)
		return;
	r->child_ended = true;
	r->child_status = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

/* ---- recording ---- */

/* The whole recording has one sample per thread and stack. */
static int take(struct recording *r)
{
	struct stack_batch b;
	int err;

	stack_batch_init(&b, keyed_process());
	err = sampler_drain(r->sampler, &b);
	for (uint32_t i = 0; i < b.sample_count; i++) {
		b.samples[i].time_ns = r->begin_ns;
		b.samples[i].cpu = 0;
		r->samples += b.samples[i].count;
	}
	if (!err)
		err = stack_batch_merge(&r->total, &b, NULL, 0, 0, UINT64_MAX);
	if (err == -E2BIG) /* too many different stacks for a batch: print_written() counts them */
		err = 0;
	r->total.lost_samples += b.lost_samples;
	stack_batch_fini(&b);
	return err;
}

static void wait_for_events(struct recording *r, uint64_t until_ns)
{
	struct pollfd p[2] = {{.fd = sampler_fd(r->sampler), .events = POLLIN},
			      {.fd = r->child_ended ? -1 : r->child_fd, .events = POLLIN}};
	uint64_t now_ns = clock_monotonic_ns();
	int ms = now_ns < until_ns ? (int)((until_ns - now_ns) / 1000000) + 1 : 0;

	/* without a pidfd (before Linux 5.3) only polling sees the child's end */
	poll(p, 2, ms < 100 ? ms : 100);
	sampler_poll(r->sampler);
	look_at_child(r);
}

/* Waits until the processes are read and have unwind tables: earlier samples have gaps. */
static void get_ready(struct recording *r)
{
	uint64_t begin_ns = clock_monotonic_ns(), changed_ns = begin_ns, now_ns = begin_ns;
	struct stack_batch b;

	while (!stopped && now_ns - begin_ns < READY_NS && now_ns - changed_ns < SETTLED_NS) {
		struct sampler_stats s;

		wait_for_events(r, now_ns + 20000000);
		sampler_stats_get(r->sampler, &s);
		now_ns = clock_monotonic_ns();
		/* the first processes only: a target may start new ones all the time */
		if (s.first_pending)
			changed_ns = now_ns;
		if (r->live)
			fprintf(stderr, "\r\033[Kreading processes: %u left", s.first_pending);
	}
	if (r->live)
		fputs("\r\033[K", stderr);
	if (!stopped && now_ns - begin_ns >= READY_NS)
		fprintf(stderr,
			"sysom record: unwind tables were not ready after %s; some stacks will be "
			"truncated\n",
			term_span(READY_NS * 1e-9));
	stack_batch_init(&b, keyed_process());
	sampler_drain(r->sampler, &b);
	stack_batch_fini(&b);
}

static void show_progress(const struct recording *r, uint64_t now_ns)
{
	char of[40] = "";

	if (!r->live)
		return;
	if (r->a->seconds > 0)
		snprintf(of, sizeof(of), " of %s", term_span(r->a->seconds));
	fprintf(stderr, "\r\033[Krecording %s%s, %s samples; Ctrl-C stops and writes",
		term_span((double)(now_ns - r->begin_ns) * 1e-9), of,
		term_count((double)r->samples));
}

static int record(struct recording *r)
{
	uint64_t now_ns, drained_ns, until_ns = UINT64_MAX;
	int err = 0;

	sampler_stats_get(r->sampler, &r->before);
	r->begin_ns = drained_ns = now_ns = clock_monotonic_ns();
	r->realtime_ns = clock_realtime_ns();
	if (r->a->seconds > 0)
		until_ns = now_ns + (uint64_t)(r->a->seconds * 1e9);
	while (!stopped && !r->child_ended && now_ns < until_ns && !err) {
		uint64_t next_ns = drained_ns + DRAIN_NS;

		wait_for_events(r, next_ns < until_ns ? next_ns : until_ns);
		now_ns = clock_monotonic_ns();
		if (now_ns < next_ns)
			continue;
		err = take(r);
		drained_ns = now_ns;
		show_progress(r, now_ns);
	}
	if (!err)
		err = take(r);
	r->end_ns = clock_monotonic_ns();
	r->total.begin_ns = r->begin_ns;
	r->total.end_ns = r->end_ns;
	sampler_stats_get(r->sampler, &r->after);
	if (r->live)
		fputs("\r\033[K", stderr);
	return err;
}

static int add_targets(struct recording *r)
{
	struct record_args *a = r->a;
	uint32_t added = 0;

	for (uint32_t i = 0; i < a->pid_count; i++) {
		int err = sampler_add(r->sampler, a->pids[i], true);

		if (err)
			fprintf(stderr, "sysom record: process %u: %s\n", a->pids[i],
				strerror(-err));
		else
			added++;
	}
	return added || !a->pid_count ? 0 : -ESRCH;
}

/* ---- the end ---- */

static uint64_t lost_of(const struct sampler_stats *s)
{
	return s->lost_count_full + s->lost_stack_full + s->lost_ring_full + s->lost_mapping;
}

static bool sees_blocked(const struct recording *r)
{
	return r->a->sampler.off_cpu && r->after.mode > SAMPLER_COPY;
}

static void print_written(const struct recording *r, const struct profile_counts *n)
{
	const struct sampler_stats *s = &r->after;
	/* samples that did not fit into the merged batch are lost too */
	uint64_t lost = lost_of(s) - lost_of(&r->before) + r->samples - n->on_count - n->off_count;
	FILE *to = strcmp(r->a->out.path, "-") ? stdout : stderr;
	json_t *j;

	if (r->a->json) {
		j = json_pack(
		    "{s:o, s:s, s:s, s:o, s:o, s:f, s:I, s:o, s:I, s:o, s:I, s:I, s:I, s:I, s:I}",
		    "file", json_text(r->a->out.path), "format",
		    profile_out_format_name(r->a->out.format), "mode", sampler_mode_name(s->mode),
		    "why", json_text(s->why), "missing", json_text(s->missing), "seconds",
		    (double)(r->end_ns - r->begin_ns) * 1e-9, "samples", (json_int_t)n->on_count,
		    "on_cpu_ns", json_exact(n->on_ns), "blocked", (json_int_t)n->off_count,
		    "off_cpu_ns", json_exact(n->off_ns), "frames", (json_int_t)n->frames,
		    "truncated", (json_int_t)n->truncated, "scanned", (json_int_t)n->scanned,
		    "lost", (json_int_t)lost, "python_failed",
		    (json_int_t)(s->python_failed - r->before.python_failed));
		json_dumpf(j, to, JSON_COMPACT | JSON_REAL_PRECISION(9));
		fputc('\n', to);
		json_decref(j);
		return;
	}
	fprintf(to, "%s: %s on the CPU (%s)",
		*r->a->out.path == '-' ? "standard output" : r->a->out.path,
		term_counted((double)n->on_count, "sample", "samples"),
		term_span((double)n->on_ns * 1e-9));
	if (sees_blocked(r))
		fprintf(to, ", %s (%s)",
			term_counted((double)n->off_count, "blocking event", "blocking events"),
			term_span((double)n->off_ns * 1e-9));
	fprintf(to, ", %s frames; truncated %s, scanned %s, lost %s; mode %s%s%s\n",
		term_count((double)n->frames), term_count((double)n->truncated),
		term_count((double)n->scanned), term_count((double)lost),
		sampler_mode_name(s->mode), *s->why ? ": " : "", s->why);
	if (*s->missing)
		fprintf(to, "%s\n", s->missing);
}

/* On an error those frames stay without a name. */
static int ask_aggregator(const char *url, struct profile_names *names)
{
	struct client_error e = {.remedy = ""};
	struct client c;
	int err = client_init_url(&c, url) ?: profile_names_ask(names, &c, &e);

	if (err && err != -ENOMEM)
		fprintf(stderr, "sysom record: no names from %s: %s\n", term_safe(url, 100),
			term_safe(e.why, 300));
	return err == -ENOMEM ? err : 0;
}

/* Reports from /proc/PID/status why a process gave no sample. */
static void explain_no_samples(uint32_t pid)
{
	char name[64], line[256], where[80] = "";
	unsigned tracer = 0;
	char state = 0;
	FILE *f;

	snprintf(name, sizeof(name), "/proc/%u/status", pid);
	f = fopen(name, "re");
	while (f && fgets(line, sizeof(line), f))
		if (sscanf(line, "State: %c", &state) != 1)
			sscanf(line, "TracerPid: %u", &tracer);
	if (f)
		fclose(f);
	snprintf(name, sizeof(name), "/proc/%u/wchan", pid);
	f = fopen(name, "re");
	if (f && (!fgets(where, sizeof(where), f) || !strcmp(where, "0")))
		where[0] = 0;
	if (f)
		fclose(f);
	fprintf(stderr, "sysom record: process %u ", pid);
	if (!state || state == 'Z' || state == 'X')
		fprintf(stderr, "has ended\n");
	else if (state == 't')
		fprintf(stderr, "is stopped by its debugger (process %u)\n", tracer);
	else if (state == 'T')
		fprintf(stderr, "is stopped; use kill -CONT %u to continue it\n", pid);
	else if (state == 'D')
		fprintf(stderr, "hangs in the kernel%s%s and can't be interrupted\n",
			where[0] ? " in " : "", term_safe(where, 60));
	else if (state == 'R')
		fprintf(stderr, "is ready to run, but got no CPU\n");
	else
		fprintf(stderr, "slept the whole time%s%s\n", where[0] ? " in " : "",
			term_safe(where, 60));
}

static int write_profile(struct recording *r)
{
	struct symbol_resolver_options o = {
	    .debuginfod = r->a->debuginfod, .links = true, .index = symbol_reader_index};
	struct record_args *a = r->a;
	struct symbol_resolver *resolver = NULL;
	struct symbol_reader *files = NULL;
	struct profile_names *names = NULL;
	char title[160], note[400], blocked[40] = "";
	struct profile_counts n;
	int err;

	profile_out_count(&r->total, &n);
	if (!n.on_count && !n.off_count) {
		fprintf(stderr, "sysom record: no samples (mode %s%s%s)\n",
			sampler_mode_name(r->after.mode), *r->after.why ? ": " : "", r->after.why);
		for (uint32_t i = 0; i < a->pid_count && !a->command; i++)
			explain_no_samples(a->pids[i]);
		return -ENODATA;
	}
	if (a->command)
		snprintf(title, sizeof(title), "%s", term_safe(a->command[0], 100));
	else if (a->rank >= 0)
		snprintf(title, sizeof(title), "rank %d, pid %u", a->rank, a->pids[0]);
	else if (a->pid_count)
		snprintf(title, sizeof(title), "pid %u%s", a->pids[0],
			 a->pid_count > 1 ? " and others" : "");
	else
		snprintf(title, sizeof(title), "whole node");
	if (sees_blocked(r))
		snprintf(blocked, sizeof(blocked), " %s blocking events,",
			 term_count((double)n.off_count));
	snprintf(note, sizeof(note),
		 "%s at %s, %u Hz, %u%% of ticks; %s on the CPU,%s %s truncated, %s "
		 "scanned; mode %s.",
		 term_span((double)(r->end_ns - r->begin_ns) * 1e-9), term_time(r->realtime_ns),
		 a->sampler.rate_hz, a->sampler.fraction_percent,
		 term_counted((double)n.on_count, "sample", "samples"), blocked,
		 term_count((double)n.truncated), term_count((double)n.scanned),
		 sampler_mode_name(r->after.mode));
	a->out.title = title;
	a->out.note = note;
	a->out.realtime_ns = r->realtime_ns;
	a->out.period_ns = 100000000000ull / a->sampler.rate_hz / a->sampler.fraction_percent;
	err = symbol_reader_open(&files, r->reader, NULL);
	o.index_arg = files;
	err = err ? err : symbol_resolver_open(&resolver, &o);
	if (err)
		fprintf(stderr, "sysom record: no symbols: %s\n", strerror(-err));
	err = profile_names_open(&names, &r->total, files, resolver, "/proc");
	if (!err && a->symbols)
		err = ask_aggregator(a->symbols, names);
	if (!err)
		err = profile_out_write(&a->out, &r->total, names, r->out.f);
	err = outfile_close(&r->out, err);
	r->out.f = NULL;
	profile_names_close(names);
	symbol_reader_close(files);
	if (err)
		fprintf(stderr, "sysom record: %s: %s\n", a->out.path, strerror(-err));
	else
		print_written(r, &n);
	return err;
}

static int finish_command(struct recording *r)
{
	int status;

	if (r->child > 0 && !r->child_ended) {
		/* on timeout or Ctrl-C the command ends with the recording */
		kill(r->child, SIGTERM);
		while (waitpid(r->child, &status, 0) < 0 && errno == EINTR)
			;
		return EXIT_OK;
	}
	return r->child_status;
}

static int run(struct recording *r)
{
	int go = -1, err;

	err = reader_open(&r->reader, "/proc");
	r->a->sampler.reader = r->reader;
	err = err ? err : sampler_open(&r->sampler, &r->a->sampler);
	if (err) {
		fprintf(stderr, "sysom record: %s\n", strerror(-err));
		return err;
	}
	sampler_stats_get(r->sampler, &r->after);
	if (r->after.mode == SAMPLER_OFF) {
		fprintf(stderr,
			"sysom record: cannot take CPU stacks here: %s (sysom doctor shows more)\n",
			r->after.why);
		return -EPERM;
	}
	if (r->a->command) {
		err = start_command(r, &go);
		if (!err) {
			r->a->pids[0] = (uint32_t)r->child;
			r->a->pid_count = 1;
		}
	}
	if (!err)
		err = add_targets(r);
	if (!err && !r->a->command && !r->a->no_wait)
		get_ready(r);
	if (go >= 0 && (err || write(go, "g", 1) != 1))
		err = err ? err : -EPIPE;
	if (go >= 0)
		close(go);
	return err ? err : record(r);
}

int cmd_record_main(int argc, char **argv)
{
	struct sigaction sa = {.sa_handler = on_stop};
	struct record_args a;
	struct recording r = {.a = &a, .child_fd = -1, .live = term_error_is_live()};
	int err, status = parse(&a, argc, argv);

	if (status != OPTIONS_GO_ON)
		return status;
	status = a.rank >= 0 ? find_rank(&a) : EXIT_OK;
	if (status)
		return status;
	/* first, so that a bad path does not waste the recording */
	err = outfile_open(&r.out, a.out.path);
	if (err) {
		fprintf(stderr, "sysom record: %s: %s\n", a.out.path, strerror(-err));
		return EXIT_FAILED;
	}
	sigaction(SIGINT, &sa, NULL);
	sigaction(SIGTERM, &sa, NULL);
	stack_batch_init(&r.total, keyed_process());
	err = run(&r);
	if (!err)
		err = write_profile(&r);
	if (r.out.f)
		outfile_close(&r.out, err);
	status = finish_command(&r);
	if (r.child_fd >= 0)
		close(r.child_fd);
	stack_batch_fini(&r.total);
	sampler_close(r.sampler);
	reader_close(r.reader);
	/* the command ran, even if it used too little CPU for a sample */
	if (err && !(a.command && err == -ENODATA))
		return err == -ENODATA || err == -ESRCH ? EXIT_NOTHING : EXIT_FAILED;
	return a.command ? status : EXIT_OK;
}
