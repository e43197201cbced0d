/* SPDX-License-Identifier: Apache-2.0 */
#include "base/http/http_post.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/daemon/secret_file.h"
#include "base/text/text.h"

#define CONNECT_S	 5L
#define TOKEN_BYTES	 1024
#define BACKOFF_FIRST_NS 1000000000ull
#define BACKOFF_LAST_NS	 60000000000ull

bool http_post_is_url(const char *text)
{
	CURLU *url = curl_url();
	bool good = url && (!strncmp(text, "http://", 7) || !strncmp(text, "https://", 8)) &&
		    !curl_url_set(url, CURLUPART_URL, text, 0);

	curl_url_cleanup(url);
	return good;
}

uint64_t http_post_backoff_ns(uint64_t before_ns)
{
	uint64_t next_ns = before_ns ? 2 * before_ns : BACKOFF_FIRST_NS;

	return next_ns < BACKOFF_LAST_NS ? next_ns : BACKOFF_LAST_NS;
}

/* Sets the token from the file for the next request. 0; -EINVAL: there is no token, and `why` has
 * the reason. */
static int set_token(CURL *h, const char *path, char *why, size_t why_bytes)
{
	char token[TOKEN_BYTES];
	const char *text;
	struct buf b;
	size_t n;
	int err;

	if (!path || !*path)
		return 0;
	buf_init(&b, TOKEN_BYTES);
	err = secret_file_read(path, &b, why, why_bytes);
	if (!err) {
		buf_append(&b, "", 1);
		text = b.failed ? "" : (const char *)b.data;
		n = strcspn(text, " \t\r\n");
		if (n && n < sizeof(token) && !text[n + strspn(text + n, " \t\r\n")]) {
			text_copy(token, n + 1, text);
			curl_easy_setopt(h, CURLOPT_HTTPAUTH, (long)CURLAUTH_BEARER);
			curl_easy_setopt(h, CURLOPT_XOAUTH2_BEARER, token);
			explicit_bzero(token, sizeof(token));
		} else {
			snprintf(why, why_bytes, "%s is not one token", path);
			err = -EINVAL;
		}
	}
	secret_file_forget(&b);
	return err ? -EINVAL : 0;
}

static size_t take_answer(char *data, size_t size, size_t count, void *answer)
{
	struct buf *b = answer;

	if (b)
		buf_append(b, data, size * count);
	return b && b->failed ? 0 : size * count;
}

static int progress(void *arg, curl_off_t in_bytes, curl_off_t in, curl_off_t out_bytes,
		    curl_off_t out)
{
	const struct http_post *p = arg;

	return p->give_up(p->arg);
}

static void set_options(CURL *h, const struct http_post *p, const void *body, size_t bytes,
			struct curl_slist *headers)
{
	curl_easy_reset(h);
	curl_easy_setopt(h, CURLOPT_URL, p->url);
	curl_easy_setopt(h, CURLOPT_PROTOCOLS_STR, "http,https");
	if (p->direct)
		curl_easy_setopt(h, CURLOPT_NOPROXY, "*");
	curl_easy_setopt(h, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)bytes);
	curl_easy_setopt(h, CURLOPT_POSTFIELDS, bytes ? body : "");
	curl_easy_setopt(h, CURLOPT_CUSTOMREQUEST, p->method);
	curl_easy_setopt(h, CURLOPT_HTTPHEADER, headers);
	curl_easy_setopt(h, CURLOPT_NOSIGNAL, 1L);
	curl_easy_setopt(h, CURLOPT_CONNECTTIMEOUT, CONNECT_S);
	curl_easy_setopt(h, CURLOPT_TIMEOUT, p->timeout_s);
	curl_easy_setopt(h, CURLOPT_LOW_SPEED_LIMIT, 1L);
	curl_easy_setopt(h, CURLOPT_LOW_SPEED_TIME, p->stall_s);
	curl_easy_setopt(h, CURLOPT_MAX_SEND_SPEED_LARGE, (curl_off_t)p->bytes_per_s);
	curl_easy_setopt(h, CURLOPT_WRITEFUNCTION, take_answer);
	curl_easy_setopt(h, CURLOPT_WRITEDATA, p->answer);
	curl_easy_setopt(h, CURLOPT_USERAGENT, p->agent);
	curl_easy_setopt(h, CURLOPT_SSLVERSION, (long)CURL_SSLVERSION_TLSv1_2);
	if (p->give_up) {
		curl_easy_setopt(h, CURLOPT_NOPROGRESS, 0L);
		curl_easy_setopt(h, CURLOPT_XFERINFOFUNCTION, progress);
		curl_easy_setopt(h, CURLOPT_XFERINFODATA, p);
	}
	if (p->ca && *p->ca)
		curl_easy_setopt(h, CURLOPT_CAINFO, p->ca);
}

long http_post_ask(CURL *h, const struct http_post *p, const void *body, size_t bytes,
		   uint64_t *sent_bytes, char *why, size_t why_bytes)
{
	char type[128], reason[256] = "out of memory";
	struct curl_slist *headers;
	curl_off_t sent = 0;
	long status = 0;
	CURLcode code;

	snprintf(type, sizeof(type), "Content-Type: %s", p->type);
	headers = curl_slist_append(NULL, type);
	set_options(h, p, body, bytes, headers);
	if (!headers || set_token(h, p->token_file, reason, sizeof(reason))) {
		snprintf(why, why_bytes, "%s%s%s", p->token_name ? p->token_name : "",
			 p->token_name ? ": " : "", reason);
		curl_slist_free_all(headers);
		return 0;
	}
	code = curl_easy_perform(h);
	curl_easy_getinfo(h, CURLINFO_SIZE_UPLOAD_T, &sent);
	if (sent_bytes)
		*sent_bytes = (uint64_t)sent;
	if (code == CURLE_OK)
		curl_easy_getinfo(h, CURLINFO_RESPONSE_CODE, &status);
	else
		snprintf(why, why_bytes, "%s",
			 code == CURLE_ABORTED_BY_CALLBACK ? "no answer before the program ended"
							   : curl_easy_strerror(code));
	curl_slist_free_all(headers);
	return status;
}

int http_post(CURL *h, const struct http_post *p, const void *body, size_t bytes, char *why,
	      size_t why_bytes)
{
	long status = http_post_ask(h, p, body, bytes, NULL, why, why_bytes);

	/* an answer that did not fit into its room is still an answer */
	if (!status && p->answer && p->answer->failed)
		curl_easy_getinfo(h, CURLINFO_RESPONSE_CODE, &status);
	if (status >= 200 && status < 300)
		return 0;
	if (status)
		snprintf(why, why_bytes, "the receiver answers with status %ld", status);
	/* sending the body again does not help if the receiver rejects it */
	return status >= 400 && status < 500 && status != 429 ? -EINVAL : -EAGAIN;
}
