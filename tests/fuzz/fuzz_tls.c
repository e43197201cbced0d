/* SPDX-License-Identifier: Apache-2.0
 * fuzz_tls - what the aggregator gets from a peer before it knows who that is: the bytes of a TLS
 * handshake, its records, and the first message inside. Byte 0: even, the input is the peer's bytes, in
 * pieces of 1 + byte 1; odd, a real node shakes hands and sends the input's rest, and byte 1 says how
 * many of its bytes are changed on the way, each by three bytes: the place (two) and what to flip. */
#include <errno.h>
#include <gnutls/gnutls.h>
#include <gnutls/x509.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/check.h"
#include "base/daemon/log.h"
#include "tests/fuzz/fuzz_budget.h"
#include "wire/link/sp.h"
#include "wire/link/tls.h"

#define MESSAGE_MAX 100000u
#define SENT_MAX    65536u
#define CHANGES_MAX 7u
#define TURNS_MAX   4096

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

/* A handshake is four signatures and their checks, and GnuTLS' own allocations. */
struct fuzz_bounds fuzz_bounds = {1 << 20, 256, 16 << 20, 4096, 400000, 100000};

static char dir[] = "/tmp/fuzz_tls_XXXXXX";
static struct tls *node, *aggregator;

/* ---- certificates ---- */

static void put_file(const char *name, const gnutls_datum_t *pem, char path[TLS_PATH_BYTES])
{
	FILE *f;

	snprintf(path, TLS_PATH_BYTES, "%s/%s", dir, name);
	f = fopen(path, "w");
	CHECK(f && fwrite(pem->data, 1, pem->size, f) == pem->size && !fclose(f));
	CHECK(!chmod(path, 0600));
}

static void make(gnutls_x509_crt_t *crt, gnutls_x509_privkey_t *key, const char *name, bool ca)
{
	const uint8_t serial = ca ? 1 : 2;

	CHECK(!gnutls_x509_privkey_init(key) && !gnutls_x509_crt_init(crt));
	CHECK(!gnutls_x509_privkey_generate(*key, GNUTLS_PK_ECDSA,
					    GNUTLS_CURVE_TO_BITS(GNUTLS_ECC_CURVE_SECP256R1), 0));
	CHECK(!gnutls_x509_crt_set_version(*crt, 3));
	CHECK(!gnutls_x509_crt_set_serial(*crt, &serial, 1));
	CHECK(!gnutls_x509_crt_set_activation_time(*crt, time(NULL) - 3600));
	CHECK(!gnutls_x509_crt_set_expiration_time(*crt, time(NULL) + 30 * 86400));
	CHECK(!gnutls_x509_crt_set_dn_by_oid(*crt, GNUTLS_OID_X520_COMMON_NAME, 0, name,
					     (unsigned)strlen(name)));
	CHECK(!gnutls_x509_crt_set_key(*crt, *key));
	CHECK(!gnutls_x509_crt_set_basic_constraints(*crt, ca, -1));
	if (ca)
		CHECK(!gnutls_x509_crt_set_key_usage(*crt, GNUTLS_KEY_KEY_CERT_SIGN));
}

static void clean(void)
{
	char command[64];

	tls_close(node);
	tls_close(aggregator);
	snprintf(command, sizeof(command), "rm -rf %s", dir);
	CHECK(!system(command));
}

static void set_up(void)
{
	gnutls_x509_crt_t authority, crt;
	gnutls_x509_privkey_t authority_key, key;
	gnutls_datum_t pem;
	struct tls_files files = {.crl = ""};
	char why[TLS_WHY_BYTES];

	log_init("fuzz_tls", LOG_ERROR);
	CHECK(mkdtemp(dir));
	make(&authority, &authority_key, "authority", true);
	CHECK(!gnutls_x509_crt_sign2(authority, authority, authority_key, GNUTLS_DIG_SHA256, 0));
	make(&crt, &key, "n1", false);
	CHECK(!gnutls_x509_crt_set_key_purpose_oid(crt, GNUTLS_KP_TLS_WWW_CLIENT, 0));
	CHECK(!gnutls_x509_crt_set_key_purpose_oid(crt, GNUTLS_KP_TLS_WWW_SERVER, 0));
	CHECK(!gnutls_x509_crt_sign2(crt, authority, authority_key, GNUTLS_DIG_SHA256, 0));
	CHECK(!gnutls_x509_crt_export2(authority, GNUTLS_X509_FMT_PEM, &pem));
	put_file("ca", &pem, files.ca);
	gnutls_free(pem.data);
	CHECK(!gnutls_x509_crt_export2(crt, GNUTLS_X509_FMT_PEM, &pem));
	put_file("crt", &pem, files.cert);
	gnutls_free(pem.data);
	CHECK(!gnutls_x509_privkey_export2(key, GNUTLS_X509_FMT_PEM, &pem));
	put_file("key", &pem, files.key);
	gnutls_free(pem.data);
	gnutls_x509_crt_deinit(authority);
	gnutls_x509_crt_deinit(crt);
	gnutls_x509_privkey_deinit(authority_key);
	gnutls_x509_privkey_deinit(key);
	CHECK(!tls_open(&node, &files, TLS_NODE, NULL, why, sizeof(why)));
	CHECK(!tls_open(&aggregator, &files, TLS_AGGREGATOR, NULL, why, sizeof(why)));
	atexit(clean);
}

/* ---- the aggregator's end ---- */

struct end {
	struct tls_session *s;
	struct sp sp;
	int result; /* of the handshake, then of reading */
	bool known;
	bool closed;  /* its messages are none */
	uint8_t *got; /* what came out of TLS */
	size_t got_bytes;
};

static void end_open(struct end *e)
{
	*e = (struct end){.result = -EAGAIN, .got = malloc(SENT_MAX)};
	CHECK(e->got && !tls_session_open(&e->s, aggregator, NULL));
	sp_init(&e->sp, SP_ASKS, false, MESSAGE_MAX);
}

static void end_close(struct end *e)
{
	if (!e->known) /* nobody is believed to be anybody */
		CHECK(!tls_session_names(e->s, "n1") && !e->got_bytes);
	CHECK((e->result == -EPROTO) == (tls_session_fault(e->s) != TLS_FINE));
	sp_fini(&e->sp);
	tls_session_close(e->s);
	free(e->got);
}

/* The first message, byte by byte as it comes. */
static void parse(struct end *e, const uint8_t *data, size_t bytes)
{
	uint8_t *at;
	size_t room;

	while (bytes && !e->closed && e->sp.phase != SP_MESSAGE) {
		CHECK(!sp_room(&e->sp, &at, &room) && room);
		room = room < bytes ? room : bytes;
		memcpy(at, data, room);
		e->closed = sp_take(&e->sp, room);
		data += room;
		bytes -= room;
	}
}

/* Goes on as far as the bytes allow. */
static void step(struct end *e)
{
	ssize_t n;

	if (e->result != -EAGAIN)
		return;
	if (!e->known) {
		e->result = tls_session_shake(e->s);
		if (e->result)
			return;
		e->known = true;
		e->result = -EAGAIN;
		CHECK(tls_session_names(e->s, "n1"));
	}
	while ((n = tls_session_read(e->s, e->got + e->got_bytes, SENT_MAX - e->got_bytes)) > 0) {
		parse(e, e->got + e->got_bytes, (size_t)n);
		e->got_bytes += (size_t)n;
		if (e->got_bytes == SENT_MAX)
			break;
	}
	e->result = n > 0 ? -EAGAIN : (int)n;
}

static void drop_out(struct tls_session *s)
{
	size_t n;
	void *data;

	while (tls_session_out(s, &data, &n))
		tls_session_sent(s, n);
}

static void feed_raw(const uint8_t *data, size_t bytes, size_t piece)
{
	struct end e;

	end_open(&e);
	step(&e);
	while (bytes && e.result == -EAGAIN) {
		size_t room, n = bytes < piece ? bytes : piece;
		void *at;

		tls_session_room(e.s, &at, &room);
		if (!room)
			break;
		n = n < room ? n : room;
		memcpy(at, data, n);
		tls_session_received(e.s, n);
		data += n;
		bytes -= n;
		step(&e);
		drop_out(e.s);
	}
	CHECK(!e.known); /* without the certificate's key */
	end_close(&e);
}

/* ---- a real node, whose bytes may be changed on the way ---- */

struct change {
	uint32_t at;
	uint8_t flip;
};

struct way {
	struct change list[CHANGES_MAX];
	uint32_t count, passed;
	bool changed;
};

static bool carry(struct tls_session *from, struct tls_session *to, struct way *w)
{
	size_t n, room;
	void *data, *at;

	if (!tls_session_out(from, &data, &n))
		return false;
	tls_session_room(to, &at, &room);
	n = n < room ? n : room;
	memcpy(at, data, n);
	for (uint32_t i = 0; w && i < w->count; i++)
		if (w->list[i].at >= w->passed && w->list[i].at - w->passed < n) {
			((uint8_t *)at)[w->list[i].at - w->passed] ^= w->list[i].flip;
			w->changed |= w->list[i].flip != 0;
		}
	if (w)
		w->passed += (uint32_t)n;
	tls_session_received(to, n);
	tls_session_sent(from, n);
	return n > 0;
}

static void shake_and_send(struct way *w, const uint8_t *data, size_t bytes)
{
	struct tls_session *s;
	struct end e;
	size_t sent = 0;
	int result = -EAGAIN;
	bool moved = true;

	CHECK(!tls_session_open(&s, node, NULL));
	end_open(&e);
	for (int i = 0; moved && i < TURNS_MAX; i++) {
		if (result == -EAGAIN)
			result = tls_session_shake(s);
		if (!result && sent < bytes) {
			ssize_t n = tls_session_write(s, data + sent, bytes - sent);

			if (n > 0)
				sent += (size_t)n;
			else
				result = (int)n;
		}
		moved = carry(s, e.s, w);
		step(&e);
		moved |= carry(e.s, s, NULL);
	}
	CHECK(e.got_bytes <= sent && !memcmp(e.got, data, e.got_bytes));
	if (!w->changed)
		CHECK(e.known && sent == bytes && e.got_bytes == bytes);
	end_close(&e);
	tls_session_close(s);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	struct way w = {.count = 0};
	size_t at = 2;

	if (!node)
		set_up();
	if (bytes < 2)
		return 0;
	if (!(data[0] & 1)) {
		feed_raw(data + 2, bytes - 2, 1u + data[1]);
		return 0;
	}
	for (; w.count < data[1] % (CHANGES_MAX + 1) && at + 3 <= bytes; at += 3)
		w.list[w.count++] =
		    (struct change){(uint32_t)data[at] << 8 | data[at + 1], data[at + 2]};
	bytes = bytes < SENT_MAX ? bytes : SENT_MAX;
	shake_and_send(&w, data + at, bytes > at ? bytes - at : 0);
	return 0;
}
