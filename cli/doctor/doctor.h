/* SPDX-License-Identifier: Apache-2.0
 * doctor.h - the checks of `sysom doctor`: what works here, what is off, why, and what to do. A check that
 * may crash, hang or load foreign code runs in a child process with an alarm. Threads: one caller. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include <jansson.h>

#include "cli/options.h"

enum doctor_state { DOCTOR_OK, DOCTOR_WARN, DOCTOR_FAIL };

struct doctor_line {
	const char *name; /* static text */
	enum doctor_state state;
	char detail[400];
	const char *remedy; /* static text; "" for OK */
};

#define DOCTOR_LINES_MAX 48

struct doctor {
	struct doctor_line lines[DOCTOR_LINES_MAX];
	size_t count;
	bool gpu; /* set by doctor_gpu_check; without a GPU later checks are less strict */
};

void doctor_add(struct doctor *d, const char *name, enum doctor_state state, const char *remedy,
		const char *fmt, ...) __attribute__((format(printf, 5, 6)));
/* Runs fn(arg, fd) in a child for at most 10 s. out gets what the child writes to fd, terminated. Returns
 * its exit status, or -signal. */
int doctor_child(void (*fn)(void *arg, int fd), void *arg, char *out, size_t out_bytes);

/* state_dir: of sysomd's files */
void doctor_system_check(struct doctor *d, const char *state_dir);
void doctor_preload_check(struct doctor *d);
/* Finds running processes that have the library in LD_PRELOAD and run without it. */
void doctor_jobs_check(struct doctor *d);
void doctor_gpu_check(struct doctor *d);
void doctor_sampler_check(struct doctor *d);
/* status, requests: of the running sysomd; NULL: unknown */
void doctor_jobs_status_check(struct doctor *d, const json_t *status);
void doctor_requests_check(struct doctor *d, const json_t *requests);
/* The aggregator's list of serving jobs, with those whose requests are on several nodes. */
void doctor_joined_check(struct doctor *d, const json_t *requests);
/* Prints the cluster's nodes and the store's quotas; an exit status. */
int doctor_cluster(const struct options *o);
