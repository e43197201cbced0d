/* SPDX-License-Identifier: Apache-2.0
 * access.h - how `sysom` reaches the aggregator: url, ca and token of its settings file, which is
 * the first of SYSOM_CONFIG, ~/.config/sysom/sysom.yaml and /etc/sysom/sysom.yaml. SYSOM_CA
 * replaces ca.
 * The token is sent only to the file's own url, and never over plain http to another machine. A file with
 * a token follows the rules of base/daemon/secret_file.h.
 * Threads: one caller. */
#pragma once

#include "cli/client/client.h"

/* url: from the user; NULL: the file's, else the default on this machine. 0, or -errno with the reason in
 * `why` ("": it was printed). */
int access_client(struct client *c, const char *url, char *why, size_t why_bytes);
