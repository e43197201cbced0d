/* SPDX-License-Identifier: Apache-2.0
 * access.h - how `sysom` reaches the aggregator: url, ca and token of its settings file, which is
 * the first of SYSOM_CONFIG, ~/.config/sysom/sysom.yaml and /etc/sysom/sysom.yaml. SYSOM_CA
 * replaces ca.
 * The token goes to the file's url alone, and never over plain http to another machine. A file with
 * a token follows the rules of base/daemon/secret_file.h.
 * Threads: one caller. */
#pragma once

#include "cli/client/client.h"

/* url: the user's own choice, or NULL: the file's, or else the aggregator's default on this machine.
 * 0, or -EINVAL and the like with the reason in `why`; "" after messages. */
int access_client(struct client *c, const char *url, char *why, size_t why_bytes);
