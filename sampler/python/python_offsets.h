/* SPDX-License-Identifier: Apache-2.0
 * python_offsets.h - the struct offsets of CPython 3.10 to 3.14 that a profiler needs. 3.13 and
 * later publish them (_Py_DebugOffsets, Include/internal/pycore_debug_offsets.h). The tables for
 * 3.10 to 3.12 come from gdb's output for their debug information (`ptype /o`), which is the same
 * in all their patch releases. x86-64. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "bpf/python_format.h"

#define PYTHON_OFFSETS_COOKIE "xdebugpy"
/* Bytes read of _Py_DebugOffsets: 3.14 needs the most. */
#define PYTHON_OFFSETS_DEBUG_BYTES 648

struct python_offsets {
	uint32_t version; /* 0x030b07f0: 3.11.7 final */
	/* the layout; addresses stay 0 */
	struct python_process process;
	/* of _PyRuntime */
	uint32_t interpreters_head;
	uint32_t runtime_gil;	  /* 3.10, 3.11: the GIL's struct */
	uint32_t runtime_current; /* 3.10, 3.11: the holder's thread state */
	uint32_t runtime_tss;	  /* Py_tss_t autoTSSkey; 0 unknown */
	/* of PyInterpreterState */
	uint32_t interp_next;
	/* of PyCodeObject */
	uint32_t object_type;
	uint32_t code_bytes; /* size of the fixed part */
	uint32_t code_filename, code_name, code_linetable, code_firstlineno;
	uint32_t code_instructions; /* 3.11 and later: the bytecode; 0: in a separate object */
	/* of PyBytesObject and PyUnicodeObject */
	uint32_t bytes_size, bytes_data;
	uint32_t unicode_length, unicode_state;
	uint32_t ascii_bytes, compact_bytes; /* sizes of the structs before the characters */
	bool verified; /* tested with a real interpreter of this minor version */
};

/* From the version number: 3.10 to 3.12. 0, -ENOTSUP. */
int python_offsets_of_version(struct python_offsets *out, uint32_t version);
/* From the process: bytes of _Py_DebugOffsets, copied from it (hostile). 0, -ENOTSUP; why: the
 * reason, of at most why_bytes. */
int python_offsets_of_debug(struct python_offsets *out, const uint8_t *debug, size_t bytes,
			    char *why, size_t why_bytes);
