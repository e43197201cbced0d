/* SPDX-License-Identifier: Apache-2.0
 * GnuTLS, because libmicrohttpd and libcurl bring it into both daemons anyway. TLS 1.3 only: both
 * ends are ours. A peer's chain is judged by one function, during the handshake and later. */
#include "wire/link/tls.h"

#include <errno.h>
#include <gnutls/gnutls.h>
#include <gnutls/x509.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "base/buf.h"
#include "base/check.h"
#include "base/clock.h"
#include "base/daemon/log.h"
#include "base/daemon/secret_file.h"
#include "base/http/http_address.h"
#include "base/text/text.h"

#define PRIORITY       "NORMAL:-VERS-ALL:+VERS-TLS1.3"
#define FILE_BYTES_MAX (16u << 20) /* lists of revoked certificates may be long */
#define CHAIN_MAX      8u
#define KEY_BITS_MAX   8192u /* of a peer's certificate: larger ones cost too much time */
#define NAMES_MAX      64u   /* of one certificate */
#define NAME_BYTES     256u
#define IN_BYTES       4096u
#define OUT_BYTES_MAX  (128u << 10) /* of one step: more than any flight or record */
#define EFFECT_NONE    "no connection until the files are usable"
#define LOOK_NS	       1000000000ull

enum { CERT, KEY, CA, CRL, FILES };

/* The files as they were read at one time. Sessions hold it. */
struct loaded {
	uint32_t holders; /* under tls.lock */
	gnutls_certificate_credentials_t credentials;
	time_t begins, ends; /* of our certificate */
};

struct tls {
	struct tls_files files;
	enum tls_side side;
	char *name;
	gnutls_priority_t priority;
	pthread_mutex_t lock;
	struct loaded *now;
	struct secret_file_state seen[FILES];
	uint64_t look_at_ns;
	struct tls_facts facts;
};

struct tls_session {
	struct tls *t;
	struct loaded *own;  /* what the handshake used */
	struct loaded *last; /* what the peer was judged by last */
	gnutls_session_t session;
	char *peer; /* the name that it must have, or NULL */
	uint8_t in[IN_BYTES];
	size_t in_at, in_bytes;
	bool plain_looked_for;
	struct buf out;
	size_t out_at;
	bool proven; /* the peer has the key of its certificate */
	char *names; /* of the peer: each with its NUL, an empty one at the end */
	time_t ends; /* the earliest end of the peer's chain */
	enum tls_fault fault;
	char why[TLS_WHY_BYTES];
};

const char *tls_fault_name(enum tls_fault f)
{
	static const char *const names[] = {
	    "fine",    "protocol", "no_certificate", "self_signed",  "foreign",
	    "expired", "not_yet",  "revoked",	     "crl_outdated", "name",
	    "purpose", "unsound",  "by_peer",
	};

	_Static_assert(ARRAY_LEN(names) == TLS_FAULTS, "a name for each");
	return names[f];
}

/* ---- files ---- */

static const char *path_of(const struct tls *t, int file)
{
	return file == CERT  ? t->files.cert
	       : file == KEY ? t->files.key
	       : file == CA  ? t->files.ca
			     : t->files.crl;
}

static const char *setting_of(int file)
{
	static const char *const settings[] = {"tls.cert", "tls.key", "tls.ca", "tls.crl"};

	return settings[file];
}

static int refuse_file(const struct tls *t, int file, char *why, size_t bytes, const char *what)
{
	snprintf(why, bytes, "%s: %s: %s", setting_of(file), path_of(t, file), what);
	return -EINVAL;
}

/* Reads a file by the rules of secret_file.h; out->data is the caller's to free. */
static int read_file(const struct tls *t, int file, gnutls_datum_t *out,
		     struct secret_file_state *state, char *why, size_t why_bytes)
{
	char reason[512];
	struct stat st;
	struct buf b;
	int err;

	*out = (gnutls_datum_t){NULL, 0};
	*state = (struct secret_file_state){0};
	if (!stat(path_of(t, file), &st))
		*state = secret_file_state_of(&st);
	buf_init(&b, FILE_BYTES_MAX);
	err = (file == KEY ? secret_file_read : secret_file_read_public)(path_of(t, file), &b,
									 reason, sizeof(reason));
	if (err) {
		snprintf(why, why_bytes, "%s: %s", setting_of(file), reason);
		secret_file_forget(&b);
		return err;
	}
	out->data = b.data;
	out->size = (unsigned)b.bytes;
	return 0;
}

/* ---- names ---- */

static bool add_name(struct buf *b, const char *name, size_t bytes)
{
	if (!bytes || bytes >= NAME_BYTES || memchr(name, 0, bytes))
		return false;
	buf_append(b, name, bytes);
	buf_append(b, "", 1);
	return true;
}

/* The DNS names of a certificate, else its common name; NULL: none, or out of memory. */
static char *names_of(gnutls_x509_crt_t crt)
{
	struct buf b;
	bool any = false;

	buf_init(&b, NAMES_MAX * NAME_BYTES);
	for (unsigned i = 0; i < NAMES_MAX; i++) {
		char name[NAME_BYTES];
		size_t bytes = sizeof(name);
		int type = gnutls_x509_crt_get_subject_alt_name(crt, i, name, &bytes, NULL);

		if (type == GNUTLS_E_REQUESTED_DATA_NOT_AVAILABLE)
			break;
		if (type == GNUTLS_SAN_DNSNAME)
			any |= add_name(&b, name, bytes);
	}
	if (!any) {
		char name[NAME_BYTES];
		size_t bytes = sizeof(name);

		if (!gnutls_x509_crt_get_dn_by_oid(crt, GNUTLS_OID_X520_COMMON_NAME, 0, 0, name,
						   &bytes))
			any = add_name(&b, name, bytes);
	}
	buf_append(&b, "", 1);
	if (!any || b.failed) {
		buf_fini(&b);
		return NULL;
	}
	return (char *)b.data;
}

/* Whether `*.SUFFIX` matches the name; * matches dots too. */
static bool stands_for(const char *wildcard, const char *name)
{
	size_t suffix = strlen(wildcard) - 1, bytes = strlen(name);

	return !strncmp(wildcard, "*.", 2) && bytes > suffix &&
	       !strcmp(name + bytes - suffix, wildcard + 1);
}

static bool has_name(const char *names, const char *name)
{
	for (; names && *names; names += strlen(names) + 1)
		if (!strcmp(names, name) || stands_for(names, name))
			return true;
	return false;
}

/* ---- loading ---- */

static void loaded_free(struct loaded *l)
{
	if (l && l->credentials)
		gnutls_certificate_free_credentials(l->credentials);
	free(l);
}

/* Looks at our own certificate: whose it is, and from when to when it is valid. */
static int examine_own(struct tls *t, struct loaded *l, const gnutls_datum_t *cert, char *why,
		       size_t why_bytes)
{
	gnutls_x509_crt_t *list = NULL;
	char from[TEXT_UTC_BYTES], to[TEXT_UTC_BYTES];
	unsigned n = 0;
	char *names;
	time_t now = time(NULL);
	int err = 0;

	if (gnutls_x509_crt_list_import2(&list, &n, cert, GNUTLS_X509_FMT_PEM, 0) < 0 || !n)
		return refuse_file(t, CERT, why, why_bytes, "no certificate in PEM format");
	names = names_of(list[0]);
	l->begins = gnutls_x509_crt_get_activation_time(list[0]);
	l->ends = gnutls_x509_crt_get_expiration_time(list[0]);
	if (t->name && !has_name(names, t->name)) {
		snprintf(
		    why, why_bytes,
		    "tls.cert: %s: it is the certificate of \"%s\", but node.name is \"%s\"; a "
		    "node speaks only for itself",
		    t->files.cert, names ? names : "", t->name);
		err = -EINVAL;
	} else if (now < l->begins || now > l->ends) {
		log_warn("tls",
			 "cert=%s valid_from=%s valid_to=%s effect=\"peers will refuse it; this "
			 "machine's clock says %s\"",
			 t->files.cert, text_utc(l->begins, from), text_utc(l->ends, to),
			 text_utc(now, (char[TEXT_UTC_BYTES]){0}));
	}
	free(names);
	for (unsigned i = 0; i < n; i++)
		gnutls_x509_crt_deinit(list[i]);
	gnutls_free(list);
	return err;
}

static int verify(gnutls_session_t session);

static int fill_credentials(struct tls *t, struct loaded *l, const gnutls_datum_t *data, char *why,
			    size_t why_bytes)
{
	int err = gnutls_certificate_allocate_credentials(&l->credentials);

	if (err)
		return -ENOMEM;
	gnutls_certificate_set_verify_limits(l->credentials, KEY_BITS_MAX, CHAIN_MAX);
	gnutls_certificate_set_verify_function(l->credentials, verify);
	err = gnutls_certificate_set_x509_key_mem2(l->credentials, &data[CERT], &data[KEY],
						   GNUTLS_X509_FMT_PEM, NULL, 0);
	if (err < 0)
		return refuse_file(t, err == GNUTLS_E_CERTIFICATE_KEY_MISMATCH ? CERT : KEY, why,
				   why_bytes,
				   err == GNUTLS_E_CERTIFICATE_KEY_MISMATCH
				       ? "tls.key is the key of another certificate"
				       : gnutls_strerror(err));
	err = gnutls_certificate_set_x509_trust_mem(l->credentials, &data[CA], GNUTLS_X509_FMT_PEM);
	if (err <= 0)
		return refuse_file(t, CA, why, why_bytes,
				   err ? gnutls_strerror(err) : "no certificate in PEM format");
	if (!data[CRL].size)
		return 0;
	err = gnutls_certificate_set_x509_crl_mem(l->credentials, &data[CRL], GNUTLS_X509_FMT_PEM);
	if (err <= 0)
		return refuse_file(t, CRL, why, why_bytes,
				   err ? gnutls_strerror(err)
				       : "no list of revoked certificates in PEM format");
	return 0;
}

static int load(struct tls *t, struct loaded **out, struct secret_file_state *states, char *why,
		size_t why_bytes)
{
	struct loaded *l = calloc(1, sizeof(*l));
	gnutls_datum_t data[FILES] = {{NULL, 0}};
	int err = l ? 0 : -ENOMEM;

	text_copy(why, why_bytes, "out of memory");
	for (int i = 0; i < FILES && !err; i++)
		if (*path_of(t, i))
			err = read_file(t, i, &data[i], &states[i], why, why_bytes);
	if (!err) /* first: GnuTLS does not say which of certificate and key it cannot read */
		err = examine_own(t, l, &data[CERT], why, why_bytes);
	if (!err)
		err = fill_credentials(t, l, data, why, why_bytes);
	for (int i = 0; i < FILES; i++) {
		if (i == KEY && data[i].data)
			explicit_bzero(data[i].data, data[i].size);
		free(data[i].data);
	}
	if (err) {
		loaded_free(l);
		return err;
	}
	l->holders = 1;
	*out = l;
	return 0;
}

/* ---- the current files ---- */

static void release(struct tls *t, struct loaded *l)
{
	bool last;

	if (!l)
		return;
	pthread_mutex_lock(&t->lock);
	last = !--l->holders;
	pthread_mutex_unlock(&t->lock);
	if (last)
		loaded_free(l);
}

/* Under lock. Whether a file has changed since the last look. */
static bool changed(struct tls *t)
{
	bool differs = false;
	struct stat st;

	for (int i = 0; i < FILES; i++) {
		struct secret_file_state now = {0};

		if (*path_of(t, i) && !stat(path_of(t, i), &st))
			now = secret_file_state_of(&st);
		differs |= !secret_file_is_same(&now, &t->seen[i]);
		t->seen[i] = now;
	}
	return differs;
}

/* Under lock. Takes new files, at most once a second. A set that does not load is looked at again
 * when one of its files changes. */
static void look(struct tls *t)
{
	struct secret_file_state states[FILES] = {0};
	char why[TLS_WHY_BYTES], to[TEXT_UTC_BYTES];
	uint64_t now_ns = clock_monotonic_ns();
	struct loaded *l;

	if (now_ns < t->look_at_ns)
		return;
	t->look_at_ns = now_ns + LOOK_NS;
	if (!changed(t))
		return;
	if (load(t, &l, states, why, sizeof(why))) {
		t->facts.failed_loads++;
		log_error("tls", "why=\"%s\" effect=\"%s\"", why,
			  t->now ? "the files read before stay in use" : EFFECT_NONE);
		return;
	}
	memcpy(t->seen, states, sizeof(states));
	if (t->now && !--t->now->holders)
		loaded_free(t->now);
	t->now = l;
	t->facts.loads++;
	t->facts.expires_unix_s = l->ends;
	log_info("tls", "cert=%s valid_to=%s effect=\"new files in use\"", t->files.cert,
		 text_utc(l->ends, to));
}

/* NULL: no files have been usable yet. */
static struct loaded *hold(struct tls *t)
{
	struct loaded *l;

	pthread_mutex_lock(&t->lock);
	look(t);
	l = t->now;
	if (l)
		l->holders++;
	pthread_mutex_unlock(&t->lock);
	return l;
}

static int open_files(struct tls **out, const struct tls_files *files, enum tls_side side,
		      const char *name, bool later, char *why, size_t why_bytes)
{
	struct tls *t = calloc(1, sizeof(*t));
	int err = t ? 0 : -ENOMEM;

	text_copy(why, why_bytes, "out of memory");
	if (err)
		return err;
	pthread_mutex_init(&t->lock, NULL);
	t->files = *files;
	t->side = side;
	t->name = name ? strdup(name) : NULL;
	if ((name && !t->name) || gnutls_priority_init(&t->priority, PRIORITY, NULL))
		err = -ENOMEM;
	if (!err)
		err = load(t, &t->now, t->seen, why, why_bytes);
	if (err && later && err != -ENOMEM) {
		t->facts.failed_loads = 1;
		log_error("tls", "why=\"%s\" effect=\"" EFFECT_NONE "\"", why);
		err = 0;
	}
	if (err) {
		tls_close(t);
		return err;
	}
	if (t->now) {
		t->facts.loads = 1;
		t->facts.expires_unix_s = t->now->ends;
	}
	*out = t;
	return 0;
}

int tls_open(struct tls **out, const struct tls_files *files, enum tls_side side, const char *name,
	     char *why, size_t why_bytes)
{
	return open_files(out, files, side, name, false, why, why_bytes);
}

int tls_open_later(struct tls **out, const struct tls_files *files, const char *name)
{
	char why[TLS_WHY_BYTES];

	return open_files(out, files, TLS_NODE, name, true, why, sizeof(why));
}

void tls_close(struct tls *t)
{
	if (!t)
		return;
	release(t, t->now);
	if (t->priority)
		gnutls_priority_deinit(t->priority);
	pthread_mutex_destroy(&t->lock);
	free(t->name);
	free(t);
}

void tls_facts(struct tls *t, struct tls_facts *out)
{
	pthread_mutex_lock(&t->lock);
	*out = t->facts;
	pthread_mutex_unlock(&t->lock);
}

/* ---- judging a peer ---- */

/* A peer's chain, its own certificate first. */
struct chain {
	gnutls_x509_crt_t crt[CHAIN_MAX];
	unsigned count;
};

static void chain_fini(struct chain *c)
{
	while (c->count)
		gnutls_x509_crt_deinit(c->crt[--c->count]);
}

static bool chain_of(struct chain *c, gnutls_session_t session)
{
	unsigned n = 0;
	const gnutls_datum_t *der = gnutls_certificate_get_peers(session, &n);

	c->count = 0;
	for (unsigned i = 0; der && i < n && i < CHAIN_MAX; i++) {
		if (gnutls_x509_crt_init(&c->crt[i]))
			break;
		c->count++;
		if (gnutls_x509_crt_import(c->crt[i], &der[i], GNUTLS_X509_FMT_DER)) {
			chain_fini(c);
			break;
		}
	}
	return c->count > 0;
}

/* The most specific of GnuTLS's findings. */
static enum tls_fault fault_of(unsigned status, gnutls_x509_crt_t leaf)
{
	static const struct {
		unsigned bit;
		enum tls_fault fault;
	} order[] = {
	    {GNUTLS_CERT_REVOKED, TLS_REVOKED},
	    {GNUTLS_CERT_SIGNER_NOT_FOUND, TLS_FOREIGN},
	    {GNUTLS_CERT_SIGNATURE_FAILURE, TLS_UNSOUND},
	    {GNUTLS_CERT_EXPIRED, TLS_EXPIRED},
	    {GNUTLS_CERT_NOT_ACTIVATED, TLS_EARLY},
	    {GNUTLS_CERT_REVOCATION_DATA_SUPERSEDED, TLS_CRL_OLD},
	    {GNUTLS_CERT_REVOCATION_DATA_ISSUED_IN_FUTURE, TLS_CRL_OLD},
	    {GNUTLS_CERT_UNEXPECTED_OWNER, TLS_NAME},
	    {GNUTLS_CERT_PURPOSE_MISMATCH, TLS_PURPOSE},
	};

	if (!status)
		return TLS_FINE;
	for (size_t i = 0; i < ARRAY_LEN(order); i++)
		if (status & order[i].bit)
			return order[i].fault == TLS_FOREIGN &&
				       gnutls_x509_crt_check_issuer(leaf, leaf)
				   ? TLS_SELF_MADE
				   : order[i].fault;
	return TLS_UNSOUND;
}

static gnutls_alert_description_t alert_of(enum tls_fault f)
{
	switch (f) {
	case TLS_EXPIRED:
	case TLS_EARLY:
		return GNUTLS_A_CERTIFICATE_EXPIRED;
	case TLS_REVOKED:
		return GNUTLS_A_CERTIFICATE_REVOKED;
	case TLS_SELF_MADE:
	case TLS_FOREIGN:
		return GNUTLS_A_UNKNOWN_CA;
	case TLS_MISSING:
		return GNUTLS_A_CERTIFICATE_REQUIRED;
	case TLS_CRL_OLD:
		return GNUTLS_A_CERTIFICATE_UNKNOWN;
	default:
		return GNUTLS_A_BAD_CERTIFICATE;
	}
}

static void explain(struct tls_session *s, const struct chain *c)
{
	char *names = c->count ? names_of(c->crt[0]) : NULL;
	char at[TEXT_UTC_BYTES] = "", now[TEXT_UTC_BYTES];
	char issuer[NAME_BYTES] = "";
	size_t bytes = sizeof(issuer);
	const char *who = names ? names : "";

	text_utc(time(NULL), now);
	if (c->count && gnutls_x509_crt_get_issuer_dn(c->crt[0], issuer, &bytes))
		text_copy(issuer, sizeof(issuer), "?");
	switch (s->fault) {
	case TLS_EXPIRED:
		text_utc(gnutls_x509_crt_get_expiration_time(c->crt[0]), at);
		snprintf(s->why, sizeof(s->why),
			 "the certificate of \"%s\" is valid until %s; this machine's clock says "
			 "%s",
			 who, at, now);
		break;
	case TLS_EARLY:
		text_utc(gnutls_x509_crt_get_activation_time(c->crt[0]), at);
		snprintf(s->why, sizeof(s->why),
			 "the certificate of \"%s\" is valid from %s on; this machine's clock says "
			 "%s: compare the clocks",
			 who, at, now);
		break;
	case TLS_NAME:
		snprintf(s->why, sizeof(s->why), "the certificate is of \"%s\", not of \"%s\"", who,
			 s->peer);
		break;
	case TLS_FOREIGN:
		snprintf(
		    s->why, sizeof(s->why),
		    "the certificate of \"%s\" is issued by \"%s\", which tls.ca does not have",
		    who, issuer);
		break;
	case TLS_CRL_OLD:
		snprintf(s->why, sizeof(s->why),
			 "tls.crl is out of date, or from the future; this machine's clock says %s",
			 now);
		break;
	default:
		snprintf(s->why, sizeof(s->why), "the certificate of \"%s\" %s", who,
			 s->fault == TLS_REVOKED     ? "is revoked"
			 : s->fault == TLS_SELF_MADE ? "is self-signed"
			 : s->fault == TLS_PURPOSE   ? "is not for this side of a connection "
						       "(extendedKeyUsage)"
						     : "is not sound");
	}
	free(names);
}

/* Judges the peer's chain by these files. 0, or -EPROTO with fault and why set. */
static int judge(struct tls_session *s, struct loaded *by)
{
	gnutls_typed_vdata_st data[2] = {
	    {GNUTLS_DT_KEY_PURPOSE_OID,
	     (void *)(s->t->side == TLS_NODE ? GNUTLS_KP_TLS_WWW_SERVER : GNUTLS_KP_TLS_WWW_CLIENT),
	     0},
	    {GNUTLS_DT_DNS_HOSTNAME, (void *)s->peer, 0}};
	gnutls_x509_trust_list_t trusted;
	unsigned status = 0;
	struct chain c;

	if (!chain_of(&c, s->session)) {
		s->fault = TLS_MISSING;
		text_copy(s->why, sizeof(s->why), "it presents no certificate");
		return -EPROTO;
	}
	gnutls_certificate_get_trust_list(by->credentials, &trusted);
	if (gnutls_x509_trust_list_verify_crt2(trusted, c.crt, c.count, data, s->peer ? 2 : 1, 0,
					       &status, NULL))
		status = GNUTLS_CERT_INVALID;
	s->fault = fault_of(status, c.crt[0]);
	if (s->fault) {
		explain(s, &c);
	} else {
		s->ends = gnutls_x509_crt_get_expiration_time(c.crt[0]);
		for (unsigned i = 1; i < c.count; i++)
			if (gnutls_x509_crt_get_expiration_time(c.crt[i]) < s->ends)
				s->ends = gnutls_x509_crt_get_expiration_time(c.crt[i]);
	}
	chain_fini(&c);
	return s->fault ? -EPROTO : 0;
}

static int verify(gnutls_session_t session)
{
	struct tls_session *s = gnutls_session_get_ptr(session);
	struct chain c;

	if (judge(s, s->own))
		return GNUTLS_E_CERTIFICATE_VERIFICATION_ERROR;
	if (chain_of(&c, session))
		s->names = names_of(c.crt[0]);
	chain_fini(&c);
	if (s->names)
		return 0;
	s->fault = TLS_NAME;
	text_copy(s->why, sizeof(s->why), "its certificate has no name");
	return GNUTLS_E_CERTIFICATE_VERIFICATION_ERROR;
}

/* ---- a session ---- */

static ssize_t pull(gnutls_transport_ptr_t arg, void *data, size_t bytes)
{
	struct tls_session *s = arg;
	size_t n = s->in_bytes - s->in_at < bytes ? s->in_bytes - s->in_at : bytes;

	if (!n) {
		gnutls_transport_set_errno(s->session, EAGAIN);
		return -1;
	}
	memcpy(data, s->in + s->in_at, n);
	s->in_at += n;
	return (ssize_t)n;
}

static int pull_timeout(gnutls_transport_ptr_t arg, unsigned ms)
{
	const struct tls_session *s = arg;

	return s->in_at < s->in_bytes;
}

static ssize_t push(gnutls_transport_ptr_t arg, const void *data, size_t bytes)
{
	struct tls_session *s = arg;

	buf_append(&s->out, data, bytes);
	if (!s->out.failed)
		return (ssize_t)bytes;
	gnutls_transport_set_errno(s->session, ENOMEM);
	return -1;
}

int tls_session_open(struct tls_session **out, struct tls *t, const char *peer)
{
	struct tls_session *s = calloc(1, sizeof(*s));
	unsigned flags = t->side == TLS_NODE ? GNUTLS_CLIENT | GNUTLS_FORCE_CLIENT_CERT
					     : GNUTLS_SERVER | GNUTLS_NO_AUTO_SEND_TICKET;

	if (!s)
		return -ENOMEM;
	s->t = t;
	s->own = hold(t);
	s->last = s->own;
	buf_init(&s->out, OUT_BYTES_MAX);
	s->peer = peer ? strdup(peer) : NULL;
	if (!s->own) {
		tls_session_close(s);
		return -ENOENT;
	}
	if ((peer && !s->peer) ||
	    gnutls_init(&s->session,
			flags | GNUTLS_NONBLOCK | GNUTLS_NO_SIGNAL | GNUTLS_NO_TICKETS) ||
	    gnutls_priority_set(s->session, t->priority) ||
	    gnutls_credentials_set(s->session, GNUTLS_CRD_CERTIFICATE, s->own->credentials)) {
		tls_session_close(s);
		return -ENOMEM;
	}
	gnutls_session_set_ptr(s->session, s);
	gnutls_transport_set_ptr(s->session, s);
	gnutls_transport_set_pull_function(s->session, pull);
	gnutls_transport_set_pull_timeout_function(s->session, pull_timeout);
	gnutls_transport_set_push_function(s->session, push);
	gnutls_handshake_set_max_packet_length(s->session, TLS_HANDSHAKE_BYTES);
	if (t->side == TLS_AGGREGATOR)
		gnutls_certificate_server_set_request(s->session, GNUTLS_CERT_REQUIRE);
	/* an address is not a server name in the sense of TLS */
	else if (peer && !http_address_is_ip(peer))
		gnutls_server_name_set(s->session, GNUTLS_NAME_DNS, peer, strlen(peer));
	*out = s;
	return 0;
}

void tls_session_close(struct tls_session *s)
{
	if (!s)
		return;
	if (s->session)
		gnutls_deinit(s->session);
	if (s->last != s->own)
		release(s->t, s->last);
	release(s->t, s->own);
	buf_fini(&s->out);
	free(s->names);
	free(s->peer);
	free(s);
}

void tls_session_room(struct tls_session *s, void **at, size_t *bytes)
{
	if (s->fault) /* nothing is read any more */
		s->in_at = s->in_bytes;
	if (s->in_at) {
		memmove(s->in, s->in + s->in_at, s->in_bytes - s->in_at);
		s->in_bytes -= s->in_at;
		s->in_at = 0;
	}
	*at = s->in + s->in_bytes;
	*bytes = sizeof(s->in) - s->in_bytes;
}

void tls_session_received(struct tls_session *s, size_t bytes)
{
	s->in_bytes += bytes;
}

bool tls_session_out(struct tls_session *s, void **data, size_t *bytes)
{
	*bytes = s->out.bytes - s->out_at;
	*data = *bytes ? s->out.data + s->out_at : NULL;
	return *bytes > 0;
}

void tls_session_sent(struct tls_session *s, size_t bytes)
{
	size_t max_bytes = s->out.max_bytes;

	s->out_at += bytes;
	if (s->out_at < s->out.bytes)
		return;
	buf_fini(&s->out); /* most of the time there is nothing to send */
	buf_init(&s->out, max_bytes);
	s->out_at = 0;
}

static void explain_alert(struct tls_session *s, gnutls_alert_description_t alert)
{
	const char *name = gnutls_alert_get_name(alert), *what;

	switch (alert) {
	case GNUTLS_A_CERTIFICATE_EXPIRED:
		what = "by its clock our certificate is expired, or not valid yet";
		break;
	case GNUTLS_A_CERTIFICATE_REVOKED:
		what = "our certificate is revoked";
		break;
	case GNUTLS_A_UNKNOWN_CA:
		what = "it does not know the authority of our certificate";
		break;
	case GNUTLS_A_CERTIFICATE_REQUIRED:
		what = "it wants a certificate";
		break;
	case GNUTLS_A_CERTIFICATE_UNKNOWN:
		what = "its list of revoked certificates is out of date";
		break;
	case GNUTLS_A_BAD_CERTIFICATE:
		what = "our certificate has another name or purpose, or is not sound";
		break;
	default:
		what = name ? name : "for an unknown reason";
	}
	s->fault = TLS_REFUSED;
	snprintf(s->why, sizeof(s->why), "the peer refuses us: %s", what);
}

static int fail(struct tls_session *s, int err)
{
	if (err == GNUTLS_E_FATAL_ALERT_RECEIVED) {
		explain_alert(s, gnutls_alert_get(s->session));
		return -EPROTO;
	}
	if (err == GNUTLS_E_NO_CERTIFICATE_FOUND || err == GNUTLS_E_CERTIFICATE_REQUIRED) {
		s->fault = TLS_MISSING;
		text_copy(s->why, sizeof(s->why), "it presents no certificate");
	} else if (err == GNUTLS_E_PREMATURE_TERMINATION) {
		s->fault = TLS_PROTOCOL;
		text_copy(s->why, sizeof(s->why), "it hung up");
	} else if (!s->fault) {
		s->fault = TLS_PROTOCOL;
		snprintf(s->why, sizeof(s->why), "no TLS 1.3: %s", gnutls_strerror(err));
	}
	if (s->fault != TLS_PROTOCOL)
		gnutls_alert_send(s->session, GNUTLS_AL_FATAL, alert_of(s->fault));
	else
		gnutls_alert_send_appropriate(s->session, err);
	return -EPROTO;
}

int tls_session_shake(struct tls_session *s)
{
	static const char sp[] = {0, 'S', 'P', 0};
	int err;

	if (s->fault)
		return -EPROTO;
	if (!s->plain_looked_for && s->in_bytes >= sizeof(sp)) {
		s->plain_looked_for = true;
		if (!memcmp(s->in, sp, sizeof(sp))) {
			s->fault = TLS_PROTOCOL;
			text_copy(s->why, sizeof(s->why),
				  "it speaks plain TCP; give it certificates too (tls.cert, "
				  "tls.key, tls.ca)");
			return -EPROTO;
		}
	}
	do
		err = gnutls_handshake(s->session);
	while (err == GNUTLS_E_INTERRUPTED || err == GNUTLS_E_WARNING_ALERT_RECEIVED);
	s->proven = !err;
	return !err ? 0 : err == GNUTLS_E_AGAIN ? -EAGAIN : fail(s, err);
}

ssize_t tls_session_read(struct tls_session *s, void *data, size_t bytes)
{
	ssize_t n = s->fault ? -EPROTO : gnutls_record_recv(s->session, data, bytes);

	if (n >= 0 || s->fault)
		return n;
	return n == GNUTLS_E_AGAIN || n == GNUTLS_E_INTERRUPTED ? -EAGAIN : fail(s, (int)n);
}

ssize_t tls_session_write(struct tls_session *s, const void *data, size_t bytes)
{
	ssize_t n = s->fault ? -EPROTO : gnutls_record_send(s->session, data, bytes);

	return n > 0 || s->fault ? n : fail(s, n ? (int)n : GNUTLS_E_PUSH_ERROR);
}

int tls_session_check(struct tls_session *s)
{
	struct loaded *now = hold(s->t);
	int err = 0;

	if (now != s->last || time(NULL) > s->ends)
		err = judge(s, now);
	if (err)
		gnutls_alert_send(s->session, GNUTLS_AL_FATAL, alert_of(s->fault));
	if (now != s->last && s->last != s->own)
		release(s->t, s->last);
	if (now == s->last || now == s->own)
		release(s->t, now);
	s->last = now;
	return err || s->t->side != TLS_NODE || now == s->own ? err : -ESTALE;
}

const char *tls_session_peer(const struct tls_session *s)
{
	return s->names ? s->names : "";
}

bool tls_session_names(const struct tls_session *s, const char *name)
{
	return s->proven && has_name(s->names, name);
}

enum tls_fault tls_session_fault(const struct tls_session *s)
{
	return s->fault;
}

const char *tls_session_why(const struct tls_session *s)
{
	return s->why;
}
