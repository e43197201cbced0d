/* SPDX-License-Identifier: Apache-2.0 */
#include "sidecar/gpu/gpu_match.h"

#include <string.h>
#include <strings.h>

#include "base/text/text.h"

static uint32_t by_process(const struct gpu_poll_device *device, uint32_t count, uint32_t pid)
{
	uint32_t found = GPU_NONE;

	for (uint32_t i = 0; pid && i < count; i++)
		for (uint32_t k = 0; k < device[i].last.pid_count; k++) {
			if (device[i].last.pid[k] != pid)
				continue;
			if (found != GPU_NONE && found != i)
				return GPU_NONE; /* the process works on several devices */
			found = i;
		}
	return found;
}

/* Finds the device by its UUID or by the UUID's beginning, as CUDA accepts it. More than one match
 * is no match. */
static uint32_t by_uuid(const struct gpu_poll_device *device, uint32_t count, const char *visible)
{
	uint32_t found = GPU_NONE;
	size_t n = strlen(visible);

	if (strncasecmp(visible, "GPU-", 4) || n <= 4)
		return GPU_NONE;
	for (uint32_t i = 0; i < count; i++) {
		if (strncasecmp(device[i].id.uuid, visible, n))
			continue;
		if (found != GPU_NONE)
			return GPU_NONE;
		found = i;
	}
	return found;
}

static uint32_t by_number(uint32_t count, const char *visible)
{
	uint64_t v;

	return text_number(visible, UINT32_MAX, &v) && v < count ? (uint32_t)v : GPU_NONE;
}

uint32_t gpu_match(const struct gpu_poll_device *device, uint32_t count, uint32_t pid,
		   const char *visible, int32_t local_rank, enum gpu_match_source *source)
{
	uint32_t at = by_process(device, count, pid);

	*source = GPU_MATCH_PROCESS;
	if (at != GPU_NONE)
		return at;
	*source = GPU_MATCH_UUID;
	at = by_uuid(device, count, visible);
	if (at != GPU_NONE)
		return at;
	*source = GPU_MATCH_INDEX;
	at = by_number(count, visible);
	if (at != GPU_NONE)
		return at;
	if (!*visible && local_rank >= 0 && (uint32_t)local_rank < count) {
		*source = GPU_MATCH_LOCAL;
		return (uint32_t)local_rank;
	}
	*source = GPU_MATCH_NONE;
	return GPU_NONE;
}

const char *gpu_match_source_name(enum gpu_match_source source)
{
	static const char *const names[] = {"none", "process", "uuid", "index", "local_rank"};

	return names[source];
}
