/* SPDX-License-Identifier: Apache-2.0
 * spank_sysom.c - Slurm's option --sysom: loads the preload into a job's tasks, and prints the
 * verdict at the end of the job's own output. deploy/README.md describes its arguments.
 *
 * A job is never harmed: every function returns success, whatever is missing, and says so in one
 * line of slurmd's log (at level info: errors would go to the job's output too). The verdict delays
 * a job's end by at most `wait` seconds and a bit.
 *
 * Who prints: at the end of a batch script slurmstepd does, as the user, for all its steps; after an
 * interactive srun, srun itself. slurmstepd does not have the script's standard output, so the task
 * passes it on before it becomes the script. */
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <slurm/slurm.h>
#include <slurm/spank.h>

SPANK_PLUGIN(sysom, 1)

#define WAIT_S_MAX 120u
/* How long `sysom verdict` may need beyond its own timeout. */
#define GRACE_S	 5u
#define TICK_MS	 50
#define GIDS_MAX 1024
#define ENV_MAX	 4096
/* In the environment of a batch script whose end prints the verdict. */
#define MARK "SLURM_SYSOM"

static struct {
	bool on; /* without --sysom too */
	const char *preload, *sysom, *url;
	unsigned wait_s;
} set = {.preload = "/usr/lib/sysom/libsysom_preload.so", .sysom = "/usr/bin/sysom", .wait_s = 10};

enum { NOT_ASKED, ASKED_OFF, ASKED_ON };
static int asked;
static int output_pair[2] = {-1, -1}; /* the task's end, slurmstepd's end */
static uint32_t step_job, step_id;    /* of an srun; step_job 0: none */

/* ---- arguments and option ---- */

static void take_argument(const char *arg)
{
	char *end;
	unsigned long n;

	if (!strncmp(arg, "preload=/", 9)) {
		set.preload = arg + 8;
	} else if (!strncmp(arg, "sysom=/", 7)) {
		set.sysom = arg + 6;
	} else if (!strncmp(arg, "url=", 4)) {
		set.url = arg + 4;
	} else if (!strcmp(arg, "default=on")) {
		set.on = true;
	} else if (!strcmp(arg, "default=off")) {
		set.on = false;
	} else if (!strncmp(arg, "wait=", 5) && (n = strtoul(arg + 5, &end, 10)) <= WAIT_S_MAX &&
		   end != arg + 5 && !*end) {
		set.wait_s = (unsigned)n;
	} else {
		/* the administrator's business, not that of who submits */
		if (spank_context() == S_CTX_SLURMD || spank_context() == S_CTX_REMOTE)
			slurm_info(
			    "sysom: plugstack.conf: \"%s\" is not understood and has no effect; "
			    "known are preload=/PATH sysom=/PATH url=URL default=on|off wait=0..%u",
			    arg, WAIT_S_MAX);
	}
}

static int on_option(int val, const char *arg, int remote)
{
	/* sbatch hands a missing argument to the script's sruns as this word */
	if (!arg || !*arg || !strcmp(arg, "(null)") || !strcmp(arg, "on")) {
		asked = ASKED_ON;
	} else if (!strcmp(arg, "off")) {
		asked = ASKED_OFF;
	} else {
		slurm_error("--sysom: \"%s\" is neither on nor off", arg);
		return remote ? 0 : -1; /* only the command that was mistyped fails */
	}
	return 0;
}

static struct spank_option option = {
    "sysom", "on|off", "trace the job and say at its end what slowed it", 2, 0, on_option};

int slurm_spank_init(spank_t sp, int argc, char **argv)
{
	for (int i = 0; i < argc; i++)
		take_argument(argv[i]);
	if (spank_context() != S_CTX_SLURMD && spank_context() != S_CTX_JOB_SCRIPT &&
	    spank_option_register(sp, &option) != ESPANK_SUCCESS)
		slurm_info("sysom: Slurm refuses the option --sysom; jobs run untraced");
	return 0;
}

/* ---- the task's environment ---- */

static bool is_batch(spank_t sp)
{
	uint32_t step;

	return spank_get_item(sp, S_JOB_STEPID, &step) == ESPANK_SUCCESS &&
	       step == SLURM_BATCH_SCRIPT;
}

/* inherited: the step's script is traced. */
static bool is_wanted(bool inherited)
{
	return asked == ASKED_ON || (asked == NOT_ASKED && (set.on || inherited));
}

static bool job_has(spank_t sp, const char *name, char *value, int room)
{
	return spank_getenv(sp, name, value, room) == ESPANK_SUCCESS;
}

/* In front of what the user preloads. False: it is there already, or there is no room. */
static bool preload_value(spank_t sp, char *out, size_t room)
{
	char old[4096] = "";

	if (!job_has(sp, "LD_PRELOAD", old, sizeof(old)) && strlen(old) + 1 >= sizeof(old))
		return false;
	if (strstr(old, set.preload))
		return false;
	return snprintf(out, room, "%s%s%s", set.preload, *old ? ":" : "", old) < (int)room;
}

/* As the user, once per step and node. */
int slurm_spank_user_init(spank_t sp, int argc, char **argv)
{
	char text[8192], mark[16];
	bool inherited = job_has(sp, MARK, mark, sizeof(mark));
	int fd;

	if (!spank_remote(sp))
		return 0;
	if (asked == ASKED_OFF && inherited)
		spank_setenv(sp, "SYSOM_DISABLE", "1", 1);
	if (!is_wanted(inherited))
		return 0;
	fd = open(set.preload, O_RDONLY | O_CLOEXEC);
	if (fd < 0) {
		slurm_info("sysom: %s: %s; the job runs untraced", set.preload, strerror(errno));
		return 0;
	}
	close(fd);
	if (preload_value(sp, text, sizeof(text)))
		spank_setenv(sp, "LD_PRELOAD", text, 1);
	if (set.url)
		spank_setenv(sp, "SYSOM_URL", set.url, 0);
	if (!is_batch(sp))
		return 0;
	spank_setenv(sp, MARK, "batch", 1);
	if (set.wait_s &&
	    socketpair(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, output_pair))
		slurm_info("sysom: socketpair: %s; no verdict", strerror(errno));
	return 0;
}

/* ---- the verdict ---- */

union fd_room {
	struct cmsghdr head;
	char bytes[CMSG_SPACE(sizeof(int))];
};

/* In the task, before it becomes the script. */
int slurm_spank_task_init(spank_t sp, int argc, char **argv)
{
	union fd_room room = {0};
	char byte = 0;
	struct iovec data = {&byte, 1};
	struct msghdr m = {.msg_iov = &data,
			   .msg_iovlen = 1,
			   .msg_control = &room,
			   .msg_controllen = sizeof(room)};
	int fd = STDOUT_FILENO;

	if (output_pair[0] < 0)
		return 0;
	room.head.cmsg_level = SOL_SOCKET;
	room.head.cmsg_type = SCM_RIGHTS;
	room.head.cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(&room.head), &fd, sizeof(fd));
	sendmsg(output_pair[0], &m, MSG_NOSIGNAL);
	return 0;
}

static int receive_output(void)
{
	union fd_room room;
	char byte;
	struct iovec data = {&byte, 1};
	struct msghdr m = {.msg_iov = &data,
			   .msg_iovlen = 1,
			   .msg_control = &room,
			   .msg_controllen = sizeof(room)};
	int fd = -1;

	if (recvmsg(output_pair[1], &m, MSG_DONTWAIT | MSG_CMSG_CLOEXEC) != 1 ||
	    !CMSG_FIRSTHDR(&m) || room.head.cmsg_type != SCM_RIGHTS)
		return -1;
	memcpy(&fd, CMSG_DATA(&room.head), sizeof(fd));
	return fd;
}

struct verdict {
	int output;	  /* where it is printed */
	const char **env; /* of the job, without what is not for this program */
	bool become;	  /* the user below; else this process is the user's own */
	uid_t uid;
	gid_t gid, *gids;
	int gid_count;
};

/* In the child of a program with threads: only calls that are safe there. */
static void become_sysom(const struct verdict *v, int log)
{
	char wait[16], program[] = "sysom", verdict[] = "verdict", timeout[] = "--timeout";
	char *const args[] = {program, verdict, timeout, wait, NULL};
	sigset_t none;
	int null = open("/dev/null", O_RDONLY);

	snprintf(wait, sizeof(wait), "%u", set.wait_s);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	signal(SIGPIPE, SIG_DFL);
	if (null < 0 || dup2(null, 0) < 0 || dup2(v->output, 1) < 0 || dup2(log, 2) < 0)
		_exit(126);
	if (v->become &&
	    (setgroups((size_t)v->gid_count, v->gids) || setgid(v->gid) || setuid(v->uid)))
		_exit(126);
	execve(set.sysom, args, (char *const *)v->env);
	dprintf(2, "sysom: %s: %s; no verdict", set.sysom, strerror(errno));
	_exit(127);
}

/* Reads what the program says of itself until it closes it, for this long at most. */
static size_t read_log(int fd, char *text, size_t room, int timeout_ms)
{
	struct pollfd p = {.fd = fd, .events = POLLIN};
	char rest[512];
	size_t n = 0;
	ssize_t got;

	for (; timeout_ms > 0; timeout_ms -= TICK_MS) {
		int ready = poll(&p, 1, TICK_MS);

		if (ready < 0 && errno != EINTR)
			break;
		if (ready <= 0)
			continue;
		got =
		    n < room - 1 ? read(fd, text + n, room - 1 - n) : read(fd, rest, sizeof(rest));
		if (got <= 0)
			break;
		if (n < room - 1)
			n += (size_t)got;
	}
	text[n] = '\0';
	text[strcspn(text, "\n")] = '\0';
	return n;
}

/* Runs it and waits, for this long at most. What it says of itself is one line of the log. */
static void print_verdict(const struct verdict *v)
{
	int log[2], limit_ms = (int)(set.wait_s + GRACE_S) * 1000, status = 0;
	struct timespec tick = {.tv_nsec = TICK_MS * 1000000};
	char why[512];
	pid_t pid;

	if (pipe2(log, O_CLOEXEC))
		return;
	pid = fork();
	if (!pid)
		become_sysom(v, log[1]);
	close(log[1]);
	if (pid > 0) {
		if (read_log(log[0], why, sizeof(why), limit_ms))
			slurm_info("sysom: %s", why);
		/* it has closed its output, or its time is up */
		for (int left = 10; left && !waitpid(pid, &status, WNOHANG); left--) {
			if (left == 1)
				kill(pid, SIGKILL);
			nanosleep(&tick, NULL);
		}
		waitpid(pid, &status, 0);
	}
	close(log[0]);
}

/* The job's environment without the preload, which the program does not need. */
static const char **environment_of(char **from)
{
	const char **out = calloc(ENV_MAX + 3, sizeof(*out));
	int n = 0;

	for (int i = 0; out && from && from[i] && n < ENV_MAX; i++)
		if (strncmp(from[i], "LD_PRELOAD=", 11))
			out[n++] = from[i];
	return out;
}

/* In slurmstepd, as root: the script has ended. */
int slurm_spank_task_exit(spank_t sp, int argc, char **argv)
{
	struct verdict v = {.output = -1, .become = geteuid() == 0};
	char **env = NULL;

	if (output_pair[1] < 0)
		return 0;
	v.output = receive_output();
	if (v.output >= 0 && spank_get_item(sp, S_JOB_ENV, &env) == ESPANK_SUCCESS &&
	    spank_get_item(sp, S_JOB_UID, &v.uid) == ESPANK_SUCCESS &&
	    spank_get_item(sp, S_JOB_GID, &v.gid) == ESPANK_SUCCESS &&
	    spank_get_item(sp, S_JOB_SUPPLEMENTARY_GIDS, &v.gids, &v.gid_count) == ESPANK_SUCCESS &&
	    v.gid_count <= GIDS_MAX && (v.env = environment_of(env)) != NULL)
		print_verdict(&v);
	free(v.env);
	if (v.output >= 0)
		close(v.output);
	return 0;
}

/* In srun: the step exists. */
int slurm_spank_local_user_init(spank_t sp, int argc, char **argv)
{
	if (spank_get_item(sp, S_JOB_ID, &step_job) != ESPANK_SUCCESS ||
	    spank_get_item(sp, S_JOB_STEPID, &step_id) != ESPANK_SUCCESS)
		step_job = 0;
	return 0;
}

/* In srun, which ends: prints, unless the end of its batch script does. */
int slurm_spank_exit(spank_t sp, int argc, char **argv)
{
	struct verdict v = {.output = STDOUT_FILENO};
	char job[48], step[48];
	extern char **environ;
	int n = 0;

	if (spank_context() != S_CTX_LOCAL || !step_job || !set.wait_s || getenv(MARK) ||
	    !is_wanted(false))
		return 0;
	v.env = environment_of(environ);
	if (!v.env)
		return 0;
	snprintf(job, sizeof(job), "SLURM_JOB_ID=%u", step_job);
	snprintf(step, sizeof(step), "SLURM_STEP_ID=%u", step_id);
	/* the first one of a name counts */
	while (v.env[n])
		n++;
	memmove(v.env + 2, v.env, (size_t)n * sizeof(*v.env));
	v.env[0] = job;
	v.env[1] = step;
	fflush(stdout);
	print_verdict(&v);
	free(v.env);
	return 0;
}
