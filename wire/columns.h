/* SPDX-License-Identifier: Apache-2.0
 * columns.h - record and step arrays as packed columns (docs/wire-format.md, "Packed fields").
 * Threads: any. Trust: the unpack functions take hostile bytes and write only the rows that the
 * caller allocated; before allocating, call columns_rows_fit. Only the layout is checked: the
 * caller checks names, kinds and times. */
#pragma once

#include "base/buf.h"
#include "model/window.h"
#include "wire/pack.h"

/* Appends a packed block of the host rows followed by the device rows (either may be empty).
 * 0, -EMSGSIZE, -ENOMEM. */
int columns_pack(const struct record *host, uint32_t host_count, const struct record *device,
		 uint32_t device_count, enum pack_effort effort, struct buf *out);
/* Whether a block that unpacks to `unpacked_bytes` can contain that many rows. */
bool columns_rows_fit(uint64_t rows, size_t unpacked_bytes);
/* Fills exactly the given rows; max_bytes bounds the unpacked size. -EPROTO, -EMSGSIZE, -ENOMEM. */
int columns_unpack(const void *data, size_t bytes, size_t max_bytes, struct record *host,
		   uint32_t host_count, struct record *device, uint32_t device_count);

int columns_steps_pack(const struct window_step *steps, uint32_t count, struct buf *out);
int columns_steps_unpack(const void *data, size_t bytes, size_t max_bytes,
			 struct window_step *steps, uint32_t count);
