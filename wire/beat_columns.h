/* SPDX-License-Identifier: Apache-2.0
 * beat_columns.h - a rank's step groups, communicators and sampled collectives as packed rows
 * (docs/wire-format.md, "Rows of a beat").
 * Not compressed: some hundred bytes of differences do not get smaller, and every node
 * sends a beat every few seconds. Threads: any. Trust: the unpack functions take hostile bytes,
 * write at most as many rows as the struct holds, and return only what model/window.h allows. */
#pragma once

#include "base/buf.h"
#include "model/window.h"

/* The shift for these groups: their times on the wire are multiples of 2^shift. */
uint32_t beat_columns_shift(const struct beat_group *groups, uint32_t count);

/* Append the rank's rows, or nothing without rows. 0, -EINVAL (rows that window.h does not allow),
 * -ENOMEM. */
int beat_columns_groups_pack(const struct beat_rank *r, struct buf *out);
int beat_columns_comms_pack(const struct beat_rank *r, struct buf *out);
int beat_columns_colls_pack(const struct beat_rank *r, struct buf *out);
/* Appends the groups' thread blocks; nothing if none is known. Unpack after groups. */
int beat_columns_blocks_pack(const struct beat_rank *r, struct buf *out);
int beat_columns_blocks_unpack(const uint8_t *data, size_t bytes, struct beat_rank *r);
/* Fill the rank's rows and count. -EPROTO. Unpack communicators before collectives, which refer to
 * them. */
int beat_columns_groups_unpack(const uint8_t *data, size_t bytes, struct beat_rank *r);
int beat_columns_comms_unpack(const uint8_t *data, size_t bytes, struct beat_rank *r);
int beat_columns_colls_unpack(const uint8_t *data, size_t bytes, struct beat_rank *r);

/* The communicators' open_* fields; unpack after comms. */
int beat_columns_opens_pack(const struct beat_rank *r, struct buf *out);
int beat_columns_opens_unpack(const uint8_t *data, size_t bytes, struct beat_rank *r);
