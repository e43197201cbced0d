/* SPDX-License-Identifier: Apache-2.0
 * beat_columns.h - a rank's step groups, communicators and sampled collectives as packed rows
 * (docs/wire-format.md, "Rows of a beat").
 * Not compressed: some hundred bytes of differences do not get smaller, and every node
 * sends a beat every few seconds. Threads: any. Trust: what is read may be hostile; at most as many
 * rows as the struct holds are set, and only to what model/window.h allows. */
#pragma once

#include "model/window.h"
#include "wire/fields.h"

/* Append the rank's rows, or nothing without rows; or set its rows and their count. 0, -EINVAL (rows
 * that window.h does not allow), -ENOMEM, -EPROTO. Read communicators before collectives, which
 * refer to them. */
int beat_columns_groups(struct fields *f, struct beat_rank *r);
int beat_columns_comms(struct fields *f, struct beat_rank *r);
int beat_columns_colls(struct fields *f, struct beat_rank *r);
/* The groups' thread blocks; nothing if none is known. Read after groups. */
int beat_columns_blocks(struct fields *f, struct beat_rank *r);
/* The communicators' open_* fields; read after comms. */
int beat_columns_opens(struct fields *f, struct beat_rank *r);
