/* SPDX-License-Identifier: Apache-2.0
 * cuda_memory.c - device memory of the libcuda double. An untouched mapping backs every allocation,
 * so that small copies carry data. Larger copies are only timed, because a real node's CPU does not
 * move gigabytes either. */
#include "sim/cuda_double.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define COPY_REAL_BYTES 65536u
#define COPY_LATENCY_NS 1500u

enum { COPY_HTOD = 1, COPY_DTOH = 2, COPY_DTOD = 8, COPY_HTOH = 9, COPY_PEER = 10 };

struct block {
	uintptr_t base;
	size_t bytes;
	int device;
};
static struct block *blocks; /* sorted by base */
static size_t block_count, block_room;

/* The index of the first block with base > p. */
static size_t block_after(uintptr_t p)
{
	size_t lo = 0, hi = block_count;

	while (lo < hi) {
		size_t mid = (lo + hi) / 2;

		if (blocks[mid].base <= p)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}

static struct block *block_of_locked(uintptr_t p)
{
	size_t i = block_after(p);

	if (!i || p - blocks[i - 1].base >= blocks[i - 1].bytes)
		return NULL;
	return &blocks[i - 1];
}

static cu_result allocate(cu_deviceptr *out, size_t bytes)
{
	cu_result rc = CU_OK;
	void *p;

	if (!gpu_current())
		return gpu.initialised ? CU_INVALID_CONTEXT : CU_NOT_INITIALIZED;
	if (!out || !bytes)
		return CU_INVALID_VALUE;
	gpu_lock();
	if (bytes > gpu.memory_total - gpu.memory_used) {
		rc = CU_OUT_OF_MEMORY;
		goto out;
	}
	if (block_count == block_room) {
		size_t room = block_room ? block_room * 2 : 64;
		struct block *grown = realloc(blocks, room * sizeof(*grown));

		if (!grown) {
			rc = CU_OUT_OF_MEMORY;
			goto out;
		}
		blocks = grown;
		block_room = room;
	}
	p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
		 -1, 0);
	if (p == MAP_FAILED) {
		rc = CU_OUT_OF_MEMORY;
		goto out;
	}
	size_t i = block_after((uintptr_t)p);

	memmove(blocks + i + 1, blocks + i, (block_count - i) * sizeof(*blocks));
	blocks[i] = (struct block){(uintptr_t)p, bytes, gpu_current() ? gpu_current()->device : 0};
	block_count++;
	gpu.memory_used += bytes;
	*out = (cu_deviceptr)(uintptr_t)p;
out:
	gpu_unlock();
	return rc;
}

static cu_result release(cu_deviceptr p)
{
	cu_result rc = CU_OK;
	struct block *b;

	if (!p)
		return CU_OK;
	gpu_lock();
	b = block_of_locked((uintptr_t)p);
	if (!b || b->base != p) {
		rc = CU_INVALID_VALUE;
	} else {
		munmap((void *)b->base, b->bytes);
		gpu.memory_used -= b->bytes;
		memmove(b, b + 1, (size_t)(blocks + block_count - b - 1) * sizeof(*b));
		block_count--;
	}
	gpu_unlock();
	return rc;
}

CU_API(3020, cuMemAlloc_v2, (cu_deviceptr * out, size_t bytes))
{
	return allocate(out, bytes);
}

CU_API(6000, cuMemAllocManaged, (cu_deviceptr * out, size_t bytes, unsigned flags))
{
	return allocate(out, bytes);
}

CU_API(3020, cuMemAllocPitch_v2,
       (cu_deviceptr * out, size_t *pitch, size_t width, size_t height, unsigned element))
{
	*pitch = (width + 511) / 512 * 512;
	return allocate(out, *pitch * height);
}

CU_API(3020, cuMemFree_v2, (cu_deviceptr p))
{
	return release(p);
}

CU_API_TWO(11020, 11020, cuMemAllocAsync, _ptsz, (cu_deviceptr * out, size_t bytes, cu_stream s),
	   (out, bytes, s))
{
	return allocate(out, bytes);
}

CU_API_TWO(11020, 11020, cuMemFreeAsync, _ptsz, (cu_deviceptr p, cu_stream s), (p, s))
{
	return release(p);
}

CU_API_TWO(11020, 11020, cuMemAllocFromPoolAsync, _ptsz,
	   (cu_deviceptr * out, size_t bytes, cu_mempool pool, cu_stream s), (out, bytes, pool, s))
{
	return allocate(out, bytes);
}

CU_API(2020, cuMemHostAlloc, (void **out, size_t bytes, unsigned flags))
{
	if (!bytes)
		return CU_INVALID_VALUE;
	*out = aligned_alloc(4096, (bytes + 4095) / 4096 * 4096);
	return *out ? CU_OK : CU_OUT_OF_MEMORY;
}

/* ---- copies ---- */

/* The block that contains all of these bytes, or NULL. */
static const struct block *in_block(uintptr_t p, size_t bytes)
{
	const struct block *b = block_of_locked(p);

	return b && bytes <= b->bytes - (p - b->base) ? b : NULL;
}

static cu_result copy(bool pt, void *dst, const void *src, size_t bytes, uint8_t kind, cu_stream s,
		      bool wait)
{
	struct gpu_work w = {.kind = GPU_OP_COPY, .bytes = bytes};
	const struct block *to, *from;
	bool peer;
	cu_result rc;

	gpu_lock();
	to = in_block((uintptr_t)dst, bytes);
	from = in_block((uintptr_t)src, bytes);
	peer = to && from && to->device != from->device;
	gpu_unlock();
	if (!kind)
		kind = to ? (from ? COPY_DTOD : COPY_HTOD) : from ? COPY_DTOH : COPY_HTOH;
	if (!bytes)
		return CU_OK;
	if (!dst || !src || (!to && (kind == COPY_HTOD || kind == COPY_DTOD)) ||
	    (!from && (kind == COPY_DTOH || kind == COPY_DTOD)))
		return CU_INVALID_VALUE;
	if (bytes <= COPY_REAL_BYTES)
		memmove(dst, src, bytes);
	if (peer) /* over the bus, as to and from the host */
		kind = COPY_PEER;
	w.copy_kind = kind;
	w.dur_ns =
	    COPY_LATENCY_NS + bytes * 1000 / (gpu.copy_bytes_per_us * (kind == COPY_DTOD ? 40 : 1));
	rc = cuda_double_submit(s, pt, &w);
	if (!rc && wait) {
		struct cu_stream_st *q;

		gpu_lock();
		q = cuda_double_stream_locked(s, pt);
		if (q && !q->capture)
			gpu_op_synchronize_locked(q->tail);
		gpu_unlock();
	}
	return rc;
}

#define P(x) ((void *)(uintptr_t)(x))

CU_API_TWO(3020, 7000, cuMemcpyDtoH_v2, _ptds, (void *h, cu_deviceptr d, size_t n), (h, d, n))
{
	return copy(pt, h, P(d), n, COPY_DTOH, NULL, true);
}

CU_API_TWO(3020, 7000, cuMemcpyHtoDAsync_v2, _ptsz,
	   (cu_deviceptr d, const void *h, size_t n, cu_stream s), (d, h, n, s))
{
	return copy(pt, P(d), h, n, COPY_HTOD, s, false);
}

CU_API_TWO(3020, 7000, cuMemcpyDtoHAsync_v2, _ptsz,
	   (void *h, cu_deviceptr d, size_t n, cu_stream s), (h, d, n, s))
{
	return copy(pt, h, P(d), n, COPY_DTOH, s, false);
}

CU_API_TWO(3020, 7000, cuMemcpyDtoDAsync_v2, _ptsz,
	   (cu_deviceptr a, cu_deviceptr b, size_t n, cu_stream s), (a, b, n, s))
{
	return copy(pt, P(a), P(b), n, COPY_DTOD, s, false);
}

CU_API_TWO(3020, 7000, cuMemsetD8Async, _ptsz,
	   (cu_deviceptr d, unsigned char v, size_t bytes, cu_stream s), (d, v, bytes, s))
{
	struct gpu_work w = {.kind = GPU_OP_SET, .bytes = bytes};
	bool ok;

	gpu_lock();
	ok = in_block((uintptr_t)d, bytes);
	gpu_unlock();
	if (!ok)
		return CU_INVALID_VALUE;
	if (bytes <= COPY_REAL_BYTES)
		memset(P(d), v, bytes);
	w.dur_ns = 1000 + bytes * 1000 / (gpu.copy_bytes_per_us * 60);
	return cuda_double_submit(s, pt, &w);
}
