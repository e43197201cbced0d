/* SPDX-License-Identifier: Apache-2.0
 * python_offsets.c - the layouts, as data. */
#include "sampler/python/python_offsets.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/check.h"

/* A field of _Py_DebugOffsets that we use: its offsets in 3.13 and in 3.14 (which inserted
 * members), which values are plausible, and where its value is stored. */
struct debug_field {
	uint16_t at[2];
	bool wide; /* 32 bits, else 16 */
	uint8_t align;
	uint32_t limit;
	size_t to;
};
#define WIDE(field, at_13, at_14, limit, align)                                                    \
	{                                                                                          \
		{at_13, at_14}, true, align, limit, offsetof(struct python_offsets, field)         \
	}
#define NARROW(field, at_13, at_14, limit, align)                                                  \
	{                                                                                          \
		{at_13, at_14}, false, align, limit,                                               \
		    offsetof(struct python_offsets, process.field)                                 \
	}
static const struct debug_field debug_fields[] = {
    WIDE(interpreters_head, 40, 40, 1 << 20, 8),
    WIDE(interp_next, 64, 64, 1 << 20, 8),
    NARROW(threads_head, 72, 72, 65536, 8),
    NARROW(interp_gil, 112, 120, 65536, 8),
    /* both from the start of PyInterpreterState, which contains the GIL */
    NARROW(gil_locked, 136, 144, 65536, 4),
    NARROW(gil_holder, 144, 152, 65536, 8),
    NARROW(tstate_next, 168, 192, PYTHON_SCRATCH_BYTES - 8, 8),
    NARROW(tstate_interp, 176, 200, PYTHON_SCRATCH_BYTES - 8, 8),
    NARROW(tstate_frame, 184, 208, PYTHON_SCRATCH_BYTES - 8, 8),
    NARROW(tstate_thread_id, 192, 216, PYTHON_SCRATCH_BYTES - 8, 8),
    NARROW(frame_previous, 232, 256, 112, 8),
    NARROW(frame_code, 240, 264, 112, 8),
    NARROW(frame_instr, 248, 272, 112, 8),
    NARROW(frame_owner, 264, 288, 112, 1),
    WIDE(code_bytes, 272, 312, 512, 1),
    WIDE(code_filename, 280, 320, 256, 8),
    WIDE(code_name, 296, 336, 256, 8),
    WIDE(code_linetable, 304, 344, 256, 8),
    WIDE(code_firstlineno, 312, 352, 256, 4),
    WIDE(code_instructions, 344, 384, 512, 2),
    WIDE(object_type, 360, 408, 64, 8),
    WIDE(bytes_size, 520, 600, 64, 8),
    WIDE(bytes_data, 528, 608, 64, 1),
    WIDE(unicode_state, 544, 624, 64, 4),
    WIDE(unicode_length, 552, 632, 64, 8),
    WIDE(ascii_bytes, 560, 640, 128, 4),
};
static const uint16_t debug_gil_at[2] = {120, 128}; /* of the interpreter's GIL */

static void version_3_10(struct python_offsets *o)
{
	struct python_process *p = &o->process;

	o->interpreters_head = 0x20;
	o->runtime_gil = 0x160;
	o->runtime_current = 0x238;
	o->runtime_tss = 0x248;
	o->object_type = 8;
	o->code_bytes = 176;
	o->code_filename = 104;
	o->code_name = 112;
	o->code_linetable = 120;
	o->code_firstlineno = 40;
	o->ascii_bytes = 48;
	o->compact_bytes = 72;
	p->layout = PYTHON_LAYOUT_OBJECT;
	p->threads_head = 8;
	p->tstate_bytes = 184;
	p->tstate_interp = 16;
	p->tstate_frame = 24;
	p->tstate_thread_id = 176;
	p->frame_bytes = 104;
	p->frame_previous = 24;
	p->frame_code = 32;
	p->frame_instr = 96;
}

static void version_3_11(struct python_offsets *o)
{
	struct python_process *p = &o->process;

	o->interpreters_head = 0x28;
	o->runtime_gil = 0x168;
	o->runtime_current = 0x240;
	o->runtime_tss = 0x250;
	o->object_type = 8;
	o->code_bytes = 184;
	o->code_filename = 112;
	o->code_name = 128;
	o->code_linetable = 136;
	o->code_firstlineno = 72;
	o->code_instructions = 184;
	o->ascii_bytes = 48;
	o->compact_bytes = 72;
	p->layout = PYTHON_LAYOUT_ENTRY;
	p->threads_head = 16;
	p->tstate_bytes = 160;
	p->tstate_interp = 16;
	p->tstate_frame = 56;
	p->tstate_thread_id = 152;
	p->cframe_bytes = 16;
	p->cframe_frame = 8;
	p->frame_bytes = 72;
	p->frame_code = 32;
	p->frame_previous = 48;
	p->frame_instr = 56;
	p->frame_owner = 68; /* is_entry */
}

static void version_3_12(struct python_offsets *o)
{
	struct python_process *p = &o->process;

	o->interpreters_head = 0x28;
	o->runtime_tss = 0x608;
	o->object_type = 8;
	o->code_bytes = 192;
	o->code_filename = 112;
	o->code_name = 128;
	o->code_linetable = 136;
	o->code_firstlineno = 68;
	o->code_instructions = 192;
	o->ascii_bytes = 40;
	o->compact_bytes = 56;
	p->layout = PYTHON_LAYOUT_SHIM;
	p->shim_owner = 3;
	p->threads_head = 0x48;
	p->interp_gil = 0x180;
	p->tstate_bytes = 144;
	p->tstate_interp = 16;
	p->tstate_frame = 56;
	p->tstate_thread_id = 136;
	p->cframe_bytes = 8;
	p->cframe_frame = 0;
	p->frame_bytes = 72;
	p->frame_code = 0;
	p->frame_previous = 8;
	p->frame_instr = 56;
	p->frame_owner = 70;
}

int python_offsets_of_version(struct python_offsets *out, uint32_t version)
{
	memset(out, 0, sizeof(*out));
	out->version = version;
	switch (version >> 16) {
	case 0x030a:
		version_3_10(out);
		break;
	case 0x030b:
		version_3_11(out);
		break;
	case 0x030c:
		version_3_12(out);
		break;
	default:
		return -ENOTSUP;
	}
	out->verified = true;
	out->bytes_size = 16;
	out->bytes_data = 32;
	out->unicode_length = 16;
	out->unicode_state = 32;
	out->process.minor = (uint8_t)(version >> 16);
	out->process.tag_mask = ~0ull;
	out->process.tstate_next = 8;
	out->process.gil_bytes = 208;
	out->process.gil_holder = 8;
	out->process.gil_locked = 16;
	return 0;
}

static uint64_t debug_word(const uint8_t *debug, uint32_t at)
{
	uint64_t value;

	memcpy(&value, debug + at, sizeof(value));
	return value;
}

static bool take_fields(struct python_offsets *o, const uint8_t *debug, bool is_14)
{
	for (size_t i = 0; i < ARRAY_LEN(debug_fields); i++) {
		const struct debug_field *f = &debug_fields[i];
		uint64_t v = debug_word(debug, f->at[is_14]);

		if (v >= f->limit || v % f->align)
			return false;
		if (f->wide)
			memcpy((char *)o + f->to, &(uint32_t){(uint32_t)v}, 4);
		else
			memcpy((char *)o + f->to, &(uint16_t){(uint16_t)v}, 2);
	}
	return true;
}

static bool finish_process(struct python_process *p, uint64_t gil)
{
	uint16_t id = p->tstate_thread_id, owner = p->frame_owner;

	/* the walk reads 32 bytes of the GIL */
	if (gil >= 65536 || gil % 8 || p->gil_locked < gil || p->gil_holder < gil ||
	    p->gil_locked - gil > 28 || p->gil_holder - gil > 24)
		return false;
	p->gil_locked -= (uint16_t)gil;
	p->gil_holder -= (uint16_t)gil;
	p->gil_bytes = 208;
	p->tstate_bytes = id + 8;
	p->frame_bytes = (owner + 8) & ~7;
	return p->tstate_next < id && p->tstate_interp < id && p->tstate_frame < id &&
	       p->frame_previous < owner && p->frame_code < owner && p->frame_instr < owner;
}

static bool finish_objects(struct python_offsets *o)
{
	o->code_bytes = o->code_instructions < 264 ? o->code_instructions : 264;
	/* utf8_length and utf8 follow */
	o->compact_bytes = o->ascii_bytes + 16;
	return o->code_instructions && o->code_filename + 8 <= o->code_bytes &&
	       o->code_name + 8 <= o->code_bytes && o->code_linetable + 8 <= o->code_bytes &&
	       o->code_firstlineno + 4 <= o->code_bytes && o->object_type + 8 <= o->code_bytes &&
	       o->unicode_state + 4 <= o->ascii_bytes && o->unicode_length + 8 <= o->ascii_bytes;
}

int python_offsets_of_debug(struct python_offsets *out, const uint8_t *debug, size_t bytes,
			    char *why, size_t why_bytes)
{
	uint64_t version;
	unsigned minor;

	memset(out, 0, sizeof(*out));
	if (bytes < PYTHON_OFFSETS_DEBUG_BYTES || memcmp(debug, PYTHON_OFFSETS_COOKIE, 8)) {
		snprintf(why, why_bytes, "no debug offsets");
		return -ENOTSUP;
	}
	version = debug_word(debug, 8);
	minor = (unsigned)(version >> 16 & 0xff);
	if (version >> 24 != 3 || minor < 13 || minor > 14) {
		snprintf(why, why_bytes, "CPython %u.%u: its debug offsets are not known",
			 (unsigned)(version >> 24 & 0xff), minor);
		return -ENOTSUP;
	}
	if (debug_word(debug, 16)) {
		snprintf(why, why_bytes, "CPython 3.%u: a free-threaded build", minor);
		return -ENOTSUP;
	}
	out->version = (uint32_t)version;
	out->verified = minor == 13;
	out->process.layout = PYTHON_LAYOUT_SHIM;
	out->process.shim_owner = 3;
	out->process.minor = (uint8_t)minor;
	out->process.tag_mask = minor >= 14 ? ~7ull : ~0ull;
	if (!take_fields(out, debug, minor == 14) ||
	    !finish_process(&out->process, debug_word(debug, debug_gil_at[minor == 14])) ||
	    !finish_objects(out)) {
		snprintf(why, why_bytes, "CPython 3.%u: implausible debug offsets", minor);
		return -ENOTSUP;
	}
	return 0;
}
