/* SPDX-License-Identifier: Apache-2.0
 * beat_columns.h - a rank's step groups, communicators and sampled collectives as packed rows
 * (docs/wire-format.md, "Rows of a beat").
 * Not compressed: a few hundred bytes of differences do not get smaller, and every node sends a
 * beat every few seconds. Threads: any. Trust: what is read may be hostile. Reading sets at most as
 * many rows as the struct holds, and only values that model/window.h allows. */
#pragma once

#include "model/window.h"
#include "wire/fields.h"

/* Writing: appends the rank's rows; nothing if it has none. Reading: sets its rows and their count.
 * 0, -EINVAL (rows that window.h does not allow), -ENOMEM, -EPROTO. Read communicators before
 * collectives, which refer to them. */
int beat_columns_groups(struct fields *f, struct beat_rank *r);
int beat_columns_comms(struct fields *f, struct beat_rank *r);
int beat_columns_colls(struct fields *f, struct beat_rank *r);
/* The groups' thread blocks; nothing if none is known. Read after groups. */
int beat_columns_blocks(struct fields *f, struct beat_rank *r);
/* The communicators' open_* fields; read after comms. */
int beat_columns_opens(struct fields *f, struct beat_rank *r);
