/* SPDX-License-Identifier: Apache-2.0
 * room.h - growable arrays. Header only. */
#pragma once

#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define ROOM_FIRST 8u

/* Makes room for `want` elements, by doubling. array: address of the pointer to the elements,
 * which is malloc-ed or NULL; bytes: size of an element; room: the capacity. 0; -ENOMEM: nothing
 * changed. */
static inline int room_make(void *array, size_t *room, size_t want, size_t bytes)
{
	size_t next = *room ? *room : ROOM_FIRST;
	void *more;

	if (want <= *room)
		return 0;
	while (next < want)
		next *= 2;
	more = next > SIZE_MAX / bytes ? NULL : realloc(*(void **)array, next * bytes);
	if (!more)
		return -ENOMEM;
	*(void **)array = more;
	*room = next;
	return 0;
}

/* Makes room for `want` elements; `room` is a size_t. */
#define ROOM_FOR(array, room, want) room_make(&(array), &(room), (want), sizeof(*(array)))

/* The same, and new elements are zeroed. */
static inline int room_make_zero(void *array, size_t *room, size_t want, size_t bytes)
{
	size_t had = *room;
	int err = room_make(array, room, want, bytes);

	if (*room > had)
		memset(*(char **)array + had * bytes, 0, (*room - had) * bytes);
	return err;
}

#define ROOM_FOR_ZERO(array, room, want) room_make_zero(&(array), &(room), (want), sizeof(*(array)))
