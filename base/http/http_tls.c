/* SPDX-License-Identifier: Apache-2.0
 * Each connection gets its own copy of certificate and key, which GnuTLS frees. So a change of the
 * files does not affect a handshake that has begun. */
#include "base/http/http_tls.h"

#include <errno.h>
#include <gnutls/abstract.h>
#include <gnutls/gnutls.h>
#include <gnutls/x509.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/daemon/log.h"
#include "base/daemon/secret_file.h"
#include "base/text/text.h"

#define LOOK_NS 1000000000ull	 /* time between checks of the files */
#define WARN_NS 3600000000000ull /* time between two warnings */
/* a certificate is warned about this many seconds before it expires */
#define WARN_S	   (7 * 86400)
#define CHAIN_MAX  8u
#define FILE_BYTES (256u << 10)

struct http_tls {
	const char *certificate, *key; /* paths */
	struct secret_file_state certificate_file, key_file;
	struct buf certificate_pem, key_pem;
	int64_t begins_unix_s, expires_unix_s;
	uint64_t look_at_ns, warn_at_ns;
};

static struct http_tls *in_use;

static gnutls_datum_t datum(const struct buf *b)
{
	return (gnutls_datum_t){b->data, (unsigned)b->bytes};
}

static int64_t unix_s(time_t t)
{
	return t < 0 ? 0 : (int64_t)t;
}

/* Checks that certificate and key can be used and belong together, and notes the certificate's
 * times. */
static int examine(struct http_tls *t, const struct buf *certificate, const struct buf *key,
		   char *why, size_t why_bytes)
{
	gnutls_datum_t c = datum(certificate), k = datum(key), der;
	gnutls_certificate_credentials_t both = NULL;
	gnutls_x509_crt_t first = NULL;
	int r = gnutls_certificate_allocate_credentials(&both);

	if (!r)
		r = gnutls_certificate_set_x509_key_mem(both, &c, &k, GNUTLS_X509_FMT_PEM);
	if (r >= 0)
		r = gnutls_certificate_get_crt_raw(both, 0, 0, &der);
	if (r >= 0)
		r = gnutls_x509_crt_init(&first);
	if (r >= 0)
		r = gnutls_x509_crt_import(first, &der, GNUTLS_X509_FMT_DER);
	if (r >= 0) {
		t->begins_unix_s = unix_s(gnutls_x509_crt_get_activation_time(first));
		t->expires_unix_s = unix_s(gnutls_x509_crt_get_expiration_time(first));
	}
	gnutls_x509_crt_deinit(first);
	gnutls_certificate_free_credentials(both);
	if (r >= 0)
		return 0;
	if (r == GNUTLS_E_CERTIFICATE_KEY_MISMATCH)
		snprintf(why, why_bytes, "%s is not the key of %s", t->key, t->certificate);
	else
		snprintf(why, why_bytes, "%s and %s are no PEM certificate and key: %s",
			 t->certificate, t->key, gnutls_strerror(r));
	return -EINVAL;
}

/* Replaces the previous certificate and key only if the new files are valid. */
static int load(struct http_tls *t, char *why, size_t why_bytes)
{
	struct buf certificate, key;
	int err;

	buf_init(&certificate, FILE_BYTES);
	buf_init(&key, FILE_BYTES);
	err = secret_file_read_public(t->certificate, &certificate, why, why_bytes);
	if (!err)
		err = secret_file_read(t->key, &key, why, why_bytes);
	if (!err)
		err = examine(t, &certificate, &key, why, why_bytes);
	if (err) {
		buf_fini(&certificate);
		secret_file_forget(&key);
		return err;
	}
	buf_fini(&t->certificate_pem);
	secret_file_forget(&t->key_pem);
	t->certificate_pem = certificate;
	t->key_pem = key;
	return 0;
}

static bool changed(struct http_tls *t)
{
	bool a = secret_file_changed(t->certificate, &t->certificate_file);
	bool b = secret_file_changed(t->key, &t->key_file);

	return a || b;
}

int http_tls_open(struct http_tls **out, const char *certificate, const char *key, char *why,
		  size_t why_bytes)
{
	struct http_tls *t = calloc(1, sizeof(*t));
	char reason[512];
	int err;

	if (!t)
		return -ENOMEM;
	t->certificate = certificate;
	t->key = key;
	changed(t);
	err = load(t, reason, sizeof(reason));
	if (err) {
		snprintf(why, why_bytes, "http.certificate: %s", reason);
		http_tls_close(t);
		return err;
	}
	*out = t;
	return 0;
}

void http_tls_close(struct http_tls *t)
{
	if (!t)
		return;
	if (in_use == t)
		in_use = NULL;
	buf_fini(&t->certificate_pem);
	secret_file_forget(&t->key_pem);
	free(t);
}

int64_t http_tls_expires_unix_s(const struct http_tls *t)
{
	return t->expires_unix_s;
}

/* ---- in use ---- */

static void warn(struct http_tls *t, uint64_t now_ns)
{
	int64_t now_s = (int64_t)(clock_realtime_ns() / 1000000000ull);
	char day[TEXT_UTC_BYTES];

	if (now_ns < t->warn_at_ns)
		return;
	t->warn_at_ns = now_ns + WARN_NS;
	text_utc((time_t)t->expires_unix_s, day);
	if (now_s >= t->expires_unix_s)
		log_error("certificate",
			  "file=%s why=\"expired at %s\" effect=\"clients refuse it\"",
			  t->certificate, day);
	else if (now_s < t->begins_unix_s)
		log_error("certificate",
			  "file=%s why=\"not valid yet; is this clock right?\" effect=\"clients "
			  "refuse it\"",
			  t->certificate);
	else if (now_s + WARN_S >= t->expires_unix_s)
		log_warn("certificate", "file=%s why=\"expires at %s\"", t->certificate, day);
}

static void look(struct http_tls *t)
{
	uint64_t now_ns = clock_monotonic_ns();
	char why[512];

	if (now_ns >= t->look_at_ns) {
		t->look_at_ns = now_ns + LOOK_NS;
		if (changed(t)) {
			if (load(t, why, sizeof(why))) {
				log_error("certificate",
					  "why=\"%s\" effect=\"the one read before stays in use\"",
					  why);
			} else {
				log_info("certificate", "file=%s read=again", t->certificate);
				t->warn_at_ns = 0;
			}
		}
	}
	warn(t, now_ns);
}

void http_tls_use(struct http_tls *t)
{
	in_use = t;
	look(t);
}

static int retrieve(gnutls_session_t session, const struct gnutls_cert_retr_st *info,
		    gnutls_pcert_st **chain, unsigned *chain_count, gnutls_ocsp_data_st **ocsp,
		    unsigned *ocsp_count, gnutls_privkey_t *key, unsigned *flags)
{
	gnutls_datum_t c, k;
	gnutls_pcert_st *list;
	unsigned count = CHAIN_MAX;
	int r;

	(void)session, (void)info;
	if (!in_use)
		return -1;
	look(in_use);
	c = datum(&in_use->certificate_pem);
	k = datum(&in_use->key_pem);
	list = gnutls_malloc(CHAIN_MAX * sizeof(*list));
	if (!list)
		return -1;
	r = gnutls_pcert_list_import_x509_raw(list, &count, &c, GNUTLS_X509_FMT_PEM, 0);
	if (r < 0) {
		gnutls_free(list);
		return -1;
	}
	r = gnutls_privkey_init(key);
	if (!r)
		r = gnutls_privkey_import_x509_raw(*key, &k, GNUTLS_X509_FMT_PEM, NULL, 0);
	if (r < 0) {
		for (unsigned i = 0; i < count; i++)
			gnutls_pcert_deinit(&list[i]);
		gnutls_free(list);
		return -1;
	}
	*chain = list;
	*chain_count = count;
	*ocsp = NULL;
	*ocsp_count = 0;
	*flags = GNUTLS_CERT_RETR_DEINIT_ALL;
	return 0;
}

void *http_tls_retrieve(void)
{
	return (void *)retrieve;
}
