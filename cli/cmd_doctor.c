/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/text/json_text.h"
#include "base/text/jsonget.h"
#include "cli/commands.h"
#include "cli/doctor/doctor.h"
#include "cli/paths.h"
#include "render/term.h"
#include "model/thresholds.h"

#define CHILD_SECONDS 10

void doctor_add(struct doctor *d, const char *name, enum doctor_state state, const char *remedy,
		const char *fmt, ...)
{
	struct doctor_line *l;
	va_list ap;

	if (d->count == DOCTOR_LINES_MAX)
		return;
	l = &d->lines[d->count++];
	l->name = name;
	l->state = state;
	l->remedy = state == DOCTOR_OK ? "" : remedy;
	va_start(ap, fmt);
	vsnprintf(l->detail, sizeof(l->detail), fmt, ap);
	va_end(ap);
}

int doctor_child(void (*fn)(void *arg, int fd), void *arg, char *out, size_t out_bytes)
{
	size_t n = 0;
	int fds[2], status = 0;
	ssize_t got;
	pid_t pid;

	*out = '\0';
	if (pipe(fds))
		return 125;
	fflush(NULL);
	pid = fork();
	if (pid == 0) {
		close(fds[0]);
		alarm(CHILD_SECONDS); /* survives an exec */
		fn(arg, fds[1]);
		_exit(0);
	}
	close(fds[1]);
	while (pid > 0 && (got = read(fds[0], out + n, out_bytes - 1 - n)) != 0) {
		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			break;
		n += (size_t)got;
		if (n == out_bytes - 1)
			break;
	}
	out[n] = '\0';
	close(fds[0]);
	if (pid < 0)
		return 125;
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	return WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
}

/* ---- the daemons ---- */

static void check_attach_socket(struct doctor *d)
{
	const char *remedy;
	char path[PATHS_BYTES];
	struct stat st;
	int r;

	paths_socket(path, "SYSOM_SOCKET_PATH", "sysomd.sock");
	r = paths_attach(path, &remedy);
	if (stat(path, &st)) {
		if (errno == EACCES)
			doctor_add(d, "attach socket", DOCTOR_FAIL,
				   "give jobs access to the socket's directory", "%s: %s", path,
				   strerror(errno));
		else
			doctor_add(d, "attach socket", DOCTOR_WARN, remedy,
				   "%s: %s; jobs run untraced until it exists", path,
				   strerror(errno));
		return;
	}
	if (!S_ISSOCK(st.st_mode) || (st.st_uid && st.st_uid != geteuid())) {
		doctor_add(d, "attach socket", DOCTOR_FAIL,
			   "remove it: a job uses a socket only if root or the job's user owns it",
			   "%s belongs to uid %u%s", path, (unsigned)st.st_uid,
			   S_ISSOCK(st.st_mode) ? "" : " and is not a socket");
		return;
	}
	if (!r)
		doctor_add(d, "attach socket", DOCTOR_OK, "", "%s", path);
	else
		doctor_add(d, "attach socket",
			   r == -EACCES || r == -EPERM ? DOCTOR_FAIL : DOCTOR_WARN, remedy,
			   "%s: %s", path, strerror(-r));
}

/* Whether a program other than NCCL uses the port of NCCL's RAS service. */
static void check_ras(struct doctor *d, const json_t *status)
{
	const json_t *ras = json_object_get(status, "ras");
	double asked = jsonget_number(ras, "questions"), bad = jsonget_number(ras, "nonsense"),
	       slow = jsonget_number(ras, "slow");

	if (!(asked > 0))
		return;
	doctor_add(d, "NCCL's RAS service", bad + slow > 0 ? DOCTOR_WARN : DOCTOR_OK,
		   "find out which program listens on that port, or set ras.port",
		   "port %.0f: %.0f questions about hangs; %.0f answers were not valid, %.0f came "
		   "too late",
		   jsonget_number(ras, "port"), asked, bad, slow);
}

/* What the aggregator deleted from jobs that exceeded their quota. */
static void check_quotas(struct doctor *d, const json_t *status)
{
	double windows = jsonget_number(status, "quota_windows");
	double incidents = jsonget_number(status, "quota_incidents");

	if (!json_object_get(status, "quota_windows"))
		return; /* sysomd, or an older aggregator */
	if (windows + incidents <= 0) {
		doctor_add(d, "quotas of jobs", DOCTOR_OK, "", "no job is beyond its quota");
		return;
	}
	doctor_add(d, "quotas of jobs", DOCTOR_WARN,
		   "raise store.job_max_bytes or store.job_max_incidents, if there is room",
		   "%.0f windows lost their evidence and %.0f incidents were removed, because "
		   "their jobs exceeded their quota",
		   windows, incidents);
}

/* Whether the receiver of the daemon's metrics accepts them. */
static void check_otlp(struct doctor *d, const char *daemon, const json_t *status)
{
	const json_t *otlp = json_object_get(status, "otlp");
	double sent = jsonget_number(otlp, "sent"), failed = jsonget_number(otlp, "failed");
	const char *fault = jsonget_text(otlp, "fault");

	if (!(sent + failed > 0))
		return; /* there is no receiver */
	doctor_add(
	    d, "metrics by OTLP", *fault ? DOCTOR_WARN : DOCTOR_OK,
	    "correct otlp.url, otlp.ca or otlp.token, or the receiver; /metrics has the same "
	    "metrics",
	    "%s: sets sent: %.0f; failed: %.0f; dropped: %.0f%s%s", daemon, sent, failed,
	    jsonget_number(otlp, "dropped"), *fault ? ": " : "", term_safe(fault, 160));
}

/* The daemon's status, owned by the caller; NULL: no answer. */
static json_t *check_http(struct doctor *d, const char *name, const struct client *c,
			  const char *remedy)
{
	struct client_error e;
	json_t *j;

	if (client_json(c, "/api/v1/status", &j, &e))
		doctor_add(d, name, e.status ? DOCTOR_FAIL : DOCTOR_WARN, remedy, "%s",
			   term_safe(e.why, 160));
	else
		doctor_add(d, name, DOCTOR_OK, "", "%s answers, version %s",
			   *c->socket ? c->socket : term_safe(c->url, 100),
			   term_safe(jsonget_text(j, "version"), 20));
	check_quotas(d, j);
	check_otlp(d, *c->socket ? "sysomd" : "the aggregator", j);
	return j;
}

static void check_os_signals(struct doctor *d, const json_t *status)
{
	const json_t *os = json_object_get(status, "os");

	if (!os)
		return; /* an older sysomd */
	if (strcmp(jsonget_text(os, "mode"), "bpf"))
		doctor_add(
		    d, "OS signals", DOCTOR_WARN,
		    "run sysomd as root or with CAP_BPF and CAP_PERFMON, on a kernel with BTF",
		    "%s: %s", strcmp(jsonget_text(os, "mode"), "proc") ? "off" : "from /proc only",
		    term_safe(jsonget_text(os, "why"), 160));
	else if (*jsonget_text(os, "missing"))
		doctor_add(d, "OS signals", DOCTOR_WARN, "use a newer kernel", "not available: %s",
			   term_safe(jsonget_text(os, "missing"), 300));
	else
		doctor_add(d, "OS signals", DOCTOR_OK, "", "by BPF");
}

/* Whether the aggregator gets the files that name functions. */
static void check_symbols(struct doctor *d, const json_t *status)
{
	const json_t *symbols = json_object_get(status, "symbols");

	if (symbols && *jsonget_text(symbols, "fault"))
		doctor_add(
		    d, "symbol files", DOCTOR_WARN,
		    "correct this; until then functions have fewer names (docs/symbols.md, What "
		    "sysomd sends)",
		    "sysomd can't upload them: %s", term_safe(jsonget_text(symbols, "fault"), 250));
	else if (symbols)
		doctor_add(d, "symbol files", DOCTOR_OK, "", "%.0f uploaded",
			   jsonget_number(symbols, "uploaded"));
}

static void check_capabilities(struct doctor *d, const json_t *status)
{
	json_t *list = json_object_get(status, "rights"), *right;
	size_t i;

	json_array_foreach (list, i, right) {
		char name[40];

		snprintf(name, sizeof(name), "%s", term_safe(jsonget_text(right, "without"), 38));
		doctor_add(d, "capability", DOCTOR_WARN,
			   "tracing, steps and incidents work without it (docs/sysomd.md, "
			   "Privileges)",
			   "sysomd has no %s: without %s", name,
			   term_safe(jsonget_text(right, "lost"), 160));
	}
	if (list && !json_array_size(list))
		doctor_add(d, "capability", DOCTOR_OK, "", "sysomd has all that it uses");
}

static void check_requests(struct doctor *d, const struct client *c)
{
	struct client_error e;
	json_t *requests = NULL;

	if (!client_json(c, "/api/v1/requests", &requests, &e))
		doctor_requests_check(d, requests);
	json_decref(requests);
}

/* --state-dir, else the running sysomd's directory, else its default. */
static const char *state_dir(const struct options *o)
{
	const char *set = getenv("SYSOM_STATE_DIR");
	static char dir[4096];
	struct client_error e;
	struct client c;
	json_t *j = NULL;

	if (o->state_dir)
		return o->state_dir;
	if (!commands_control(o, &c))
		j = commands_node_status(o, &c, &e);
	snprintf(dir, sizeof(dir), "%s", jsonget_text(j, "state_dir"));
	json_decref(j);
	if (*dir == '/')
		return dir;
	if (set && *set)
		return set;
	/* an unprivileged sysomd uses a directory of its user */
	if (geteuid() && access("/var/lib/sysom", W_OK)) {
		paths_socket(dir, "SYSOM_CONTROL_PATH", "control.sock");
		if (strrchr(dir, '/') > dir && strncmp(dir, "/run/sysom/", 11)) {
			*strrchr(dir, '/') = '\0';
			return dir;
		}
	}
	return "/var/lib/sysom";
}

static void check_daemons(struct doctor *d, const struct options *o)
{
	json_t *status = NULL, *requests = NULL;
	struct client_error e;
	struct client c;

	check_attach_socket(d);
	if (!commands_control(o, &c)) {
		if (access(c.socket, F_OK) == 0 && access(c.socket, W_OK))
			doctor_add(d, "control socket", DOCTOR_WARN,
				   "jobs are still traced; off, on and capture need root (sudo) or "
				   "sysomd's user",
				   "%s: %s", c.socket, strerror(errno));
		else
			status = check_http(d, "control socket", &c, PATHS_START);
		check_os_signals(d, status);
		check_ras(d, status);
		check_capabilities(d, status);
		check_symbols(d, status);
		doctor_jobs_status_check(d, status);
		check_requests(d, &c);
		json_decref(status);
	}
	if (commands_aggregator(o, &c))
		return;
	json_decref(
	    check_http(d, "aggregator", &c,
		       "start sysom-aggregator, or give its address with --url or SYSOM_URL; until "
		       "then sysomd keeps the windows"));
	if (!commands_list(&c, "requests", NULL, NULL, SIZE_MAX, &requests, &e))
		doctor_joined_check(d, requests);
	json_decref(requests);
}

/* ---- output ---- */

static void print_line(const struct doctor_line *l)
{
	static const char *const words[] = {"ok", "warn", "fail"};
	static const enum term_style styles[] = {TERM_GREEN, TERM_YELLOW, TERM_RED};

	printf("%s%-4s%s  %-16s %s\n", term_style(styles[l->state]), words[l->state],
	       term_style(TERM_PLAIN), l->name, term_safe(l->detail, TERM_COLUMNS_MAX));
	if (*l->remedy)
		printf("%24s%s%s%s\n", "", term_style(TERM_DIM), l->remedy, term_style(TERM_PLAIN));
}

static void print_json(const struct doctor *d, const size_t counts[3])
{
	static const char *const words[] = {"ok", "warn", "fail"};
	json_t *list = json_array(), *all;

	for (size_t i = 0; i < d->count; i++)
		json_array_append_new(list,
				      json_pack("{s:s, s:s, s:o, s:o}", "check", d->lines[i].name,
						"state", words[d->lines[i].state], "detail",
						json_text(d->lines[i].detail), "remedy",
						json_text(d->lines[i].remedy)));
	all = json_pack("{s:o, s:I, s:I, s:I}", "checks", list, "ok", (json_int_t)counts[0], "warn",
			(json_int_t)counts[1], "fail", (json_int_t)counts[2]);
	commands_print_new(all);
}

/* ---- thresholds ---- */

static void print_threshold(const struct threshold_row *r, const char *group)
{
	char name[64];

	snprintf(name, sizeof(name), "%s.%s", group, r->name);
	printf("  %-22s %s%.10g%s%s%s\n", name, term_style(TERM_BOLD), r->value,
	       term_style(TERM_PLAIN), strcmp(r->unit, "1") ? " " : "",
	       strcmp(r->unit, "1") ? r->unit : "");
	printf("  %22s %s\n", "", r->reason);
	printf("  %22s %s%s%s\n", "", term_style(TERM_DIM), r->effect, term_style(TERM_PLAIN));
}

static int print_thresholds(bool json)
{
	const struct threshold_row *r;
	const char *group = "";
	json_t *list = json_array();
	size_t count = 0;

	for (size_t i = 0; (r = thresholds_row(i)); i++) {
		if (r->group) {
			group = r->group;
			if (!json)
				printf("%s%s\n", i ? "\n" : "", r->about);
			continue;
		}
		count++;
		if (!json)
			print_threshold(r, group);
		json_array_append_new(list,
				      json_pack("{s:s, s:s, s:f, s:s, s:s, s:s}", "group", group,
						"name", r->name, "value", r->value, "unit", r->unit,
						"reason", r->reason, "effect", r->effect));
	}
	if (json)
		commands_print_json(list);
	else
		printf("\n%zu thresholds\n", count);
	json_decref(list);
	return EXIT_OK;
}

int cmd_doctor_main(const struct options *o)
{
	static struct doctor d;
	size_t counts[3] = {0};

	if (o->thresholds)
		return print_thresholds(o->json);
	if (o->cluster)
		return doctor_cluster(o);
	doctor_system_check(&d, state_dir(o));
	doctor_preload_check(&d);
	doctor_jobs_check(&d);
	doctor_gpu_check(&d);
	doctor_sampler_check(&d);
	check_daemons(&d, o);
	for (size_t i = 0; i < d.count; i++)
		counts[d.lines[i].state]++;
	if (o->json) {
		print_json(&d, counts);
	} else {
		for (size_t i = 0; i < d.count; i++)
			print_line(&d.lines[i]);
		printf("\n%zu ok, %zu warning%s, %zu failed\n", counts[0], counts[1],
		       counts[1] == 1 ? "" : "s", counts[2]);
	}
	return counts[DOCTOR_FAIL] ? EXIT_NOTHING : EXIT_OK;
}
