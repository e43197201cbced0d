/* SPDX-License-Identifier: Apache-2.0
 * tls.h - mutual TLS 1.3 between a node and the aggregator, by GnuTLS, without I/O: the caller
 * moves the bytes. Why not nng's own TLS: docs/decisions/0033-mutual-tls.md.
 *
 * Rotation: the files are looked at again when a session opens and when one is checked, at most
 * once a second. Files that do not fit together (a new certificate whose key is not there yet) are
 * logged, and the ones read before stay in use.
 *
 * Threads: struct tls: any. A session: one caller at a time. Trust: the peer is hostile; what it
 * makes us keep is bounded by TLS_HANDSHAKE_BYTES and one record. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define TLS_PATH_BYTES	    1024
#define TLS_WHY_BYTES	    320
#define TLS_HANDSHAKE_BYTES (32u << 10) /* of one message; a chain of certificates is the largest */

enum tls_side { TLS_NODE, TLS_AGGREGATOR };

/* PEM files. crl may be empty. */
struct tls_files {
	char cert[TLS_PATH_BYTES], key[TLS_PATH_BYTES], ca[TLS_PATH_BYTES], crl[TLS_PATH_BYTES];
};

/* Why a peer was refused. */
enum tls_fault {
	TLS_FINE,
	TLS_PROTOCOL,  /* no TLS, or broken */
	TLS_MISSING,   /* no certificate */
	TLS_SELF_MADE, /* self-signed */
	TLS_FOREIGN,   /* of an authority that we do not trust */
	TLS_EXPIRED,
	TLS_EARLY, /* not valid yet */
	TLS_REVOKED,
	TLS_CRL_OLD, /* the list of revoked certificates is out of date */
	TLS_NAME,    /* another host's */
	TLS_PURPOSE, /* not for this side of a connection */
	TLS_UNSOUND, /* a bad signature, a weak algorithm, a broken chain */
	TLS_REFUSED, /* the peer refuses us */
	TLS_FAULTS,
};
const char *tls_fault_name(enum tls_fault f); /* "expired" */

struct tls;
struct tls_facts {
	int64_t expires_unix_s; /* our certificate */
	uint64_t loads, failed_loads;
};

/* name: one that our certificate must have; NULL: any. 0, or -errno with the reason in `why`. */
int tls_open(struct tls **out, const struct tls_files *files, enum tls_side side, const char *name,
	     char *why, size_t why_bytes);
/* For a node: files that are not usable yet are logged and read again later; until then sessions fail
 * (-ENOENT). 0, -ENOMEM. */
int tls_open_later(struct tls **out, const struct tls_files *files, const char *name);
void tls_close(struct tls *t); /* NULL is a no-op; no session may be left */
void tls_facts(struct tls *t, struct tls_facts *out);

struct tls_session;
/* peer: the host name or address that the peer's certificate must have; NULL: any. 0,
 * -ENOMEM, -ENOENT. */
int tls_session_open(struct tls_session **out, struct tls *t, const char *peer);
void tls_session_close(struct tls_session *s); /* NULL is a no-op */

/* Bytes from the peer: a buffer for them, then how many arrived. */
void tls_session_room(struct tls_session *s, void **at, size_t *bytes);
void tls_session_received(struct tls_session *s, size_t bytes);
/* Bytes for the peer, to be sent before anything else is done; false: none. */
bool tls_session_out(struct tls_session *s, void **data, size_t *bytes);
void tls_session_sent(struct tls_session *s, size_t bytes);

/* 0: done; -EAGAIN: needs bytes of the peer; -EPROTO: refused, see fault and why. Then send what remains
 * (the reason, for the peer), and close. */
int tls_session_shake(struct tls_session *s);
/* How many bytes; 0: the peer has closed; -EAGAIN, -EPROTO. */
ssize_t tls_session_read(struct tls_session *s, void *data, size_t bytes);
/* Returns how many bytes were taken, at least 1, or -EPROTO. */
ssize_t tls_session_write(struct tls_session *s, const void *data, size_t bytes);

/* Call regularly after the handshake. 0; -EPROTO: the peer's certificate has expired, or is not valid by
 * the present files; -ESTALE (nodes): our own certificate is new, so reconnect. */
int tls_session_check(struct tls_session *s);
/* The peer's name: the first DNS name of its certificate, else its common name. Until the handshake
 * is done, this name is only a claim, good for the log. */
const char *tls_session_peer(const struct tls_session *s);
/* Whether the peer has proven a certificate with exactly this name, or with *.SUFFIX for a name that ends
 * in .SUFFIX, so that one certificate can serve the Pods of a namespace. */
bool tls_session_names(const struct tls_session *s, const char *name);
enum tls_fault tls_session_fault(const struct tls_session *s);
const char *tls_session_why(const struct tls_session *s);
