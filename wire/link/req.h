/* SPDX-License-Identifier: Apache-2.0
 * req.h - the asking side of SP REQ/REP (nng's wire protocol) on nng's streams, in TLS if there are
 * certificates: one connection, which reconnects when it is lost, and one request at a time.
 * Owns: the connection. Threads: one caller; `changed` runs on nng's threads. Nothing blocks but
 * req_receive and req_close. Trust: the peer's bytes are hostile; memory is bounded by
 * answer_max_bytes. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "wire/link/tls.h"

struct req;

struct req_config {
	const char *url;  /* tcp://, tls+tcp:// or ipc://; borrowed until the close */
	struct tls *tls;  /* NULL: plain; borrowed until the close */
	const char *name; /* that the peer's certificate must have; NULL or "": the url's host */
	size_t answer_max_bytes;
	/* Delay before it reconnects: a random part of a limit that doubles from min to max. */
	uint32_t again_min_ms, again_max_ms;
	void (*changed)(void *arg, bool connected); /* under no lock of the caller's */
	void *arg;
};

/* 0, -ENOMEM, -EINVAL (url). */
int req_open(struct req **out, const struct req_config *c);
void req_close(struct req *r); /* NULL is a no-op */
/* Copies a request. If the answer to the request before has not arrived, it will be dropped. 0,
 * -ENOTCONN, -ENOMEM. */
int req_send(struct req *r, const void *data, size_t bytes);
/* Waits for the answer. 0, -ETIMEDOUT (call again), -ENOTCONN (the connection is lost, and the
 * request with it). The body lives until the next req_send or req_close. */
int req_receive(struct req *r, uint32_t wait_ms, const void **body, size_t *bytes);
/* Call regularly while no request waits for its answer: reconnects when tls_session_check demands
 * it. */
void req_tend(struct req *r);
/* Copies why the latest connection ended or failed; "": neither. True: TLS refused it, so retrying alone
 * does not help. */
bool req_why(struct req *r, char *out, size_t bytes);
