/* SPDX-License-Identifier: Apache-2.0
 * http_tls.h - the certificate and key of an HTTPS server. The files are read again when they
 * change. While the new ones are not valid, connections get the previous certificate, and the log
 * says so.
 * Owns: what was read. Threads: the server's. Only one per process can be in use at a time, because
 * GnuTLS's callback has no argument. */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct http_tls;

/* Paths of PEM files, borrowed. -EINVAL and the like with the reason in `why`. An expired
 * certificate is not an error here: clients refuse it, and the daemon's other work must continue. */
int http_tls_open(struct http_tls **out, const char *certificate, const char *key, char *why,
		  size_t why_bytes);
void http_tls_close(struct http_tls *t); /* NULL is a no-op */
/* From now on http_tls_retrieve returns this certificate, and the log warns before it expires. */
void http_tls_use(struct http_tls *t);
/* When the certificate expires, in seconds since 1970. */
int64_t http_tls_expires_unix_s(const struct http_tls *t);
/* For MHD_OPTION_HTTPS_CERT_CALLBACK2. */
void *http_tls_retrieve(void);
#define HTTP_TLS_PRIORITIES "NORMAL:-VERS-ALL:+VERS-TLS1.3:+VERS-TLS1.2:%SERVER_PRECEDENCE"
