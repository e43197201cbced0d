/* SPDX-License-Identifier: Apache-2.0
 * From a node to a name, with a real sysom-aggregator: a process samples itself inside a stripped library,
 * its file is offered, and the samples are named through HTTP. The truth is nm on the library before it
 * was stripped. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/daemon/log.h"
#include "cli/profile/profile_names.h"
#include "sidecar/stacks/symbol_offer.h"
#include "symbol/symbol_elf.h"

#define SAMPLES 400

static char dir[] = "/tmp/sysom-test-offer-XXXXXX", url[64], bin_dir[512];
static pid_t aggregator;

static void sh(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
static void sh(const char *fmt, ...)
{
	char command[4096];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(command, sizeof(command), fmt, ap);
	va_end(ap);
	if (system(command))
		fail_msg("failed: %s", command);
}

static void write_text(const char *name, const char *text)
{
	char path[256];
	FILE *f;

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	f = fopen(path, "w");
	assert_non_null(f);
	fputs(text, f);
	fclose(f);
}

static int free_port(void)
{
	struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t n = sizeof(a);
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	assert_true(fd >= 0 && !bind(fd, (struct sockaddr *)&a, n) &&
		    !getsockname(fd, (struct sockaddr *)&a, &n));
	close(fd);
	return ntohs(a.sin_port);
}

static void start_aggregator(void)
{
	char exe[600], listen[32], nng[128], store[128];

	snprintf(listen, sizeof(listen), "127.0.0.1:%d", free_port());
	snprintf(url, sizeof(url), "http://%s", listen);
	snprintf(exe, sizeof(exe), "%s/../bin/sysom-aggregator", bin_dir);
	snprintf(nng, sizeof(nng), "ipc://%s/nng", dir);
	snprintf(store, sizeof(store), "%s/store", dir);
	aggregator = fork();
	if (!aggregator) {
		execl(exe, exe, "--nng-listen", nng, "--http-listen", listen, "--store-dir", store,
		      "--log-level", "error", (char *)NULL);
		_exit(127);
	}
	for (int i = 0; i < 200; i++) {
		struct client c;
		struct client_error e;
		json_t *j;

		client_init_url(&c, url);
		if (!client_json(&c, "/healthz", &j, &e)) {
			json_decref(j);
			return;
		}
		usleep(50000);
	}
	fail_msg("the aggregator does not answer");
}

static int set_up(void **state)
{
	log_init("test_symbol_offer", LOG_ERROR);
	bin_dir[readlink("/proc/self/exe", bin_dir, sizeof(bin_dir) - 1)] = 0;
	dirname(bin_dir);
	if (!mkdtemp(dir))
		return -1;
	write_text("sparse.c",
		   "volatile long sink;\n"
		   "__attribute__((noinline)) void exported_first(long n) { while (n--) sink++; }\n"
		   "static __attribute__((noinline)) void hot(long n) { while (n--) sink += 3; }\n"
		   "__attribute__((noinline)) void exported_last(long n) { hot(n); sink = 0; }\n");
	write_text(
	    "job.c",
	    "#define _GNU_SOURCE\n#include <dlfcn.h>\n#include <signal.h>\n#include <stdio.h>\n"
	    "#include <sys/time.h>\n#include <ucontext.h>\n#include <unistd.h>\n"
	    "void exported_first(long), exported_last(long);\n"
	    "static unsigned long pc[400]; static volatile int n;\n"
	    "static void tick(int s, siginfo_t *i, void *u) { if (n < 400)\n"
	    "  pc[n++] = ((ucontext_t *)u)->uc_mcontext.gregs[REG_RIP]; }\n"
	    "int main(void) { Dl_info d; struct sigaction a = { .sa_sigaction = tick,\n"
	    "  .sa_flags = SA_SIGINFO | SA_RESTART };\n"
	    "  struct itimerval t = { { 0, 2000 }, { 0, 2000 } };\n"
	    "  dladdr((void *)exported_first, &d); sigaction(SIGPROF, &a, 0);\n"
	    "  setitimer(ITIMER_PROF, &t, 0);\n"
	    "  while (n < 400) { exported_first(100000); exported_last(100000); }\n"
	    "  t.it_value.tv_usec = 0; setitimer(ITIMER_PROF, &t, 0);\n"
	    "  for (int i = 0; i < 400; i++)\n"
	    "    printf(\"%lx\\n\", pc[i] - (unsigned long)d.dli_fbase);\n"
	    "  fflush(stdout); pause(); return 0; }\n");
	sh("cd %s && mkdir lib && gcc -O1 -g -fno-toplevel-reorder -fPIC -shared -Wl,--build-id "
	   "-o full.so sparse.c && objcopy --only-keep-debug full.so libsparse.debug && "
	   "strip -o lib/libsparse.so full.so && "
	   "(cd lib && objcopy --add-gnu-debuglink=../libsparse.debug libsparse.so) && "
	   "gcc -O1 -o job job.c -Llib -lsparse -Wl,-rpath,%s/lib -ldl",
	   dir, dir);
	start_aggregator();
	return 0;
}

static int tear_down(void **state)
{
	kill(aggregator, SIGTERM);
	waitpid(aggregator, NULL, 0);
	sh("rm -rf %s", dir);
	return 0;
}

struct job {
	FILE *out;
	pid_t pid;
	uint64_t address[SAMPLES];
	uint8_t id[SYMBOL_BUILD_ID_MAX];
	size_t id_bytes;
	char lib[256];
	struct stack_batch b;
};

static void start_job(struct job *j)
{
	int fds[2], fd;
	char exe[256];

	memset(j, 0, sizeof(*j));
	snprintf(exe, sizeof(exe), "%s/job", dir);
	snprintf(j->lib, sizeof(j->lib), "%s/lib/libsparse.so", dir);
	assert_int_equal(pipe(fds), 0);
	j->pid = fork();
	if (!j->pid) {
		dup2(fds[1], 1);
		execl(exe, exe, (char *)NULL);
		_exit(127);
	}
	close(fds[1]);
	j->out = fdopen(fds[0], "r");
	for (int i = 0; i < SAMPLES; i++)
		assert_int_equal(fscanf(j->out, "%lx", &j->address[i]), 1);
	fd = open(j->lib, O_RDONLY);
	j->id_bytes = (size_t)symbol_content_id(fd, j->id);
	close(fd);
	assert_int_equal(j->id_bytes, SYMBOL_ID_MAX);
	stack_batch_init(&j->b, keyed_process());
	for (int i = 0; i < SAMPLES; i++) {
		struct stack_frame f = {.kind = STACK_FRAME_NATIVE, .address = j->address[i]};
		struct stack_sample s = {.pid = (uint32_t)j->pid, .kind = STACK_ON_CPU, .count = 1};

		assert_int_equal(stack_batch_object(&j->b, j->id, j->id_bytes, j->lib, &f.object),
				 0);
		assert_int_equal(stack_batch_stack(&j->b, &f, 1, 0, STACK_END_ROOT, &s.stack), 0);
		assert_int_equal(stack_batch_sample(&j->b, &s), 0);
	}
}

static void end_job(struct job *j)
{
	kill(j->pid, SIGKILL);
	waitpid(j->pid, NULL, 0);
	fclose(j->out);
	stack_batch_fini(&j->b);
}

/* The range of a function by nm; and for what the paper warns of, the lowest exported one below. */
static void range_of(const char *name, uint64_t *begin, uint64_t *size)
{
	char command[512];
	FILE *f;

	snprintf(command, sizeof(command), "nm -S %s/full.so | grep ' [Tt] %s$'", dir, name);
	f = popen(command, "r");
	assert_non_null(f);
	assert_int_equal(fscanf(f, "%lx %lx", begin, size), 2);
	pclose(f);
}

static unsigned within(const struct job *j, const char *name)
{
	uint64_t begin, size;
	unsigned n = 0;

	range_of(name, &begin, &size);
	for (int i = 0; i < SAMPLES; i++)
		n += j->address[i] >= begin && j->address[i] < begin + size;
	return n;
}

static unsigned nearest_lower(const struct job *j)
{
	uint64_t first, last, size;
	unsigned n = 0;

	range_of("exported_first", &first, &size);
	range_of("exported_last", &last, &size);
	for (int i = 0; i < SAMPLES; i++)
		n += j->address[i] >= first && j->address[i] < last;
	return n;
}

/* Samples by the name that they get through the aggregator. */
static void tally(struct job *j, const char *hot_name, unsigned *first, unsigned *hot,
		  unsigned *unnamed)
{
	struct client c;
	struct client_error e;
	struct profile_names *names;
	struct profile_name n;

	*first = *hot = *unnamed = 0;
	client_init_url(&c, url);
	assert_int_equal(profile_names_open(&names, &j->b, NULL, NULL, NULL), 0);
	if (profile_names_ask(names, &c, &e))
		fail_msg("%s", e.why);
	for (uint32_t i = 0; i < j->b.sample_count; i++) {
		const struct stack_sample *x = &j->b.samples[i];

		assert_int_equal(profile_names_get(names, j->b.stacks[x->stack].first, &n), 0);
		*first += !strcmp(n.function, "exported_first") ? x->count : 0;
		*hot += !strcmp(n.function, hot_name) ? x->count : 0;
		*unnamed += !n.resolved ? x->count : 0;
	}
	profile_names_close(names);
}

static void offer_config(struct symbol_offer_config *c)
{
	*c = (struct symbol_offer_config){.url = url,
					  .proc_root = "/proc",
					  .bytes_per_s = 1 << 30,
					  .bytes_per_day = 1 << 30,
					  .period_ns = 50000000,
					  .chunk_bytes = 3000};
}

/* Offers the library until one of the counters moves; what they are then. */
static struct symbol_offer_stats offer(const struct job *j, const struct symbol_offer_config *c)
{
	struct symbol_offer_stats st;
	struct symbol_offer *o;

	assert_int_equal(symbol_offer_open(&o, c), 0);
	symbol_offer_note(o, j->id, j->id_bytes, j->lib, (uint32_t)j->pid);
	symbol_offer_note(o, j->id, j->id_bytes, j->lib, (uint32_t)j->pid);
	for (int i = 0; i < 600; i++) {
		symbol_offer_stats_get(o, &st);
		if (st.uploaded || st.refused || st.failed || st.no_file || st.over_budget ||
		    st.asked > st.needed)
			break;
		usleep(50000);
	}
	symbol_offer_close(o);
	assert_int_equal(st.noted, 1);
	return st;
}

static void hex_of(const uint8_t *id, size_t bytes, char *text)
{
	for (size_t i = 0; i < bytes; i++)
		snprintf(text + 2 * i, 3, "%02x", id[i]);
}

/* What anybody can do who reaches the port: the last status. */
static long upload(const uint8_t *id, size_t bytes, const char *name)
{
	char hex[2 * SYMBOL_BUILD_ID_MAX + 1], command[1200], path[256];
	long status = 0;
	FILE *f;

	hex_of(id, bytes, hex);
	snprintf(path, sizeof(path), "%s/%s", dir, name);
	snprintf(
	    command, sizeof(command),
	    "s=$(curl -s -H 'Content-Type: application/json' %s/api/v1/symbols/uploads -d "
	    "'{\"build_id\":\"%s\",\"quality\":\"debug\",\"bytes\":'$(stat -c %%s %s)'}' | "
	    "sed 's/.*session\": *\"//; s/\".*//') && curl -s -o /dev/null -w '%%{http_code}' -T "
	    "%s "
	    "-H 'Content-Type: application/octet-stream' %s/api/v1/symbols/uploads/$s?offset=0",
	    url, hex, path, path, url);
	f = popen(command, "r");
	assert_non_null(f);
	assert_int_equal(fscanf(f, "%ld", &status), 1);
	pclose(f);
	return status;
}

/* The paper's case from the sample to the name. */
static void samples_get_no_name_until_the_real_file_is_there_and_then_the_right_one(void **state)
{
	struct symbol_offer_config c;
	struct symbol_offer_stats st;
	unsigned first, hot, unnamed, in_first, in_hot;
	struct job j;

	start_job(&j);
	in_first = within(&j, "exported_first");
	in_hot = within(&j, "hot");
	print_message(
	    "of %d samples %u in exported_first, %u in hot; by the nearest lower name %u in "
	    "exported_first\n",
	    SAMPLES, in_first, in_hot, nearest_lower(&j));
	assert_true(in_hot > SAMPLES / 5 && in_first > SAMPLES / 5);
	assert_int_equal(nearest_lower(&j), in_first + in_hot);
	tally(&j, "hot", &first, &hot, &unnamed);
	assert_int_equal(unnamed, SAMPLES);

	/* only the stripped file is to be had: its exported functions, and no neighbour's samples */
	sh("mv %s/libsparse.debug %s/aside", dir, dir);
	offer_config(&c);
	st = offer(&j, &c);
	assert_int_equal(st.uploaded, 1);
	tally(&j, "hot", &first, &hot, &unnamed);
	assert_int_equal(first, in_first);
	assert_int_equal(hot, 0);
	assert_true(unnamed >= in_hot);
	st = offer(&j, &c); /* nothing better is there */
	assert_int_equal(st.needed, 0);
	assert_int_equal(st.uploaded, 0);

	/* the debug link's file is not sent: nothing proves its names */
	sh("mv %s/aside %s/lib/libsparse.debug", dir, dir);
	st = offer(&j, &c);
	assert_int_equal(st.needed, 0);
	assert_int_equal(st.uploaded, 0);
	/* who uploads it himself gets it shown, and marked */
	assert_int_equal(upload(j.id, 20, "full.so"), 201);
	tally(&j, "hot [unproven]", &first, &hot, &unnamed);
	assert_int_equal(first, in_first);
	assert_int_equal(hot, in_hot);
	end_job(&j);
}

/* The same Build ID, and other names for the same functions. */
static void a_forged_build_id_gives_nobody_else_s_program_names(void **state)
{
	char hex[2 * SYMBOL_BUILD_ID_MAX + 1];
	struct symbol_offer_config c;
	struct symbol_offer_stats st;
	unsigned first, hot, unnamed, in_first, in_hot;
	struct job j, forger;

	sh("cd %s && sed -i 's/volatile long sink/long unused; volatile long sink/' sparse.c && "
	   "gcc -O1 -g -fno-toplevel-reorder -fPIC -shared -Wl,--build-id -o full.so sparse.c && "
	   "strip -o lib/libsparse.so full.so && cp lib/libsparse.so aside",
	   dir);
	start_job(&j);
	in_first = within(&j, "exported_first");
	in_hot = within(&j, "hot");
	hex_of(j.id, 20, hex);
	sh("cd %s && sed 's/exported_first/forged_first/; s/hot(long n) {/forged_hot(long n) {/; "
	   "s/ hot(n)/ forged_hot(n)/' sparse.c >forged.c && "
	   "echo 'void exported_first(long n) { forged_first(n); }' >>forged.c && "
	   "gcc -O1 -g -fno-toplevel-reorder -fPIC -shared -Wl,--build-id=0x%s -o forged.so "
	   "forged.c",
	   dir, hex);
	/* a user runs it, and root's daemon offers it */
	sh("cp %s/forged.so %s/lib/libsparse.so", dir, dir);
	start_job(&forger);
	assert_memory_equal(forger.id, j.id, 20);
	assert_memory_not_equal(forger.id, j.id, SYMBOL_ID_MAX);
	offer_config(&c);
	st = offer(&forger, &c);
	assert_int_equal(st.uploaded, 1);
	tally(&j, "forged_hot", &first, &hot, &unnamed);
	assert_int_equal(unnamed, SAMPLES);
	/* he says himself that it is the other one's */
	assert_int_equal(upload(j.id, j.id_bytes, "forged.so"), 422);
	/* by the Build ID alone it is taken, and said to be no more than that */
	assert_int_equal(upload(j.id, 20, "forged.so"), 201);
	sh("cp %s/aside %s/lib/libsparse.so", dir, dir);
	st = offer(&j, &c);
	assert_int_equal(st.uploaded, 1);
	tally(&j, "forged_hot [unproven]", &first, &hot, &unnamed);
	assert_int_equal(first, in_first);
	assert_true(hot <= in_hot);
	tally(&j, "forged_hot", &first, &hot, &unnamed);
	assert_int_equal(hot, 0);
	end_job(&forger);
	end_job(&j);
}

static void a_budget_puts_off_and_what_does_not_work_is_counted(void **state)
{
	struct symbol_offer_config c;
	struct symbol_offer_stats st;
	struct job j;

	start_job(&j);
	offer_config(&c);
	c.url = "http://127.0.0.1:1";
	st = offer(&j, &c);
	assert_int_equal(st.failed, 1);
	assert_int_equal(st.uploaded, 0);
	assert_non_null(strstr(st.fault, "connect"));
	c.url = "file:///etc/passwd";
	struct symbol_offer *o;
	assert_int_equal(symbol_offer_open(&o, &c), -EINVAL);
	offer_config(&c);
	j.id[0] ^= 1; /* the file carries another Build ID than the one that was sampled */
	st = offer(&j, &c);
	assert_int_equal(st.no_file, 1);
	assert_int_equal(st.uploaded_bytes, 0);
	assert_string_equal(st.fault, "");
	j.id[0] ^= 1;
	end_job(&j);
	st = offer(&j, &c); /* the process is gone */
	assert_int_equal(st.no_file, 1);
}

/* An aggregator that has no room. */
static const char full_server[] =
    "import http.server, json, sys\n"
    "class H(http.server.BaseHTTPRequestHandler):\n"
    "    def do_POST(self):\n"
    "        body = json.loads(self.rfile.read(int(self.headers['Content-Length'])))\n"
    "        asked = self.path.endswith('needed')\n"
    "        out = {'needed': [f['build_id'] for f in body['files']]} if asked else "
    "{'error': 'no room for symbol files'}\n"
    "        out = json.dumps(out).encode()\n"
    "        self.send_response(200 if asked else 507)\n"
    "        self.send_header('Content-Length', str(len(out)))\n"
    "        self.end_headers()\n"
    "        self.wfile.write(out)\n"
    "    def log_message(self, *a): pass\n"
    "s = http.server.HTTPServer(('127.0.0.1', 0), H)\n"
    "open(sys.argv[1], 'w').write(f'http://127.0.0.1:{s.server_port}')\n"
    "s.serve_forever()\n";

static pid_t start_full_server(char *address, size_t bytes)
{
	char script[256], at[256];
	pid_t pid;
	FILE *f;

	write_text("full.py", full_server);
	snprintf(script, sizeof(script), "%s/full.py", dir);
	snprintf(at, sizeof(at), "%s/full.url", dir);
	pid = fork();
	if (!pid) {
		execlp("python3", "python3", script, at, (char *)NULL);
		_exit(127);
	}
	*address = '\0';
	for (int i = 0; i < 200 && !*address; i++) {
		usleep(50000);
		f = fopen(at, "r");
		if (f && !fgets(address, (int)bytes, f))
			*address = '\0';
		if (f)
			fclose(f);
	}
	assert_true(*address);
	return pid;
}

static struct symbol_offer_stats until_refused(struct symbol_offer *o, uint64_t refused)
{
	struct symbol_offer_stats st;

	for (int i = 0; i < 600; i++) {
		symbol_offer_stats_get(o, &st);
		if (st.refused >= refused)
			break;
		usleep(50000);
	}
	assert_int_equal(st.refused, refused);
	return st;
}

/* That questions are answered does not hide that no file is taken. */
static void why_nothing_is_uploaded_stays_known_until_it_is(void **state)
{
	struct symbol_offer_config c;
	struct symbol_offer *o;
	uint8_t id[SYMBOL_BUILD_ID_MAX];
	char address[128], exe[256];
	struct job j;
	pid_t server = start_full_server(address, sizeof(address));
	int fd, bytes;

	start_job(&j);
	offer_config(&c);
	c.url = address;
	assert_int_equal(symbol_offer_open(&o, &c), 0);
	symbol_offer_note(o, j.id, j.id_bytes, j.lib, (uint32_t)j.pid);
	assert_string_equal(until_refused(o, 1).fault,
			    "the aggregator answers 507: no room for symbol files");
	snprintf(exe, sizeof(exe), "%s/job", dir);
	fd = open(exe, O_RDONLY);
	bytes = symbol_content_id(fd, id);
	close(fd);
	assert_true(bytes > 0);
	symbol_offer_note(o, id, (size_t)bytes, exe, (uint32_t)j.pid);
	assert_string_equal(until_refused(o, 2).fault,
			    "the aggregator answers 507: no room for symbol files");
	symbol_offer_close(o);
	kill(server, SIGTERM);
	waitpid(server, NULL, 0);
	end_job(&j);
}

static void a_day_has_its_bytes(void **state)
{
	struct symbol_offer_config c;
	struct symbol_offer_stats st;
	struct job j;

	start_job(&j);
	sh("cd %s && printf 'int fresh(void) { return 4; }' | "
	   "gcc -xc -g -shared -fPIC -Wl,--build-id -o lib/libfresh.so -",
	   dir);
	snprintf(j.lib, sizeof(j.lib), "%s/lib/libfresh.so", dir);
	int fd = open(j.lib, O_RDONLY);
	j.id_bytes = (size_t)symbol_content_id(fd, j.id);
	close(fd);
	offer_config(&c);
	c.bytes_per_day = 1000;
	st = offer(&j, &c);
	assert_int_equal(st.needed, 1);
	assert_int_equal(st.over_budget, 1);
	assert_int_equal(st.uploaded_bytes, 0);
	end_job(&j);
}

static void the_address_is_the_uplink_s_host(void **state)
{
	char out[64];

	assert_int_equal(symbol_offer_url("tcp://10.0.0.7:9471", out, sizeof(out)), 0);
	assert_string_equal(out, "http://10.0.0.7:9472");
	assert_int_equal(symbol_offer_url("tls+tcp://[::1]:9471", out, sizeof(out)), 0);
	assert_string_equal(out, "http://[::1]:9472");
	assert_int_equal(symbol_offer_url("ipc:///run/x", out, sizeof(out)), -EINVAL);
	assert_int_equal(symbol_offer_url("", out, sizeof(out)), -EINVAL);
	assert_int_equal(symbol_offer_url("tcp://:9471", out, sizeof(out)), -EINVAL);
	assert_int_equal(symbol_offer_url("tcp://10.0.0.7:19471", out, sizeof(out)), -EINVAL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(the_address_is_the_uplink_s_host),
	    cmocka_unit_test(
		samples_get_no_name_until_the_real_file_is_there_and_then_the_right_one),
	    cmocka_unit_test(a_forged_build_id_gives_nobody_else_s_program_names),
	    cmocka_unit_test(a_budget_puts_off_and_what_does_not_work_is_counted),
	    cmocka_unit_test(why_nothing_is_uploaded_stays_known_until_it_is),
	    cmocka_unit_test(a_day_has_its_bytes),
	};

	return cmocka_run_group_tests(tests, set_up, tear_down);
}
