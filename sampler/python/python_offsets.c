/* SPDX-License-Identifier: Apache-2.0
 * python_offsets.c - the layouts, as data. */
#include "sampler/python/python_offsets.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

/* The fields of _Py_DebugOffsets that we use, as positions: 3.14 inserted members. */
struct debug_layout {
	uint32_t minor;
	uint16_t interpreters_head;
	uint16_t interp_next, threads_head, ceval_gil, gil, gil_locked, gil_holder;
	uint16_t tstate_next, tstate_interp, tstate_frame, tstate_thread_id;
	uint16_t frame_previous, frame_code, frame_instr, frame_owner;
	uint16_t code_size, code_filename, code_name, code_linetable, code_firstlineno,
	    code_instructions;
	uint16_t object_type;
	uint16_t bytes_size, bytes_data;
	uint16_t unicode_state, unicode_length, unicode_ascii;
};

static const struct debug_layout DEBUG_LAYOUTS[] = {
    {.minor = 13,
     .interpreters_head = 40,
     .interp_next = 64,
     .threads_head = 72,
     .ceval_gil = 112,
     .gil = 120,
     .gil_locked = 136,
     .gil_holder = 144,
     .tstate_next = 168,
     .tstate_interp = 176,
     .tstate_frame = 184,
     .tstate_thread_id = 192,
     .frame_previous = 232,
     .frame_code = 240,
     .frame_instr = 248,
     .frame_owner = 264,
     .code_size = 272,
     .code_filename = 280,
     .code_name = 296,
     .code_linetable = 304,
     .code_firstlineno = 312,
     .code_instructions = 344,
     .object_type = 360,
     .bytes_size = 520,
     .bytes_data = 528,
     .unicode_state = 544,
     .unicode_length = 552,
     .unicode_ascii = 560},
    {.minor = 14,
     .interpreters_head = 40,
     .interp_next = 64,
     .threads_head = 72,
     .ceval_gil = 120,
     .gil = 128,
     .gil_locked = 144,
     .gil_holder = 152,
     .tstate_next = 192,
     .tstate_interp = 200,
     .tstate_frame = 208,
     .tstate_thread_id = 216,
     .frame_previous = 256,
     .frame_code = 264,
     .frame_instr = 272,
     .frame_owner = 288,
     .code_size = 312,
     .code_filename = 320,
     .code_name = 336,
     .code_linetable = 344,
     .code_firstlineno = 352,
     .code_instructions = 384,
     .object_type = 408,
     .bytes_size = 600,
     .bytes_data = 608,
     .unicode_state = 624,
     .unicode_length = 632,
     .unicode_ascii = 640},
};

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

/* Reads an offset that must be below limit and a multiple of align. */
static bool take(const uint8_t *debug, uint32_t at, uint64_t limit, uint64_t align, uint64_t *out)
{
	*out = debug_word(debug, at);
	return *out < limit && *out % align == 0;
}

static bool take_process(struct python_process *p, const uint8_t *debug,
			 const struct debug_layout *l)
{
	uint64_t head, gil, own, locked, holder, next, interp, frame, id, previous, code, instr,
	    owner;

	if (!take(debug, l->threads_head, 65536, 8, &head) ||
	    !take(debug, l->ceval_gil, 65536, 8, &gil) || !take(debug, l->gil, 65536, 8, &own) ||
	    !take(debug, l->gil_locked, 65536, 4, &locked) ||
	    !take(debug, l->gil_holder, 65536, 8, &holder) ||
	    !take(debug, l->tstate_next, PYTHON_SCRATCH_BYTES - 8, 8, &next) ||
	    !take(debug, l->tstate_interp, PYTHON_SCRATCH_BYTES - 8, 8, &interp) ||
	    !take(debug, l->tstate_frame, PYTHON_SCRATCH_BYTES - 8, 8, &frame) ||
	    !take(debug, l->tstate_thread_id, PYTHON_SCRATCH_BYTES - 8, 8, &id) ||
	    !take(debug, l->frame_previous, 112, 8, &previous) ||
	    !take(debug, l->frame_code, 112, 8, &code) ||
	    !take(debug, l->frame_instr, 112, 8, &instr) ||
	    !take(debug, l->frame_owner, 112, 1, &owner))
		return false;
	/* the walk reads 32 bytes of the GIL */
	if (locked < own || holder < own || locked - own > 28 || holder - own > 24)
		return false;
	p->threads_head = (uint16_t)head;
	p->interp_gil = (uint16_t)gil;
	p->gil_locked = (uint16_t)(locked - own);
	p->gil_holder = (uint16_t)(holder - own);
	p->gil_bytes = 208;
	p->tstate_next = (uint16_t)next;
	p->tstate_interp = (uint16_t)interp;
	p->tstate_frame = (uint16_t)frame;
	p->tstate_thread_id = (uint16_t)id;
	p->tstate_bytes = (uint16_t)(id + 8);
	p->frame_previous = (uint16_t)previous;
	p->frame_code = (uint16_t)code;
	p->frame_instr = (uint16_t)instr;
	p->frame_owner = (uint16_t)owner;
	p->frame_bytes = (uint16_t)((owner + 8) & ~7ull);
	return next < id && interp < id && frame < id && previous < owner && code < owner &&
	       instr < owner;
}

static bool take_objects(struct python_offsets *o, const uint8_t *debug,
			 const struct debug_layout *l)
{
	uint64_t size, file, name, lines, first, instructions, type, bytes_size, bytes_data, state,
	    length, ascii, head, next;

	if (!take(debug, l->interpreters_head, 1 << 20, 8, &head) ||
	    !take(debug, l->interp_next, 1 << 20, 8, &next) ||
	    !take(debug, l->code_size, 512, 1, &size) ||
	    !take(debug, l->code_filename, 256, 8, &file) ||
	    !take(debug, l->code_name, 256, 8, &name) ||
	    !take(debug, l->code_linetable, 256, 8, &lines) ||
	    !take(debug, l->code_firstlineno, 256, 4, &first) ||
	    !take(debug, l->code_instructions, 512, 2, &instructions) ||
	    !take(debug, l->object_type, 64, 8, &type) ||
	    !take(debug, l->bytes_size, 64, 8, &bytes_size) ||
	    !take(debug, l->bytes_data, 64, 1, &bytes_data) ||
	    !take(debug, l->unicode_state, 64, 4, &state) ||
	    !take(debug, l->unicode_length, 64, 8, &length) ||
	    !take(debug, l->unicode_ascii, 128, 4, &ascii) || !instructions)
		return false;
	o->interpreters_head = (uint32_t)head;
	o->interp_next = (uint32_t)next;
	o->code_filename = (uint32_t)file;
	o->code_name = (uint32_t)name;
	o->code_linetable = (uint32_t)lines;
	o->code_firstlineno = (uint32_t)first;
	o->code_instructions = (uint32_t)instructions;
	o->code_bytes = 264;
	if (instructions < o->code_bytes)
		o->code_bytes = (uint32_t)instructions;
	o->object_type = (uint32_t)type;
	o->bytes_size = (uint32_t)bytes_size;
	o->bytes_data = (uint32_t)bytes_data;
	o->unicode_state = (uint32_t)state;
	o->unicode_length = (uint32_t)length;
	o->ascii_bytes = (uint32_t)ascii;
	/* utf8_length and utf8 follow */
	o->compact_bytes = (uint32_t)ascii + 16;
	return file + 8 <= o->code_bytes && name + 8 <= o->code_bytes &&
	       lines + 8 <= o->code_bytes && first + 4 <= o->code_bytes &&
	       type + 8 <= o->code_bytes && state + 4 <= ascii && length + 8 <= ascii;
}

int python_offsets_of_debug(struct python_offsets *out, const uint8_t *debug, size_t bytes,
			    char *why, size_t why_bytes)
{
	const struct debug_layout *l = NULL;
	uint64_t version;

	memset(out, 0, sizeof(*out));
	if (bytes < PYTHON_OFFSETS_DEBUG_BYTES || memcmp(debug, PYTHON_OFFSETS_COOKIE, 8)) {
		snprintf(why, why_bytes, "no debug offsets");
		return -ENOTSUP;
	}
	version = debug_word(debug, 8);
	for (size_t i = 0; i < sizeof(DEBUG_LAYOUTS) / sizeof(DEBUG_LAYOUTS[0]); i++) {
		if (version >> 16 == (3u << 8 | DEBUG_LAYOUTS[i].minor))
			l = &DEBUG_LAYOUTS[i];
	}
	if (!l) {
		snprintf(why, why_bytes, "CPython %u.%u: its debug offsets are not known",
			 (unsigned)(version >> 24 & 0xff), (unsigned)(version >> 16 & 0xff));
		return -ENOTSUP;
	}
	if (debug_word(debug, 16)) {
		snprintf(why, why_bytes, "CPython 3.%u: a free-threaded build", (unsigned)l->minor);
		return -ENOTSUP;
	}
	out->version = (uint32_t)version;
	out->verified = l->minor == 13;
	out->process.layout = PYTHON_LAYOUT_SHIM;
	out->process.shim_owner = 3;
	out->process.minor = (uint8_t)l->minor;
	out->process.tag_mask = l->minor >= 14 ? ~7ull : ~0ull;
	if (!take_process(&out->process, debug, l) || !take_objects(out, debug, l)) {
		snprintf(why, why_bytes, "CPython 3.%u: implausible debug offsets",
			 (unsigned)l->minor);
		return -ENOTSUP;
	}
	return 0;
}
