/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/link/tls_settings.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/http/http_address.h"

int tls_settings_check(const struct tls_settings *s, const char *key, const char *url, char *why,
		       size_t why_bytes)
{
	const struct tls_files *f = &s->files;
	bool any = *f->cert || *f->key || *f->ca || *f->crl;
	const char *missing = !*f->cert ? "tls.cert" : !*f->key ? "tls.key" : "tls.ca";

	if (any && (!*f->cert || !*f->key || !*f->ca))
		snprintf(why, why_bytes, "%s is not set; TLS needs tls.cert, tls.key and tls.ca",
			 missing);
	else if (!any && !strncmp(url, "tls+", 4))
		return config_refuse(why, why_bytes, key, url,
				     "of TLS, which needs tls.cert, tls.key and tls.ca");
	else if (!any && !s->insecure && !strncmp(url, "tcp://", 6) &&
		 !http_address_is_loopback(url + 6))
		return config_refuse(why, why_bytes, key, url,
				     "beyond this machine without TLS; set tls.cert, tls.key and "
				     "tls.ca, or --insecure");
	else
		return 0;
	return -EINVAL;
}
