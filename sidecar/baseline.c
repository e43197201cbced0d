/* SPDX-License-Identifier: Apache-2.0
 * The file keeps the learning steps, not the model's numbers. So a restored model is what the
 * current code makes of these steps, even if an older version wrote them. A damaged file cannot
 * give the model a state that steps could not. */
#include "sidecar/baseline.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/all_bytes.h"
#include "base/hash.h"
#include "base/replace.h"

#define BASELINE_MAGIC	    0x31656e696c657362ull /* "bseline1" */
#define BASELINE_VERSION    2u
#define BASELINE_NAME_BYTES 64
/* Longer than any step: steps_config.period_max_ns is 60 s. */
#define BASELINE_LATENCY_MAX_NS 3600e9

struct baseline_head {
	uint64_t magic;
	uint32_t version, count;
	uint64_t pid, uid, start_ticks;
	uint32_t boot, reserved;
	uint64_t checksum; /* over the samples, seeded with the hash of the fields above */
};
_Static_assert(sizeof(struct baseline_head) == 56, "baseline_head is a file format");
_Static_assert(sizeof(struct judge_sample) == 64, "judge_sample is a file format");

static void file_name(const struct baseline_id *id, char out[BASELINE_NAME_BYTES])
{
	snprintf(out, BASELINE_NAME_BYTES, "%" PRIu64 "-%08" PRIx32 "-%" PRIu64 ".baseline",
		 id->pid, id->boot, id->start_ticks);
}

static uint64_t checksum(const struct baseline_head *h, const struct judge_sample *samples)
{
	uint64_t head = hash_bytes(HASH_SEED, h, offsetof(struct baseline_head, checksum));

	return hash_mix(hash_bytes(head, samples, sizeof(*samples) * h->count));
}

int baseline_save(int dirfd, const struct baseline_id *id, const struct judge_sample *samples,
		  uint32_t count)
{
	struct baseline_head h = {.magic = BASELINE_MAGIC,
				  .version = BASELINE_VERSION,
				  .count = count,
				  .pid = id->pid,
				  .uid = id->uid,
				  .start_ticks = id->start_ticks,
				  .boot = id->boot};
	char name[BASELINE_NAME_BYTES];
	struct replace file;
	int err;

	h.checksum = checksum(&h, samples);
	file_name(id, name);
	err = replace_begin(&file, dirfd, name, 0600);
	if (err)
		return err;
	err = all_bytes_write(file.fd, &h, sizeof(h));
	if (!err)
		err = all_bytes_write(file.fd, samples, sizeof(*samples) * count);
	return replace_end(&file, err);
}

static bool is_sane(const struct judge_sample *s)
{
	if (!s->key || s->work_count > STEP_WORK_MAX || s->known > 1)
		return false;
	if (!isfinite(s->latency_ns) || s->latency_ns <= 0 ||
	    s->latency_ns > BASELINE_LATENCY_MAX_NS)
		return false;
	if (!isfinite(s->self_ns) || s->self_ns < 0 || s->self_ns > BASELINE_LATENCY_MAX_NS)
		return false;
	for (uint32_t i = 0; i < s->work_count; i++)
		if (!isfinite(s->work[i]) || s->work[i] < 0 || s->work[i] > 1e18)
			return false;
	return true;
}

static int load(int fd, const struct baseline_id *id, struct judge_sample *out, uint32_t max)
{
	struct baseline_head h;
	struct stat st;
	int err;

	if (fstat(fd, &st))
		return -errno;
	if (!S_ISREG(st.st_mode) || all_bytes_read(fd, &h, sizeof(h), 0))
		return -EPROTO;
	if (h.magic != BASELINE_MAGIC || h.version != BASELINE_VERSION || h.count > max ||
	    h.pid != id->pid || h.uid != id->uid || h.start_ticks != id->start_ticks ||
	    h.boot != id->boot)
		return -EPROTO;
	if ((uint64_t)st.st_size != sizeof(h) + sizeof(*out) * h.count)
		return -EBADMSG;
	err = all_bytes_read(fd, out, sizeof(*out) * h.count, sizeof(h));
	if (err)
		return err;
	if (h.checksum != checksum(&h, out))
		return -EBADMSG;
	for (uint32_t i = 0; i < h.count; i++)
		if (!is_sane(&out[i]))
			return -EBADMSG;
	return (int)h.count;
}

int baseline_load(int dirfd, const struct baseline_id *id, struct judge_sample *out, uint32_t max)
{
	char name[BASELINE_NAME_BYTES];
	int fd, got;

	file_name(id, name);
	fd = openat(dirfd, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	if (fd < 0)
		return errno == ENOENT ? -ENOENT : -EPROTO;
	got = load(fd, id, out, max);
	close(fd);
	return got;
}

void baseline_remove(int dirfd, const struct baseline_id *id)
{
	char name[BASELINE_NAME_BYTES];

	file_name(id, name);
	unlinkat(dirfd, name, 0);
}

void baseline_sweep(int dirfd, uint32_t boot)
{
	int fd = openat(dirfd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *d = fd >= 0 ? fdopendir(fd) : NULL;
	struct dirent *e;

	if (!d && fd >= 0)
		close(fd);
	while (d && (e = readdir(d))) {
		char back[BASELINE_NAME_BYTES];
		struct baseline_id id = {0};

		if (e->d_name[0] == '.')
			continue;
		if (sscanf(e->d_name, "%" SCNu64 "-%8" SCNx32 "-%" SCNu64, &id.pid, &id.boot,
			   &id.start_ticks) == 3) {
			file_name(&id, back);
			if (!strcmp(back, e->d_name) && id.boot == boot && id.pid <= INT32_MAX &&
			    id.pid > 0 && (!kill((pid_t)id.pid, 0) || errno == EPERM))
				continue;
		}
		unlinkat(dirfd, e->d_name, 0);
	}
	if (d)
		closedir(d);
}
