/* SPDX-License-Identifier: Apache-2.0
 * Both sides in one process; bytes go from one session to the other. The certificates are made by
 * tests/e2e/pki.sh. tests/e2e/tls.sh has the daemons' side of it. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/unit/skip.h"
#include "wire/link/tls.h"

static char dir[64], why[TLS_WHY_BYTES];
static bool have_openssl;

/* Runs a line of shell in the directory, with the functions of pki.sh. */
static void shell(const char *line)
{
	char command[2048];

	snprintf(command, sizeof(command), ". tests/e2e/pki.sh; P=%s; set -e; { %s; } >/dev/null",
		 dir, line);
	setenv("LINE", command, 1);
	assert_int_equal(system("bash -c \"$LINE\""), 0);
}

static struct tls_files files_of(const char *authority, const char *name)
{
	struct tls_files f;

	if (!have_openssl)
		skip_needs("command:openssl");
	snprintf(f.cert, sizeof(f.cert), "%s/%s/%s.crt", dir, authority, name);
	snprintf(f.key, sizeof(f.key), "%s/%s/%s.key", dir, authority, name);
	snprintf(f.ca, sizeof(f.ca), "%s/a/ca.crt", dir);
	snprintf(f.crl, sizeof(f.crl), "%s/a/ca.crl", dir);
	return f;
}

static struct tls *open_side(enum tls_side side, const char *authority, const char *name)
{
	struct tls_files f = files_of(authority, name);
	struct tls *t;

	assert_int_equal(tls_open(&t, &f, side, NULL, why, sizeof(why)), 0);
	return t;
}

struct pair {
	struct tls *tls[2]; /* node, aggregator */
	struct tls_session *s[2];
};

/* Moves what one side has for the other; false: nothing. */
static bool carry(struct tls_session *from, struct tls_session *to)
{
	size_t n, room;
	void *data, *at;

	if (!tls_session_out(from, &data, &n))
		return false;
	tls_session_room(to, &at, &room);
	n = n < room ? n : room;
	memcpy(at, data, n);
	tls_session_received(to, n);
	tls_session_sent(from, n);
	return n > 0;
}

/* Handshakes until neither side has anything for the other. */
static void shake(struct pair *p, int result[2])
{
	bool moved = true;

	result[0] = result[1] = -EAGAIN;
	while (moved) {
		moved = false;
		for (int i = 0; i < 2; i++) {
			uint8_t none[64];

			if (result[i] == -EAGAIN)
				result[i] = tls_session_shake(p->s[i]);
			else if (!result[i] &&
				 tls_session_read(p->s[i], none, sizeof(none)) == -EPROTO)
				result[i] = -EPROTO;
			moved |= carry(p->s[i], p->s[!i]);
		}
	}
}

static void begin_with(struct pair *p, const char *node_authority, const char *node,
		       const char *authority, const char *aggregator, const char *host)
{
	p->tls[0] = open_side(TLS_NODE, node_authority, node);
	p->tls[1] = open_side(TLS_AGGREGATOR, authority, aggregator);
	assert_int_equal(tls_session_open(&p->s[0], p->tls[0], host), 0);
	assert_int_equal(tls_session_open(&p->s[1], p->tls[1], NULL), 0);
}

static void begin(struct pair *p, const char *node_authority, const char *node, const char *host)
{
	begin_with(p, node_authority, node, "a", "localhost", host);
}

static void end(struct pair *p)
{
	for (int i = 0; i < 2; i++) {
		tls_session_close(p->s[i]);
		tls_close(p->tls[i]);
	}
}

static void both_know_each_other_and_bytes_arrive_in_order(void **state)
{
	static uint8_t sent[300000], got[300000];
	size_t out = 0, in = 0;
	struct pair p;
	int result[2];

	(void)state;
	begin(&p, "a", "n1", "localhost");
	assert_string_equal(tls_session_peer(p.s[1]), "");
	shake(&p, result);
	assert_int_equal(result[0], 0);
	assert_int_equal(result[1], 0);
	assert_string_equal(tls_session_peer(p.s[1]), "n1");
	assert_true(tls_session_names(p.s[1], "n1"));
	assert_false(tls_session_names(p.s[1], "n"));
	assert_false(tls_session_names(p.s[1], ""));
	assert_string_equal(tls_session_peer(p.s[0]), "localhost");
	for (size_t i = 0; i < sizeof(sent); i++)
		sent[i] = (uint8_t)(i * 2654435761u >> 11);
	while (in < sizeof(got)) {
		void *data;
		size_t bytes;
		ssize_t n;

		if (out < sizeof(sent) && !tls_session_out(p.s[0], &data, &bytes)) {
			n = tls_session_write(p.s[0], sent + out, sizeof(sent) - out);
			assert_true(n > 0);
			out += (size_t)n;
		}
		carry(p.s[0], p.s[1]);
		while ((n = tls_session_read(p.s[1], got + in, sizeof(got) - in)) > 0)
			in += (size_t)n;
		assert_true(n == -EAGAIN || in == sizeof(got));
	}
	assert_memory_equal(sent, got, sizeof(sent));
	end(&p);
}

static void each_bad_certificate_is_refused_and_both_sides_say_why(void **state)
{
	static const struct {
		const char *authority, *node, *aggregator;
		enum tls_fault fault;
		const char *judge, *judged; /* the reason of each side */
	} cases[] = {
	    {"a", "old", "old-server", TLS_EXPIRED, "is valid until", "expired, or not valid yet"},
	    {"a", "early", "early-server", TLS_EARLY, "compare the clocks",
	     "expired, or not valid yet"},
	    {"b", "n1", "localhost", TLS_FOREIGN, "which tls.ca does not have",
	     "does not know the authority"},
	    {"self", "n1", "n1", TLS_SELF_MADE, "is self-signed", "does not know the authority"},
	    {"a", "gone", "gone-server", TLS_REVOKED, "is revoked", "our certificate is revoked"},
	    {"a", "localhost", "n1", TLS_PURPOSE, "is not for this side",
	     "another name or purpose"},
	};
	enum { CASES = sizeof(cases) / sizeof(*cases) };

	(void)state;
	for (size_t i = 0; i < 2 * CASES; i++) {
		const bool node_is_bad = i % 2, judge = node_is_bad;
		const char *authority = cases[i / 2].authority, *name = cases[i / 2].aggregator;
		struct pair p;
		int result[2];

		if (node_is_bad)
			begin(&p, authority, cases[i / 2].node, "localhost");
		else
			begin_with(&p, "a", "n1", authority, name, name);
		shake(&p, result);
		assert_int_equal(result[judge], -EPROTO);
		assert_int_equal(tls_session_fault(p.s[judge]), cases[i / 2].fault);
		assert_non_null(strstr(tls_session_why(p.s[judge]), cases[i / 2].judge));
		assert_int_equal(result[!judge], -EPROTO);
		assert_int_equal(tls_session_fault(p.s[!judge]), TLS_REFUSED);
		assert_non_null(strstr(tls_session_why(p.s[!judge]), cases[i / 2].judged));
		end(&p);
	}
}

static void an_aggregator_of_another_name_is_refused(void **state)
{
	struct pair p;
	int result[2];

	(void)state;
	begin(&p, "a", "n1", "elsewhere");
	shake(&p, result);
	assert_int_equal(result[0], -EPROTO);
	assert_int_equal(tls_session_fault(p.s[0]), TLS_NAME);
	assert_string_equal(tls_session_why(p.s[0]),
			    "the certificate is of \"localhost\", not of \"elsewhere\"");
	assert_int_equal(tls_session_fault(p.s[1]), TLS_REFUSED);
	end(&p);
}

static void plain_bytes_and_damaged_ones_end_a_handshake(void **state)
{
	unsigned seed = 7;

	(void)state;
	for (int round = 0; round < 200; round++) {
		struct pair p;
		uint8_t *at;
		size_t room, n;
		void *data;
		int err;

		begin(&p, "a", "n1", "localhost");
		assert_int_equal(tls_session_shake(p.s[0]), -EAGAIN);
		assert_true(tls_session_out(p.s[0], &data, &n));
		tls_session_room(p.s[1], (void **)&at, &room);
		assert_true(n <= room);
		memcpy(at, round ? data : "\0SP\0\0\x30\0", round ? n : 8);
		if (round)
			at[rand_r(&seed) % n] ^= (uint8_t)(1 + rand_r(&seed) % 255);
		tls_session_received(p.s[1], round ? n : 8);
		err = tls_session_shake(p.s[1]);
		assert_true(err == -EAGAIN || (err == -EPROTO && tls_session_fault(p.s[1])));
		if (!round)
			assert_non_null(strstr(tls_session_why(p.s[1]), "it speaks plain TCP"));
		end(&p);
	}
}

static void a_certificate_beyond_the_bounds_is_refused(void **state)
{
	struct pair p;
	int result[2];

	(void)state;
	begin(&p, "a", "huge", "localhost"); /* 4,000 names: more than 32 KiB */
	shake(&p, result);
	assert_int_equal(result[1], -EPROTO);
	end(&p);
	begin(&p, "a", "many", "localhost"); /* 100 names: 64 are taken */
	shake(&p, result);
	assert_int_equal(result[1], 0);
	assert_true(tls_session_names(p.s[1], "name-63"));
	assert_false(tls_session_names(p.s[1], "name-64"));
	end(&p);
}

static void a_wildcard_is_for_every_name_with_its_suffix(void **state)
{
	struct pair p;
	int result[2];

	(void)state;
	begin(&p, "a", "wild", "localhost");
	shake(&p, result);
	assert_int_equal(result[1], 0);
	assert_true(tls_session_names(p.s[1], "train-0.ml"));
	assert_true(tls_session_names(p.s[1], "train.0.ml"));
	assert_false(tls_session_names(p.s[1], "train-0.xml"));
	assert_false(tls_session_names(p.s[1], "train-0.ml.other"));
	assert_false(tls_session_names(p.s[1], ".ml"));
	assert_false(tls_session_names(p.s[1], "ml"));
	end(&p);
}

/* Files are looked at once a second. */
static int check_until(struct tls_session *s, int wanted)
{
	int err = 0;

	for (int i = 0; i < 300 && (err = tls_session_check(s)) != wanted; i++)
		usleep(10000);
	return err;
}

static void changed_files_are_taken_and_halves_of_them_are_not(void **state)
{
	struct tls_facts facts;
	struct pair p;
	int result[2];

	(void)state;
	files_of("a", "turn"); /* skips without openssl */
	shell("pki_issue $P/a turn clientAuth; cp $P/a/turn.crt $P/turn-1.crt");
	begin(&p, "a", "turn", "localhost");
	shake(&p, result);
	assert_int_equal(result[0] | result[1], 0);
	assert_int_equal(tls_session_check(p.s[0]), 0);
	shell("cp $P/a/turn.key $P/turn-1.key; pki_issue $P/a turn clientAuth; "
	      "cp $P/a/turn.key $P/turn-2.key; cp $P/turn-1.key $P/a/turn.key");
	for (int i = 0; i < 300 && (tls_facts(p.tls[0], &facts), !facts.failed_loads); i++) {
		assert_int_equal(tls_session_check(p.s[0]), 0);
		usleep(10000);
	}
	assert_true(facts.failed_loads >= 1);
	assert_int_equal(facts.loads, 1);
	shell("cp $P/turn-2.key $P/a/turn.key");
	assert_int_equal(check_until(p.s[0], -ESTALE), -ESTALE);
	assert_int_equal(tls_session_check(p.s[1]), 0); /* its certificate is good as before */
	shell("pki_crl $P/a");				/* a new list, without it */
	for (int i = 0; i < 300 && (tls_facts(p.tls[1], &facts), facts.loads < 2); i++) {
		assert_int_equal(tls_session_check(p.s[1]), 0);
		usleep(10000);
	}
	assert_int_equal(facts.loads, 2);
	shell("openssl ca -config $P/a/conf -revoke $P/turn-1.crt 2>/dev/null; pki_crl $P/a");
	assert_int_equal(check_until(p.s[1], -EPROTO), -EPROTO);
	assert_int_equal(tls_session_fault(p.s[1]), TLS_REVOKED);
	end(&p);
}

static void refuses_files_and_names_the_setting(void **state)
{
	static const struct {
		const char *line, *why;
	} cases[] = {
	    {"rm x.crt", "tls.cert: "},
	    {": >x.crt", "no certificate in PEM format"},
	    {"rm x.crt; mkdir x.crt", "not a regular file"},
	    {"truncate -s 17M x.crt", "larger than 16777216 bytes"},
	    {"chmod 0604 x.key", "mode 0604, so that others may read it"},
	    {"chmod 0620 x.key", "mode 0620, so that others may write it"},
	    {"cat n1.key >x.key", "tls.key is the key of another certificate"},
	    {"head -c 40 n1.key >x.key", "tls.key: "},
	};
	char line[256];

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct tls_files f = files_of("a", "x");
		struct tls *t = NULL;

		snprintf(line, sizeof(line),
			 "cd $P/a; rm -rf x.crt x.key; cp n2.crt x.crt; cp n2.key x.key; %s",
			 cases[i].line);
		shell(line);
		assert_true(tls_open(&t, &f, TLS_NODE, NULL, why, sizeof(why)) < 0);
		assert_null(t);
		if (!strstr(why, cases[i].why))
			fail_msg("%s: %s", cases[i].line, why);
	}
	{
		struct tls_files f = files_of("a", "n1");
		struct tls *t = NULL;

		assert_int_equal(tls_open(&t, &f, TLS_NODE, "n2", why, sizeof(why)), -EINVAL);
		assert_non_null(strstr(why, "a node speaks only for itself"));
		snprintf(f.ca, sizeof(f.ca), "%s/a/n1.key", dir);
		assert_int_equal(tls_open(&t, &f, TLS_NODE, "n1", why, sizeof(why)), -EINVAL);
		assert_non_null(strstr(why, "tls.ca: "));
	}
}

static int setup(void **state)
{
	(void)state;
	strcpy(dir, "/tmp/test_tls.XXXXXX");
	if (!mkdtemp(dir))
		return -1;
	have_openssl = !system("command -v openssl >/dev/null");
	if (!have_openssl)
		return 0;
	shell("pki_authority $P/a; pki_authority $P/b; pki_issue $P/a localhost serverAuth; "
	      "for n in n1 n2 gone; do pki_issue $P/a $n clientAuth; done; "
	      "pki_issue $P/b n1 clientAuth; pki_issue $P/b localhost serverAuth; "
	      "pki_issue $P/a old-server serverAuth '-2 days' '-1 hour'; "
	      "pki_issue $P/a early-server serverAuth '+10 minutes' '+1 day'; "
	      "pki_issue $P/a gone-server serverAuth; pki_revoke $P/a gone-server; "
	      "pki_issue $P/a old clientAuth '-2 days' '-1 hour'; "
	      "pki_issue $P/a early clientAuth '+10 minutes' '+1 day'; pki_revoke $P/a gone; "
	      "mkdir $P/self; openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 "
	      "-nodes "
	      "-subj /CN=n1 -keyout $P/self/n1.key -out $P/self/n1.crt 2>/dev/null; "
	      "names() { echo -n name-0; for i in $(seq $1); do echo -n ,DNS:name-$i; done; }; "
	      "pki_issue $P/a many clientAuth '' '' $(names 99); "
	      "pki_issue $P/a wild clientAuth '' '' '*.ml'; "
	      "pki_issue $P/a huge clientAuth '' '' $(names 3999)");
	return 0;
}

static int teardown(void **state)
{
	char command[128];

	(void)state;
	snprintf(command, sizeof(command), "rm -rf %s", dir);
	return system(command);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(both_know_each_other_and_bytes_arrive_in_order),
	    cmocka_unit_test(each_bad_certificate_is_refused_and_both_sides_say_why),
	    cmocka_unit_test(an_aggregator_of_another_name_is_refused),
	    cmocka_unit_test(plain_bytes_and_damaged_ones_end_a_handshake),
	    cmocka_unit_test(a_certificate_beyond_the_bounds_is_refused),
	    cmocka_unit_test(a_wildcard_is_for_every_name_with_its_suffix),
	    cmocka_unit_test(changed_files_are_taken_and_halves_of_them_are_not),
	    cmocka_unit_test(refuses_files_and_names_the_setting),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
