/* SPDX-License-Identifier: Apache-2.0
 * sysom-aggregator: settings, order of start and stop, signals. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "aggregator/alert.h"
#include "aggregator/api/api.h"
#include "aggregator/commit.h"
#include "aggregator/fleet/fleet.h"
#include "aggregator/incident/incident.h"
#include "aggregator/ingest.h"
#include "aggregator/symbols.h"
#include "analysis/slow/peers.h"
#include "base/clock.h"
#include "base/daemon/config.h"
#include "base/daemon/log.h"
#include "base/daemon/loop.h"
#include "base/daemon/service.h"
#include "base/exit_status.h"
#include "base/http/http_address.h"
#include "base/http/http_post.h"
#include "base/limits.h"
#include "base/metrics/otlp_export.h"
#include "base/text/text.h"
#include "wire/link/tls_settings.h"

#define SYSTEM_DIR "/var/lib/sysom-aggregator"
#define TICK_MS	   1000u
/* Findings of an earlier process end if they are not found again in this time after a start. Beats
 * rebuild the fleet within 60 s, and finding a small constant lateness again takes most of another
 * minute. */
#define REPORT_AGAIN_NS 120000000000ull

struct settings {
	char nng_listen[256];
	struct http_settings http;
	char store_dir[1024], symbols_dir[1024];
	char alert_webhook[1024], alert_link[256];
	char retention_rules[LIMIT_RETENTION_TEXT_BYTES];
	uint64_t contexts, alert_repeat_ns;
	int detect_mode; /* enum peers_mode */
	bool verify;
	struct tls_settings tls;
	struct otlp_settings otlp;
	int level;
	/* passed to the parts; the other fields are set in start() */
	struct commit_config commit;
	struct fleet_config fleet;
	struct symbols_config symbols;
};

#define KEY(field, key, type, initial, help, ...)                                                  \
	CONFIG_KEY(struct settings, field, key, type, initial, help, __VA_ARGS__)
static const struct config_key keys[] = {
    KEY(nng_listen, "nng.listen", CONFIG_STRING, "tcp://127.0.0.1:9471",
	"address to which sysomd connects: tcp://ADDRESS:PORT or ipc://PATH"),
    KEY(contexts, "nng.contexts", CONFIG_UINT, "96",
	"number of messages handled in parallel; windows that arrive together share one commit",
	.min = 1, .max = 1024),
    KEY(verify, "nng.verify", CONFIG_BOOL, "true",
	"decode every record of a window before acknowledging it"),
    TLS_SETTINGS(KEY, tls),
    HTTP_SETTINGS_KEYS(struct settings, http, "127.0.0.1:9472",
		       "ADDRESS:PORT of the JSON API, /metrics and /healthz"),
    KEY(store_dir, "store.dir", CONFIG_STRING, "",
	"directory of the store; empty: $STATE_DIRECTORY, /var/lib/sysom-aggregator or "
	"~/.local/state/sysom-aggregator"),
    KEY(commit.max_bytes, "store.max_bytes", CONFIG_BYTES, "10 GiB",
	"size limit of the store; above it, windows lose their evidence, oldest first, in the "
	"largest job of the user who stores most; 0: no limit"),
    KEY(commit.retention.rest.bytes, "store.job_max_bytes", CONFIG_BYTES, "2 GiB",
	"size limit of one job's windows and incidents; above it, evidence of its oldest windows "
	"is deleted, then its oldest incidents; 0: no limit"),
    KEY(commit.retention.rest.incidents, "store.job_max_incidents", CONFIG_UINT, "1000",
	"number of closed incidents that are kept per job; 0: no limit", .min = 0,
	.max = RETENTION_INCIDENTS_MAX),
    KEY(commit.reserve_bytes, "store.reserve_bytes", CONFIG_BYTES, "64 MiB",
	"if the disk has less free space than this, the aggregator refuses windows, and nodes send "
	"them again later"),
    KEY(commit.retention.rest.window_age_ns, "retention.windows", CONFIG_DURATION, "7d",
	"how long the evidence of windows is kept", .min = RETENTION_AGE_MIN_NS,
	.max = RETENTION_AGE_MAX_NS),
    KEY(commit.retention.rest.incident_age_ns, "retention.incidents", CONFIG_DURATION, "30d",
	"how long incidents are kept", .min = RETENTION_AGE_MIN_NS, .max = RETENTION_AGE_MAX_NS),
    KEY(retention_rules, "retention.jobs", CONFIG_STRING, "",
	"other limits for some jobs: PATTERN [windows=AGE] [incidents=AGE] [max_bytes=SIZE] "
	"[max_incidents=N]; ...; the first pattern that fits NAME[#RUN]@UID decides; for example "
	"'test-* windows=1d max_bytes=100MiB; *@1000 incidents=90d'"),
    KEY(fleet.baseline_age_ns, "retention.baselines", CONFIG_DURATION, "90d",
	"how long a run serves as a baseline for later runs of its job", .min = 60e9,
	.max = 3650 * 86400e9),
    KEY(commit.incident.gap_ns, "incident.gap", CONFIG_DURATION, "5s",
	"windows of a job with gaps of at most this length join one incident", .min = 0,
	.max = 3600e9),
    KEY(commit.incident.silence_ns, "incident.silence", CONFIG_DURATION, "30s",
	"an incident closes after this long without a window", .min = 1e9, .max = 86400e9),
    KEY(commit.incident.memory_ns, "incident.memory", CONFIG_DURATION, "2h",
	"time after which a late window can no longer join a closed incident", .min = 1e9,
	.max = 86400e9),
    KEY(alert_webhook, "alert.webhook", CONFIG_STRING, "",
	"URL of Alertmanager's v2 endpoint, http://HOST:9093/api/v2/alerts; empty: no alerts"),
    KEY(alert_link, "alert.link", CONFIG_STRING, "",
	"base URL of the links in alerts: this server's HTTP address as users reach it; "
	"empty: no links"),
    KEY(alert_repeat_ns, "alert.repeat", CONFIG_DURATION, "1m",
	"interval at which a firing alert is sent again", .min = 1e9, .max = 3600e9),
    KEY(fleet.alive_ns, "fleet.alive", CONFIG_DURATION, "15s",
	"a rank counts as alive for this long after its last beat", .min = 1e9, .max = 3600e9),
    KEY(fleet.forget_ns, "fleet.forget", CONFIG_DURATION, "10m",
	"a rank is forgotten this long after its last beat", .min = 1e9, .max = 86400e9),
    KEY(detect_mode, "detect.mode", CONFIG_ENUM, "robust",
	"how ranks are compared: robust statistics, or mean + 2 sigma as in the SysOM-AI "
	"paper",
	.choices = "robust|sysom"),
    KEY(fleet.hang_ns, "detect.hang", CONFIG_DURATION, "20s",
	"a job hangs if a collective takes longer than this, and longer than ten steps", .min = 1e9,
	.max = 86400e9),
    KEY(fleet.waterline_ns, "detect.waterline", CONFIG_DURATION, "10m",
	"length of the sliding window that defines the normal share of each function", .min = 60e9,
	.max = 86400e9),
    KEY(fleet.pull, "detect.pull", CONFIG_BOOL, "true",
	"if a job has a suspect, ask its nodes for windows of the suspect and of healthy peers"),
    KEY(symbols_dir, "symbols.dir", CONFIG_STRING, "",
	"Build-ID directory, which debuginfod -F DIR/tree can serve; empty: symbols below "
	"store.dir"),
    KEY(symbols.upload, "symbols.upload", CONFIG_BOOL, "true",
	"accept symbol files over HTTP: every user of this machine, and every client with an "
	"upload token, can then name functions"),
    KEY(symbols.max_bytes, "symbols.max_bytes", CONFIG_BYTES, "20 GiB",
	"size limit of all symbol files; 0: no limit"),
    KEY(symbols.evict, "symbols.evict", CONFIG_BOOL, "true",
	"above the limit, delete the least recently used files; false: refuse uploads"),
    KEY(symbols.index_max_bytes, "symbols.index_bytes", CONFIG_BYTES, "8 GiB",
	"size limit of the symbol indexes; the least recently used are deleted", .min = 1 << 20,
	.max = 1e15),
    KEY(symbols.debuginfod, "symbols.debuginfod", CONFIG_BOOL, "false",
	"fetch missing files from the servers in DEBUGINFOD_URLS; a request may wait for them"),
    OTLP_SETTINGS(KEY, otlp),
    KEY(level, "log.level", CONFIG_ENUM, "info", "lowest level that is logged",
	.choices = "error|warn|info|debug"),
};

struct aggregator {
	struct settings settings;
	struct loop *loop;
	struct fleet *fleet;
	struct alert *alert;
	struct commit *commit;
	struct tls *tls; /* NULL: plain TCP */
	struct ingest *ingest;
	struct symbols *symbols;
	struct api *api;
	struct otlp_export *otlp; /* NULL: no receiver */
};

/* Chooses the store's directory if none is set: systemd's, the system's or the user's. */
static void choose_dir(struct settings *s)
{
	const char *unit = service_state_dir(), *state = getenv("XDG_STATE_HOME"),
		   *home = getenv("HOME");

	if (s->store_dir[0])
		return;
	if (unit) {
		text_copy(s->store_dir, sizeof(s->store_dir), unit);
		return;
	}
	mkdir(SYSTEM_DIR, 0750);
	if (!access(SYSTEM_DIR, W_OK))
		text_copy(s->store_dir, sizeof(s->store_dir), SYSTEM_DIR);
	else if (state && *state == '/')
		snprintf(s->store_dir, sizeof(s->store_dir), "%s/sysom-aggregator", state);
	else
		snprintf(s->store_dir, sizeof(s->store_dir), "%s/.local/state/sysom-aggregator",
			 home && *home == '/' ? home : "/tmp");
}

/* One descriptor per node, and nng's own. */
static void raise_files(void)
{
	struct rlimit r;

	if (getrlimit(RLIMIT_NOFILE, &r))
		return;
	r.rlim_cur = r.rlim_max;
	setrlimit(RLIMIT_NOFILE, &r);
}

static int start_symbols(struct aggregator *a)
{
	const struct settings *s = &a->settings;
	char dir[1100];
	struct symbols_config c = s->symbols;
	int err;

	snprintf(dir, sizeof(dir), "%s%s", *s->symbols_dir ? s->symbols_dir : s->store_dir,
		 *s->symbols_dir ? "" : "/symbols");
	c.dir = dir;
	c.reserve_bytes = s->commit.reserve_bytes;
	err = symbols_open(&a->symbols, &c);
	if (err)
		log_error("symbols", "dir=%s why=\"%s\" effect=\"functions have no names\"", dir,
			  strerror(-err));
	return err;
}

/* ---- detection: once a second, on the loop's thread ---- */

static void on_tick(void *arg, uint32_t expired)
{
	struct aggregator *a = arg;

	struct metrics *m;

	(void)expired;
	fleet_tick(a->fleet, clock_monotonic_ns(), clock_realtime_ns());
	m = otlp_export_begin(a->otlp, clock_monotonic_ns());
	if (m) {
		api_write_metrics(a->api, m);
		otlp_export_end(a->otlp);
	}
	service_alive();
}

static void on_finding(void *arg, const struct finding_report *f)
{
	struct aggregator *a = arg;

	log_info("finding", "job=%s kind=%s ranks=%u first=%d state=%s", f->job,
		 finding_kind_name(f->finding.kind), f->finding.rank_count,
		 f->finding.rank_count ? f->finding.ranks[0] : -1, f->ended ? "ended" : "open");
	commit_push_finding(a->commit, f);
}

static int start_fleet(struct aggregator *a)
{
	struct fleet_config c = a->settings.fleet;
	int err;

	c.sysom = a->settings.detect_mode == PEERS_SYSOM;
	err = fleet_open_with(&a->fleet, &c);
	if (!err)
		fleet_on_finding(a->fleet, on_finding, a);
	return err;
}

/* Called once the store is ours. Without a Build-ID directory (a full disk) everything else still
 * works. */
static void on_store_opened(void *arg)
{
	start_symbols(arg);
}

static bool name_function(void *arg, const uint8_t *build_id, size_t build_id_bytes,
			  uint64_t address, char *out, size_t out_bytes)
{
	const struct aggregator *a = arg;

	return a->symbols &&
	       symbols_name(a->symbols, build_id, build_id_bytes, address, out, out_bytes);
}

static uint64_t files_of_names(void *arg)
{
	const struct aggregator *a = arg;
	struct symbols_stats stats = {0};

	if (a->symbols)
		symbols_stats(a->symbols, &stats);
	return stats.store.finished;
}

static int start_alerts(struct aggregator *a)
{
	struct alert_config c = {a->settings.alert_webhook, a->settings.alert_link,
				 a->settings.alert_repeat_ns};
	int err = alert_open(&a->alert, &c);

	if (err)
		log_error("alert", "webhook=%s why=\"%s\"", c.url, strerror(-err));
	return err;
}

static int start_api(struct aggregator *a)
{
	const struct api_config c = {
	    .http = &a->settings.http, .store_dir = a->settings.store_dir, .symbols = a->symbols};
	const struct api_sources from = {.commit = a->commit,
					 .fleet = a->fleet,
					 .ingest = a->ingest,
					 .alert = a->alert,
					 .otlp = a->otlp};

	return api_open(&a->api, &c, &from);
}

static int start_otlp(struct aggregator *a)
{
	char host[256] = "";

	gethostname(host, sizeof(host) - 1);
	return otlp_export_open(&a->otlp, &a->settings.otlp, "sysom-aggregator", host);
}

static const char *store_why(int err)
{
	return err == -EPROTO	 ? "not a store of this version"
	       : err == -EBADMSG ? "it is damaged; restore a backup into an empty directory"
	       : err == -ENOSPC	 ? "no space left on the device"
	       : err == -EINTR	 ? "a signal ended it; repeat it"
				 : strerror(-err);
}

static int start_ingest(struct aggregator *a)
{
	const struct settings *s = &a->settings;
	struct ingest_config c = {.url = s->nng_listen,
				  .contexts = (uint32_t)s->contexts,
				  .verify = s->verify,
				  .commit = a->commit,
				  .fleet = a->fleet,
				  .name = name_function,
				  .name_arg = a};
	char why[TLS_WHY_BYTES];
	int err = !tls_settings_on(&s->tls)
		      ? 0
		      : tls_open(&a->tls, &s->tls.files, TLS_AGGREGATOR, NULL, why, sizeof(why));

	if (err) {
		log_error("tls", "why=\"%s\"", why);
		return err;
	}
	c.tls = a->tls;
	return ingest_open(&a->ingest, &c);
}

static int start(struct aggregator *a)
{
	const struct settings *s = &a->settings;
	struct commit_config c = s->commit;
	char why[400];
	int err = loop_open(&a->loop);

	if (!err)
		err = service_stop_on_signals(a->loop);
	if (!err)
		err = start_fleet(a);
	if (err) {
		log_error("start", "why=\"%s\"", strerror(-err));
		return err;
	}
	err = start_alerts(a);
	if (err)
		return err;
	c.dir = s->store_dir;
	retention_read(&c.retention, s->retention_rules, why, sizeof(why)); /* it was checked */
	c.report_again_ns = REPORT_AGAIN_NS;
	c.alert = a->alert;
	c.name = name_function;
	c.opened = on_store_opened;
	c.named = files_of_names;
	c.name_arg = a;
	err = commit_open(&a->commit, &c, a->fleet);
	if (err) {
		log_error("store", "dir=%s why=\"%s\"", s->store_dir,
			  err == -EBUSY ? "another aggregator uses it; use another store.dir"
					: store_why(err));
		return err;
	}
	/* without a file for baselines everything else still works */
	err = fleet_keep_baselines(a->fleet, s->store_dir);
	if (err)
		log_error("baselines",
			  "dir=%s why=\"%s\" effect=\"no comparison with earlier runs\"",
			  s->store_dir, strerror(-err));
	err = loop_add_timer(a->loop, TICK_MS, TICK_MS, on_tick, a, NULL);
	if (err)
		return err;
	err = start_ingest(a);
	if (!err)
		err = start_otlp(a);
	return err ? err : start_api(a);
}

static void stop(struct aggregator *a)
{
	api_close(a->api);
	otlp_export_close(a->otlp);
	if (a->ingest)
		ingest_stop(a->ingest);
	if (a->commit)
		commit_stop(a->commit);
	ingest_close(a->ingest);
	tls_close(a->tls);
	/* Windows that are not in the store yet are not acknowledged, so nodes send them again. */
	commit_close(a->commit);
	alert_close(a->alert);
	symbols_close(a->symbols);
	fleet_close(a->fleet);
	loop_close(a->loop);
}

/* Two listeners cannot share an address; port 0 lets the system choose one. */
static bool same_address(const char *url, const char *listen)
{
	const char *at = strstr(url, "://"), *port = strrchr(listen, ':');

	return at && strncmp(url, "ipc", 3) && !strcmp(at + 3, listen) && strcmp(port, ":0");
}

static int check_retention(const struct settings *s, char *why, size_t why_bytes)
{
	struct retention r = s->commit.retention;
	char wrong[360];

	if (retention_read(&r, s->retention_rules, wrong, sizeof(wrong)))
		snprintf(why, why_bytes, "retention.jobs: %s", wrong);
	else if (s->commit.incident.memory_ns > retention_shortest_ns(&r))
		snprintf(why, why_bytes,
			 "incident.memory is longer than incidents are kept "
			 "(retention.incidents, retention.jobs)");
	else
		return 0;
	return -EINVAL;
}

static int check_settings(const void *values, char *why, size_t why_bytes)
{
	const struct settings *s = values;
	const struct commit_config *c = &s->commit;
	const char *bad = NULL;
	char wrong[400];

	if (!config_is_socket_url(s->nng_listen, false))
		return config_refuse(why, why_bytes, "nng.listen", s->nng_listen,
				     "not tcp://ADDRESS:PORT or ipc://PATH");
	else if (http_address_is_valid(s->http.listen) &&
		 same_address(s->nng_listen, s->http.listen))
		bad = "nng.listen and http.listen are the same address";
	else if (c->retention.rest.window_age_ns > c->retention.rest.incident_age_ns)
		bad = "retention.windows is longer than retention.incidents; windows are removed "
		      "with "
		      "their incident";
	else if (c->incident.gap_ns > c->incident.silence_ns)
		bad = "incident.gap is longer than incident.silence";
	else if (c->incident.silence_ns > c->incident.memory_ns)
		bad = "incident.silence is longer than incident.memory";
	else if (check_retention(s, wrong, sizeof(wrong)))
		bad = wrong;
	else if (*s->alert_webhook && !http_post_is_url(s->alert_webhook))
		return config_refuse(why, why_bytes, "alert.webhook", s->alert_webhook,
				     "neither an http:// nor an https:// URL with a host");
	else if (s->fleet.alive_ns > s->fleet.forget_ns)
		bad = "fleet.alive is longer than fleet.forget";
	if (!bad && !*s->http.listen)
		return config_refuse(why, why_bytes, "http.listen", "", "not ADDRESS:PORT");
	if (!bad)
		return http_server_check(&s->http, why, why_bytes) ||
			       otlp_settings_check(&s->otlp, why, why_bytes) ||
			       tls_settings_check(&s->tls, "nng.listen", s->nng_listen, why,
						  why_bytes)
			   ? -EINVAL
			   : 0;
	snprintf(why, why_bytes, "%s", bad);
	return -EINVAL;
}

/* ---- backup and restore ---- */

/* Takes `--backup FILE` or `--restore FILE` out of the arguments. NULL: not given; "": no file. */
static const char *take_option(int *argc, char **argv, const char *name)
{
	const char *value = NULL;
	int n = 1;

	for (int i = 1; i < *argc; i++) {
		if (strcmp(argv[i], name))
			argv[n++] = argv[i];
		else
			value = i + 1 < *argc ? argv[++i] : "";
	}
	*argc = n;
	argv[n] = NULL;
	return value;
}

/* These signals end the copy, which then leaves no file, instead of the process. */
static void hold_signals(void)
{
	sigset_t ends;

	sigemptyset(&ends);
	sigaddset(&ends, SIGTERM);
	sigaddset(&ends, SIGINT);
	sigaddset(&ends, SIGHUP);
	sigprocmask(SIG_BLOCK, &ends, NULL);
}

static int back_up(const struct settings *s, const char *file)
{
	int err = store_backup(s->store_dir, file);

	if (err)
		log_error("backup", "store=%s file=%s why=\"%s\"", s->store_dir, file,
			  err == -EEXIST ? "the file exists; give another name" : store_why(err));
	else
		log_info("backup", "store=%s file=%s", s->store_dir, file);
	return err;
}

static int restore(const struct settings *s, const char *file)
{
	int err = store_restore(s->store_dir, file);

	if (err)
		log_error("restore", "file=%s store=%s why=\"%s\"", file, s->store_dir,
			  err == -EEXIST    ? "the directory has a store; move it away first"
			  : err == -EBUSY   ? "an aggregator uses the directory; stop it first"
			  : err == -EBADMSG ? "the backup is damaged"
					    : store_why(err));
	else
		log_info("restore", "file=%s store=%s", file, s->store_dir);
	return err;
}

int main(int argc, char **argv)
{
	const char *backup = take_option(&argc, argv, "--backup"),
		   *from = take_option(&argc, argv, "--restore");
	static struct aggregator a;
	enum config_result result;
	int err;

	result = config_load(
	    &a.settings, keys, sizeof(keys) / sizeof(keys[0]), "sysom-aggregator",
	    "Stores the windows that sysomd sends, finds incidents, and serves both over HTTP.\n"
	    "  --backup FILE      copy the store to a new file, also while an aggregator uses it\n"
	    "  --restore FILE     make the store from a backup, in a directory without one",
	    "/etc/sysom/sysom-aggregator.yaml", argc, argv, check_settings);
	if (result != CONFIG_RUN)
		return result == CONFIG_EXIT_OK ? EXIT_OK : EXIT_USAGE;
	log_init("sysom-aggregator", (enum log_level)a.settings.level);
	signal(SIGPIPE, SIG_IGN);
	signal(SIGXFSZ, SIG_IGN); /* exceeding a file-size limit is handled as a full disk */
	raise_files();
	choose_dir(&a.settings);
	if ((backup && !*backup) || (from && !*from) || (backup && from)) {
		fprintf(stderr, "sysom-aggregator: use --backup FILE or --restore FILE\n");
		return EXIT_USAGE;
	}
	if (backup || from) {
		hold_signals();
		err = backup ? back_up(&a.settings, backup) : restore(&a.settings, from);
		return err ? EXIT_FAILED : EXIT_OK;
	}
	err = start(&a);
	if (!err) {
		log_info("start", "nng=%s http=%s store=%s", a.settings.nng_listen,
			 a.settings.http.listen, a.settings.store_dir);
		service_ready();
		err = loop_run(a.loop);
	}
	service_stopping();
	stop(&a);
	if (!err)
		log_info("stopped", "store=%s", a.settings.store_dir);
	return err ? EXIT_FAILED : EXIT_OK;
}
