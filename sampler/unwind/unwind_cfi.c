/* SPDX-License-Identifier: Apache-2.0
 * unwind_cfi.c - see unwind_cfi.h. libdw can run these programs too, but for one address at a time
 * and each time from the function's start. That is too slow for the 1.5 million rows of one
 * file. */
#include "sampler/unwind/unwind_cfi.h"

#include <dwarf.h>
#include <string.h>

#define RSP 7u
#define RBP 6u

static uint64_t fixed(struct unwind_cfi_cursor *c, unsigned bytes)
{
	uint64_t v = 0;

	if ((size_t)(c->end - c->p) < bytes) {
		c->failed = true;
		c->p = c->end;
		return 0;
	}
	memcpy(&v, c->p, bytes);
	c->p += bytes;
	return v;
}

uint64_t unwind_cfi_uleb(struct unwind_cfi_cursor *c)
{
	uint64_t v = 0;

	for (unsigned shift = 0; shift < 70; shift += 7) {
		uint64_t b = fixed(c, 1);

		if (shift < 64)
			v |= (b & 0x7f) << shift;
		if (!(b & 0x80))
			return v;
	}
	c->failed = true;
	return 0;
}

int64_t unwind_cfi_sleb(struct unwind_cfi_cursor *c)
{
	uint64_t v = 0;

	for (unsigned shift = 0; shift < 70;) {
		uint64_t b = fixed(c, 1);

		if (shift < 64)
			v |= (b & 0x7f) << shift;
		shift += 7;
		if (!(b & 0x80)) {
			if ((b & 0x40) && shift < 64)
				v |= ~0ull << shift;
			return (int64_t)v;
		}
	}
	c->failed = true;
	return 0;
}

uint64_t unwind_cfi_pointer(struct unwind_cfi_cursor *c, uint8_t encoding, uint64_t address)
{
	uint64_t v;

	switch (encoding & 0x0f) {
	case DW_EH_PE_absptr:
	case DW_EH_PE_udata8:
	case DW_EH_PE_sdata8:
		v = fixed(c, 8);
		break;
	case DW_EH_PE_uleb128:
		v = unwind_cfi_uleb(c);
		break;
	case DW_EH_PE_sleb128:
		v = (uint64_t)unwind_cfi_sleb(c);
		break;
	case DW_EH_PE_udata2:
		v = fixed(c, 2);
		break;
	case DW_EH_PE_sdata2:
		v = (uint64_t)(int64_t)(int16_t)fixed(c, 2);
		break;
	case DW_EH_PE_udata4:
		v = fixed(c, 4);
		break;
	case DW_EH_PE_sdata4:
		v = (uint64_t)(int64_t)(int32_t)fixed(c, 4);
		break;
	default:
		c->failed = true;
		return 0;
	}
	switch (encoding & 0xf0) {
	case DW_EH_PE_absptr:
		return v;
	case DW_EH_PE_pcrel:
		return v + address;
	default: /* no compiler uses another base, or an indirect one, for code */
		c->failed = true;
		return 0;
	}
}

static struct unwind_cfi_location *tracked(struct unwind_cfi_machine *m, struct unwind_cfi_state *s,
					   uint64_t number)
{
	if (number == m->ra_register)
		return &s->at[UNWIND_CFI_RA];
	if (number == RBP)
		return &s->at[UNWIND_CFI_RBP];
	if (number == UNWIND_RBX)
		return &s->at[UNWIND_CFI_RBX];
	return NULL;
}

static void locate(struct unwind_cfi_machine *m, uint64_t number, enum unwind_cfi_where where,
		   int64_t offset)
{
	struct unwind_cfi_location *l = tracked(m, &m->now, number);

	if (l)
		*l = (struct unwind_cfi_location){.where = where, .offset = offset};
}

static void restore(struct unwind_cfi_machine *m, uint64_t number)
{
	struct unwind_cfi_location *l = tracked(m, &m->now, number);

	if (l)
		*l = *tracked(m, &m->initial, number);
}

static void expression(struct unwind_cfi_cursor *c, const uint8_t **p, size_t *bytes)
{
	uint64_t n = unwind_cfi_uleb(c);

	*p = c->p;
	if (n > (uint64_t)(c->end - c->p)) {
		c->failed = true;
		n = 0;
	}
	*bytes = n;
	c->p += n;
}

/* Offsets of a hostile file may overflow: they wrap. */
static int64_t scaled(const struct unwind_cfi_machine *m, uint64_t v)
{
	return (int64_t)(v * (uint64_t)m->data_align);
}

static bool run_location(struct unwind_cfi_machine *m, struct unwind_cfi_cursor *c, uint8_t op)
{
	uint64_t number = unwind_cfi_uleb(c);
	struct unwind_cfi_location *l;

	switch (op) {
	case DW_CFA_offset_extended:
		locate(m, number, UNWIND_CFI_OFFSET, scaled(m, unwind_cfi_uleb(c)));
		return true;
	case DW_CFA_offset_extended_sf:
		locate(m, number, UNWIND_CFI_OFFSET, scaled(m, (uint64_t)unwind_cfi_sleb(c)));
		return true;
	case DW_CFA_GNU_negative_offset_extended:
		locate(m, number, UNWIND_CFI_OFFSET, scaled(m, 0 - unwind_cfi_uleb(c)));
		return true;
	case DW_CFA_val_offset:
		locate(m, number, UNWIND_CFI_VAL_OFFSET, scaled(m, unwind_cfi_uleb(c)));
		return true;
	case DW_CFA_val_offset_sf:
		locate(m, number, UNWIND_CFI_VAL_OFFSET, scaled(m, (uint64_t)unwind_cfi_sleb(c)));
		return true;
	case DW_CFA_restore_extended:
		restore(m, number);
		return true;
	case DW_CFA_undefined:
		locate(m, number, UNWIND_CFI_UNDEFINED, 0);
		return true;
	case DW_CFA_same_value:
		locate(m, number, UNWIND_CFI_SAME, 0);
		return true;
	case DW_CFA_register:
		locate(m, number, UNWIND_CFI_REGISTER, (int64_t)unwind_cfi_uleb(c));
		return true;
	case DW_CFA_expression:
	case DW_CFA_val_expression: {
		const uint8_t *p;
		size_t bytes;

		expression(c, &p, &bytes);
		l = tracked(m, &m->now, number);
		if (l)
			*l = (struct unwind_cfi_location){op == DW_CFA_expression
							      ? UNWIND_CFI_EXPRESSION
							      : UNWIND_CFI_VAL_EXPRESSION,
							  0, p, bytes};
		return true;
	}
	default:
		return false;
	}
}

static bool run_cfa(struct unwind_cfi_machine *m, struct unwind_cfi_cursor *c, uint8_t op)
{
	struct unwind_cfi_state *s = &m->now;

	switch (op) {
	case DW_CFA_def_cfa:
		s->cfa_register = unwind_cfi_uleb(c);
		s->cfa_offset = (int64_t)unwind_cfi_uleb(c);
		s->cfa_expression = NULL;
		return true;
	case DW_CFA_def_cfa_sf:
		s->cfa_register = unwind_cfi_uleb(c);
		s->cfa_offset = scaled(m, (uint64_t)unwind_cfi_sleb(c));
		s->cfa_expression = NULL;
		return true;
	case DW_CFA_def_cfa_register:
		s->cfa_register = unwind_cfi_uleb(c);
		return true;
	case DW_CFA_def_cfa_offset:
		s->cfa_offset = (int64_t)unwind_cfi_uleb(c);
		return true;
	case DW_CFA_def_cfa_offset_sf:
		s->cfa_offset = scaled(m, (uint64_t)unwind_cfi_sleb(c));
		return true;
	case DW_CFA_def_cfa_expression:
		expression(c, &s->cfa_expression, &s->cfa_expression_bytes);
		return true;
	case DW_CFA_remember_state:
		if (m->depth == LIMIT_UNWIND_REMEMBER)
			return false;
		m->remembered[m->depth++] = *s;
		return true;
	case DW_CFA_restore_state:
		if (!m->depth)
			return false;
		*s = m->remembered[--m->depth];
		return true;
	case DW_CFA_GNU_args_size:
		unwind_cfi_uleb(c);
		return true;
	case DW_CFA_nop:
		return true;
	default:
		return run_location(m, c, op);
	}
}

/* 1: m->pc moved. */
static int run_one(struct unwind_cfi_machine *m, struct unwind_cfi_cursor *c)
{
	uint8_t op = (uint8_t)fixed(c, 1);
	uint64_t by;

	switch (op & 0xc0) {
	case DW_CFA_advance_loc:
		by = op & 0x3f;
		break;
	case DW_CFA_offset:
		locate(m, op & 0x3f, UNWIND_CFI_OFFSET, scaled(m, unwind_cfi_uleb(c)));
		return 0;
	case DW_CFA_restore:
		restore(m, op & 0x3f);
		return 0;
	default:
		switch (op) {
		case DW_CFA_set_loc:
			m->pc = unwind_cfi_pointer(c, m->pointer_encoding,
						   m->section_address +
						       (uint64_t)(c->p - m->section_begin));
			return 1;
		case DW_CFA_advance_loc1:
			by = fixed(c, 1);
			break;
		case DW_CFA_advance_loc2:
			by = fixed(c, 2);
			break;
		case DW_CFA_advance_loc4:
			by = fixed(c, 4);
			break;
		default:
			return run_cfa(m, c, op) ? 0 : -1;
		}
	}
	m->pc += by * m->code_align;
	return 1;
}

int unwind_cfi_run(struct unwind_cfi_machine *m, struct unwind_cfi_cursor *c)
{
	while (c->p < c->end) {
		int rc = run_one(m, c);

		if (c->failed)
			return -1;
		if (rc)
			return rc;
	}
	return 0;
}

/* Decodes "DW_OP_bregN offset" at the beginning. Returns the register, or -1. */
static int breg(struct unwind_cfi_cursor *c, int64_t *offset)
{
	uint8_t op = (uint8_t)fixed(c, 1);

	if (op < DW_OP_breg0 || op > DW_OP_breg0 + 16)
		return -1;
	*offset = unwind_cfi_sleb(c);
	return c->failed ? -1 : op - DW_OP_breg0;
}

/* Matches rsp + 8 + ((rip & 15) >= N) << 3, which linkers write for the lazy PLT. Returns N, or
 * -1. */
static int plt_offset(const uint8_t *p, size_t bytes)
{
	static const uint8_t before[] = {DW_OP_breg7, 8, DW_OP_breg16, 0, DW_OP_lit15, DW_OP_and};
	static const uint8_t behind[] = {DW_OP_ge, DW_OP_lit3, DW_OP_shl, DW_OP_plus};

	if (bytes != sizeof(before) + 1 + sizeof(behind) || memcmp(p, before, sizeof(before)) ||
	    memcmp(p + sizeof(before) + 1, behind, sizeof(behind)))
		return -1;
	p += sizeof(before);
	return *p >= DW_OP_lit0 && *p <= DW_OP_lit15 ? *p - DW_OP_lit0 : -1;
}

/* Matches *(register + a) + b, and stores it in r. True: the expression has that form and fits. */
static bool deref(const uint8_t *p, size_t bytes, struct unwind_rule *r)
{
	struct unwind_cfi_cursor c = {p, p + bytes, false};
	int64_t a = 0, b = 0;
	int number = breg(&c, &a);

	if (number < 0 || number > 15 || fixed(&c, 1) != DW_OP_deref)
		return false;
	if (c.p < c.end) {
		uint8_t op = (uint8_t)fixed(&c, 1);

		if (op == DW_OP_plus_uconst)
			b = (int64_t)unwind_cfi_uleb(&c);
		else if (op >= DW_OP_lit0 && op <= DW_OP_lit31 && fixed(&c, 1) == DW_OP_plus)
			b = op - DW_OP_lit0;
		else
			return false;
	}
	if (c.failed || c.p != c.end || a < -(1 << 23) || a >= 1 << 23 || b < 0 || b > 127 * 8 ||
	    b % 8)
		return false;
	r->cfa = (uint8_t)(UNWIND_CFA_DEREF | number << 4);
	r->offset = UNWIND_DEREF(a, b);
	return true;
}

/* Matches the kernel's signal frame, as the C libraries describe their trampoline: the stack
 * pointer is in the ucontext, 160 bytes in, and the program counter follows it. */
static bool is_signal(const struct unwind_cfi_state *s)
{
	static const uint8_t sp[] = {DW_OP_breg7, 0xa0, 0x01, DW_OP_deref};
	static const uint8_t pc[] = {DW_OP_breg7, 0xa8, 0x01};
	const struct unwind_cfi_location *ra = &s->at[UNWIND_CFI_RA];

	return s->cfa_expression && s->cfa_expression_bytes == sizeof(sp) &&
	       !memcmp(s->cfa_expression, sp, sizeof(sp)) && ra->where == UNWIND_CFI_EXPRESSION &&
	       ra->expression_bytes == sizeof(pc) && !memcmp(ra->expression, pc, sizeof(pc));
}

static enum unwind_saved saved(const struct unwind_cfi_state *s,
			       const struct unwind_cfi_location *l, int8_t *slot)
{
	int64_t offset = l->offset;
	enum unwind_saved how = UNWIND_SAVED_CFA;

	if (l->where == UNWIND_CFI_SAME)
		return UNWIND_SAVED_SAME;
	if (l->where == UNWIND_CFI_EXPRESSION) {
		struct unwind_cfi_cursor c = {l->expression, l->expression + l->expression_bytes,
					      false};
		int number = breg(&c, &offset);

		if (c.p != c.end)
			return UNWIND_SAVED_LOST;
		if (number == (int)RBP)
			how = UNWIND_SAVED_RBP;
		else if (number == (int)RSP && !s->cfa_expression && s->cfa_register == RSP)
			offset = (int64_t)((uint64_t)offset - (uint64_t)s->cfa_offset);
		else
			return UNWIND_SAVED_LOST;
	} else if (l->where != UNWIND_CFI_OFFSET) {
		return UNWIND_SAVED_LOST;
	}
	if (offset % 8 || offset < -128 * 8 || offset > 127 * 8)
		return UNWIND_SAVED_LOST;
	*slot = (int8_t)(offset / 8);
	return how;
}

static bool cfa_rule(const struct unwind_cfi_state *s, struct unwind_rule *r)
{
	int n;

	if (!s->cfa_expression) {
		if (s->cfa_register > 15 || s->cfa_offset < INT32_MIN || s->cfa_offset > INT32_MAX)
			return false;
		r->cfa = (uint8_t)(UNWIND_CFA_REGISTER | s->cfa_register << 4);
		r->offset = (int32_t)s->cfa_offset;
		return true;
	}
	n = plt_offset(s->cfa_expression, s->cfa_expression_bytes);
	if (n >= 0) {
		r->cfa = UNWIND_CFA_PLT;
		r->offset = n;
		return true;
	}
	return deref(s->cfa_expression, s->cfa_expression_bytes, r);
}

struct unwind_rule unwind_cfi_rule(const struct unwind_cfi_state *s)
{
	const struct unwind_rule unsupported = {.cfa = UNWIND_CFA_UNSUPPORTED};
	const struct unwind_cfi_location *ra = &s->at[UNWIND_CFI_RA];
	struct unwind_rule r = {0};
	unsigned rbp, rbx, in_register = 0;

	if (ra->where == UNWIND_CFI_UNDEFINED)
		return (struct unwind_rule){.cfa = UNWIND_CFA_END};
	if (is_signal(s))
		return (struct unwind_rule){.cfa = UNWIND_CFA_SIGNAL};
	if (ra->where == UNWIND_CFI_REGISTER && ra->offset > 0 && ra->offset < 16)
		in_register = (unsigned)ra->offset;
	else if (ra->where != UNWIND_CFI_OFFSET || ra->offset != -8)
		return unsupported;
	if (!cfa_rule(s, &r))
		return unsupported;
	rbp = saved(s, &s->at[UNWIND_CFI_RBP], &r.rbp_slot);
	rbx = saved(s, &s->at[UNWIND_CFI_RBX], &r.rbx_slot);
	r.saved = (uint8_t)(rbp | rbx << 2 | in_register << 4);
	return r;
}
