/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/client/client.h"

#include <curl/curl.h>
#include <errno.h>
#include <gnutls/x509.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Bound of a JSON answer; 10,000 ranks take about 4 MB. */
#define ANSWER_BYTES (16u << 20)

int client_init_url(struct client *c, const char *url)
{
	size_t n = strlen(url);

	memset(c, 0, sizeof(*c));
	if (strncmp(url, "http://", 7) && strncmp(url, "https://", 8))
		return -EINVAL;
	while (n && url[n - 1] == '/')
		n--;
	if (n >= sizeof(c->url) || n < 8)
		return -EINVAL;
	memcpy(c->url, url, n);
	return 0;
}

int client_init_socket(struct client *c, const char *path)
{
	memset(c, 0, sizeof(*c));
	if (strlen(path) >= sizeof(c->socket))
		return -ENAMETOOLONG;
	strcpy(c->socket, path);
	strcpy(c->url, "http://localhost");
	return 0;
}

void client_add(char *path, size_t room, const char *key, const char *value)
{
	char *escaped = value ? curl_easy_escape(NULL, value, 0) : NULL;
	size_t n = strlen(path);

	if (value && (!escaped || !n ||
		      (size_t)snprintf(path + n, room - n, "%c%s=%s", strchr(path, '?') ? '&' : '?',
				       key, escaped) >= room - n))
		*path = '\0';
	curl_free(escaped);
}

static size_t on_body(char *data, size_t size, size_t count, void *arg)
{
	struct buf *b = arg;

	buf_append(b, data, size * count);
	return b->failed ? 0 : size * count;
}

static const char other_server[] =
    "is this sysom-aggregator's HTTP address? Use --url or SYSOM_URL for another";

/* Takes the reason from the server's JSON answer, if it has one. */
static void explain_status(struct client_error *e, const struct client *c, const struct buf *body,
			   const char *path)
{
	const char *server = *c->socket ? c->socket : c->url;
	json_t *j = json_loadb((const char *)body->data, body->bytes, 0, NULL);
	const char *text = json_string_value(json_object_get(j, "error"));

	if (text)
		snprintf(e->why, sizeof(e->why), "%s: %.300s (HTTP status %d)", server, text,
			 e->status);
	else
		snprintf(e->why, sizeof(e->why), "%s: HTTP status %d for %.300s", server, e->status,
			 path);
	/* sysomd (port 9470) answers "not found" */
	if (!*c->socket && e->status == 404 && (!text || !strcmp(text, "not found")))
		e->remedy = other_server;
	json_decref(j);
}

/* Our own text: for a socket, curl's would name localhost. */
static void explain_connect(struct client_error *e, const struct client *c, long os)
{
	e->denied = *c->socket && (os == EACCES || os == EPERM);
	if (!*c->socket)
		e->remedy = "is sysom-aggregator running there? Use --url for another address";
	else if (e->denied)
		e->remedy = "only root and the user that runs sysomd may use it: try sudo";
	else
		e->remedy = "is sysomd running? Use --control for another socket";
	snprintf(e->why, sizeof(e->why), "%s: %s", *c->socket ? c->socket : c->url,
		 os ? strerror((int)os) : "no answer");
}

/* curl has one error for every untrusted certificate; GnuTLS, its backend here, has the exact one. */
static void explain_distrust(struct client_error *e, const struct client *c, long status)
{
	const curl_version_info_data *v = curl_version_info(CURLVERSION_NOW);
	gnutls_datum_t text;

	if (!v->ssl_version || strncmp(v->ssl_version, "GnuTLS", 6) || !status ||
	    gnutls_certificate_verification_status_print((unsigned)status, GNUTLS_CRT_X509, &text,
							 0))
		return;
	snprintf(e->why, sizeof(e->why), "%s: %s", c->url, (const char *)text.data);
	gnutls_free(text.data);
}

static void explain_tls(struct client_error *e, const struct client *c, CURLcode code)
{
	bool secure = !strncmp(c->url, "https://", 8);

	if (code == CURLE_PEER_FAILED_VERIFICATION)
		e->remedy = "check the server's certificate: its dates, its names, and that the "
			    "authority in `ca` of sysom's settings file or SYSOM_CA signed it";
	else if (code == CURLE_SSL_CACERT_BADFILE)
		e->remedy = "check `ca` of sysom's settings file, or SYSOM_CA";
	else if (secure && code == CURLE_SSL_CONNECT_ERROR)
		e->remedy = "is it an https:// server? Try http://";
	else if (!secure && (code == CURLE_GOT_NOTHING || code == CURLE_RECV_ERROR))
		e->remedy = "is it an https:// server? Try https://";
}

static int perform(CURL *h, const struct client *c, const char *path, struct buf *out,
		   struct client_error *e)
{
	char text[CURL_ERROR_SIZE] = "";
	CURLcode code;
	long status = 0;

	curl_easy_setopt(h, CURLOPT_ERRORBUFFER, text);
	code = curl_easy_perform(h);
	curl_easy_setopt(h, CURLOPT_ERRORBUFFER, NULL);
	curl_easy_getinfo(h, CURLINFO_RESPONSE_CODE, &status);
	e->status = (int)status;
	if (code == CURLE_WRITE_ERROR && out->failed) {
		snprintf(e->why, sizeof(e->why), "the answer is larger than %zu bytes",
			 out->max_bytes);
		return -EFBIG;
	}
	if (code == CURLE_COULDNT_CONNECT) {
		long os = 0;

		curl_easy_getinfo(h, CURLINFO_OS_ERRNO, &os);
		explain_connect(e, c, os);
		return -ECONNREFUSED;
	}
	if (code != CURLE_OK) {
		snprintf(e->why, sizeof(e->why), "%s: %s", *c->socket ? c->socket : c->url,
			 *text ? text : curl_easy_strerror(code));
		/* port 9471 takes windows from sysomd and does not speak HTTP */
		if (!*c->socket &&
		    (code == CURLE_UNSUPPORTED_PROTOCOL || code == CURLE_WEIRD_SERVER_REPLY))
			e->remedy = other_server;
		if (!*c->socket)
			explain_tls(e, c, code);
		if (code == CURLE_PEER_FAILED_VERIFICATION) {
			curl_easy_getinfo(h, CURLINFO_SSL_VERIFYRESULT, &status);
			explain_distrust(e, c, status);
		}
		return -EIO;
	}
	if (status / 100 != 2) {
		explain_status(e, c, out, path);
		return status == 404 ? -ENOENT : -EIO;
	}
	return 0;
}

/* json: the body of a POST, or ""; NULL: a GET. */
static int request(const struct client *c, const char *path, const char *json, double timeout_s,
		   struct buf *out, struct client_error *e)
{
	struct curl_slist *headers = NULL;
	char url[2048];
	CURL *h;
	int r;

	*e = (struct client_error){.remedy = ""};
	if (!*path || (size_t)snprintf(url, sizeof(url), "%s%s", c->url, path) >= sizeof(url)) {
		snprintf(e->why, sizeof(e->why), "the request is too long");
		return -EINVAL;
	}
	h = curl_easy_init();
	if (!h) {
		snprintf(e->why, sizeof(e->why), "out of memory");
		return -ENOMEM;
	}
	curl_easy_setopt(h, CURLOPT_URL, url);
	if (*c->socket)
		curl_easy_setopt(h, CURLOPT_UNIX_SOCKET_PATH, c->socket);
	curl_easy_setopt(h, CURLOPT_PROTOCOLS_STR, "http,https");
	/* the servers are on the node or in the cluster, never behind a web proxy */
	curl_easy_setopt(h, CURLOPT_NOPROXY, "*");
	curl_easy_setopt(h, CURLOPT_NOSIGNAL, 1L);
	curl_easy_setopt(h, CURLOPT_CONNECTTIMEOUT_MS, 3000L);
	curl_easy_setopt(h, CURLOPT_TIMEOUT_MS, (long)(timeout_s * 1000));
	curl_easy_setopt(h, CURLOPT_USERAGENT, "sysom");
	curl_easy_setopt(h, CURLOPT_WRITEFUNCTION, on_body);
	curl_easy_setopt(h, CURLOPT_WRITEDATA, out);
	if (json) {
		curl_easy_setopt(h, CURLOPT_POST, 1L);
		curl_easy_setopt(h, CURLOPT_POSTFIELDSIZE, (long)strlen(json));
		curl_easy_setopt(h, CURLOPT_POSTFIELDS, json);
	}
	if (json && *json)
		headers = curl_slist_append(NULL, "Content-Type: application/json");
	curl_easy_setopt(h, CURLOPT_HTTPHEADER, headers);
	curl_easy_setopt(h, CURLOPT_SSLVERSION, (long)CURL_SSLVERSION_TLSv1_2);
	if (*c->ca)
		curl_easy_setopt(h, CURLOPT_CAINFO, c->ca);
	if (*c->token) {
		curl_easy_setopt(h, CURLOPT_HTTPAUTH, (long)CURLAUTH_BEARER);
		curl_easy_setopt(h, CURLOPT_XOAUTH2_BEARER, c->token);
	}
	r = perform(h, c, path, out, e);
	curl_easy_cleanup(h);
	curl_slist_free_all(headers);
	return r;
}

int client_bytes(const struct client *c, const char *path, struct buf *out, struct client_error *e)
{
	return request(c, path, NULL, 30, out, e);
}

static int decoded(const struct client *c, const char *path, const char *body, double timeout_s,
		   json_t **out, struct client_error *e)
{
	struct buf answer;
	json_error_t je;
	int r;

	*out = NULL;
	buf_init(&answer, ANSWER_BYTES);
	r = request(c, path, body, timeout_s, &answer, e);
	if (!r) {
		/* jansson bounds the depth (JSON_PARSER_MAX_DEPTH) and checks the UTF-8 */
		*out = json_loadb((const char *)answer.data, answer.bytes, 0, &je);
		if (!json_is_object(*out)) {
			snprintf(e->why, sizeof(e->why), "%s%s: the answer is not a JSON object",
				 *c->socket ? c->socket : c->url, path);
			json_decref(*out);
			*out = NULL;
			r = -EPROTO;
		}
	}
	buf_fini(&answer);
	return r;
}

int client_json(const struct client *c, const char *path, json_t **out, struct client_error *e)
{
	return decoded(c, path, NULL, 10, out, e);
}

int client_post(const struct client *c, const char *path, const json_t *body, json_t **out,
		struct client_error *e)
{
	char *text;
	int r;

	*out = NULL;
	if (!body)
		return decoded(c, path, "", 10, out, e);
	text = json_dumps(body, JSON_COMPACT);
	if (!text)
		return -ENOMEM;
	/* the aggregator may have to index a large file first */
	r = decoded(c, path, text, 120, out, e);
	free(text);
	return r;
}
