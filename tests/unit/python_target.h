/* SPDX-License-Identifier: Apache-2.0
 * python_target.h - for tests: a real interpreter that stands still, what it says of its own frames,
 * and its threads stopped by ptrace. */
#pragma once

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/check.h"

#define TARGET_THREADS_MAX 64
#define TARGET_FRAMES_MAX  1024

struct truth_frame {
	unsigned int line;
	char *function, *file;
};

struct truth_thread {
	pid_t tid;
	unsigned int count;
	struct truth_frame frame[TARGET_FRAMES_MAX];
};

struct truth {
	pid_t pid;
	unsigned int count;
	struct truth_thread thread[TARGET_THREADS_MAX];
};

struct target {
	pid_t pid;
	int input;
	FILE *output;
};

/* Interpreters of this machine, "3.10" to "3.14" in the name, each real file once. */
static inline unsigned int target_interpreters(char path[][512], unsigned int max)
{
	const char *home = getenv("HOME"), *pyenv = getenv("PYENV_ROOT");
	char pattern[4][512];
	unsigned int count = 0;

	snprintf(pattern[0], 512, "/usr/bin/python3.1[0-4]");
	snprintf(pattern[1], 512, "/usr/local/bin/python3.1[0-4]");
	snprintf(pattern[2], 512, "%s/versions/3.*/bin/python3.1[0-4]",
		 pyenv ? pyenv : "/nonexistent");
	snprintf(pattern[3], 512, "%s/.pyenv/versions/3.*/bin/python3.1[0-4]",
		 home ? home : "/root");
	for (int i = 0; i < 4; i++) {
		glob_t g;

		if (glob(pattern[i], 0, NULL, &g))
			continue;
		for (size_t k = 0; k < g.gl_pathc && count < max; k++) {
			bool twice = false;

			for (unsigned int j = 0; j < count; j++)
				twice |= !strcmp(path[j], g.gl_pathv[k]);
			if (!twice)
				snprintf(path[count++], 512, "%s", g.gl_pathv[k]);
		}
		globfree(&g);
	}
	return count;
}

static inline void target_start(struct target *t, const char *python, const char *script,
				const char *argument)
{
	int in[2], out[2];

	CHECK(!pipe2(in, O_CLOEXEC) && !pipe2(out, O_CLOEXEC));
	t->pid = fork();
	CHECK(t->pid >= 0);
	if (!t->pid) {
		setpgid(0, 0);
		prctl(PR_SET_PDEATHSIG, SIGKILL); /* a failing test ends early */
		dup2(in[0], 0);
		dup2(out[1], 1);
		setenv("PYTHONDONTWRITEBYTECODE", "1", 1);
		setenv("PYTHONUTF8", "1", 1);
		execl(python, python, script, argument, (char *)NULL);
		_exit(127);
	}
	setpgid(t->pid, t->pid);
	close(in[0]);
	close(out[1]);
	t->input = in[1];
	t->output = fdopen(out[0], "r");
	CHECK(t->output);
}

/* Ends it and its children: they are a process group. */
static inline void target_end(struct target *t)
{
	close(t->input);
	fclose(t->output);
	kill(-t->pid, SIGKILL);
	waitpid(t->pid, NULL, 0);
}

/* The next process's truth: false at the end of the output. */
static inline bool truth_read(struct truth *out, FILE *f)
{
	char line[8192];

	memset(out, 0, sizeof(*out));
	while (fgets(line, sizeof(line), f)) {
		struct truth_thread *t = out->count ? &out->thread[out->count - 1] : NULL;

		line[strcspn(line, "\n")] = 0;
		if (line[0] == '.')
			return true;
		if (line[0] == 'P') {
			out->pid = atoi(line + 2);
		} else if (line[0] == 'T') {
			CHECK(out->count < TARGET_THREADS_MAX);
			out->thread[out->count++].tid = atoi(line + 2);
		} else if (line[0] == 'F' && t) {
			char *tab = strchr(line, '\t'),
			     *second = tab ? strchr(tab + 1, '\t') : NULL;

			CHECK(second && t->count < TARGET_FRAMES_MAX);
			*second = 0;
			t->frame[t->count].line = (unsigned int)atoi(line + 2);
			t->frame[t->count].function = strdup(tab + 1);
			t->frame[t->count++].file = strdup(second + 1);
		}
	}
	return false;
}

static inline void truth_free(struct truth *t)
{
	for (unsigned int i = 0; i < t->count; i++) {
		for (unsigned int k = 0; k < t->thread[i].count; k++) {
			free(t->thread[i].frame[k].function);
			free(t->thread[i].frame[k].file);
		}
	}
}

struct stopped {
	unsigned int count;
	struct {
		pid_t tid;
		struct user_regs_struct regs;
	} thread[TARGET_THREADS_MAX];
};

/* Stops every thread without a signal that the process could see. */
static inline void threads_stop(struct stopped *s, pid_t pid)
{
	char path[64];
	struct dirent *e;
	DIR *d;

	memset(s, 0, sizeof(*s));
	snprintf(path, sizeof(path), "/proc/%d/task", (int)pid);
	d = opendir(path);
	CHECK(d);
	while ((e = readdir(d)) && s->count < TARGET_THREADS_MAX) {
		pid_t tid = atoi(e->d_name);
		int status;

		if (tid <= 0)
			continue;
		CHECK(!ptrace(PTRACE_SEIZE, tid, 0, 0));
		CHECK(!ptrace(PTRACE_INTERRUPT, tid, 0, 0));
		CHECK(waitpid(tid, &status, __WALL) == tid && WIFSTOPPED(status));
		CHECK(!ptrace(PTRACE_GETREGS, tid, 0, &s->thread[s->count].regs));
		s->thread[s->count++].tid = tid;
	}
	closedir(d);
}

static inline void threads_go(const struct stopped *s)
{
	for (unsigned int i = 0; i < s->count; i++)
		ptrace(PTRACE_DETACH, s->thread[i].tid, 0, 0);
}
