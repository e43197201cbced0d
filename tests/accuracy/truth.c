/* SPDX-License-Identifier: Apache-2.0
 * truth.c - see truth.h. Stack memory comes from the record alone; code and data that can't change
 * come from the running process. What else is read from it (the interrupted stack under a handler
 * that runs on an alternate one) is counted, since it may have moved on. */
#include "tests/accuracy/truth.h"

#include <elfutils/libdw.h>
#include <elfutils/libdwfl.h>
#include <errno.h>
#include <fcntl.h>
#include <libunwind.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define TRUTH_RANGES 4096

struct range {
	uint64_t begin, end;
};

struct truth {
	uint32_t pid;
	int memory;
	Dwfl *dwfl;
	struct range fixed[TRUTH_RANGES]; /* mappings that are not writable */
	uint32_t fixed_count;
	unw_addr_space_t space;
	/* of the record that is being unwound */
	const struct snapshot_record *record;
	uint64_t reg[UNWIND_REGISTERS], pc; /* where libdw begins */
	bool interrupted;		    /* and is to begin again: what a signal interrupted */
	const struct mapping_scan *mappings;
	struct truth_stack *out;
};

static char *no_debuginfo = "";
static const Dwfl_Callbacks callbacks = {
    .find_elf = dwfl_linux_proc_find_elf,
    .find_debuginfo = dwfl_standard_find_debuginfo,
    .debuginfo_path = &no_debuginfo,
};

static bool is_fixed(const struct truth *t, uint64_t address)
{
	for (uint32_t i = 0; i < t->fixed_count; i++) {
		if (address >= t->fixed[i].begin && address < t->fixed[i].end)
			return true;
	}
	return false;
}

/* address may be anything, 2^64 - 1 too. */
static bool is_within(uint64_t address, size_t bytes, uint64_t begin, uint64_t length)
{
	return address >= begin && bytes <= length && address - begin <= length - bytes;
}

bool truth_holds(const struct truth *t, const struct snapshot_record *r, size_t bytes,
		 uint64_t address)
{
	return is_within(address, bytes, r->stack_begin, r->stack_bytes) ||
	       is_within(address, bytes, r->other_begin, r->other_bytes) || is_fixed(t, address);
}

int truth_read(struct truth *t, const struct snapshot_record *r, void *to, size_t bytes,
	       uint64_t address)
{
	if (is_within(address, bytes, r->stack_begin, r->stack_bytes)) {
		memcpy(to, r->stack + (address - r->stack_begin), bytes);
		return 0;
	}
	if (is_within(address, bytes, r->other_begin, r->other_bytes)) {
		memcpy(to, r->other + (address - r->other_begin), bytes);
		return 0;
	}
	if (pread(t->memory, to, bytes, (off_t)address) != (ssize_t)bytes)
		return -1;
	if (t->out && !is_fixed(t, address)) {
		/* the stack goes on behind what the record holds: it has moved on since */
		if (address >= r->stack_begin && address < r->stack_begin + (16u << 20)) {
			t->out->cut = true;
			return -1;
		}
		t->out->live_reads++;
	}
	return 0;
}

static pid_t next_thread(Dwfl *dwfl, void *arg, void **thread)
{
	struct truth *t = arg;

	if (*thread)
		return 0;
	*thread = t;
	return (pid_t)t->record->tid;
}

static bool memory_read(Dwfl *dwfl, Dwarf_Addr address, Dwarf_Word *result, void *arg)
{
	struct truth *t = arg;

	return !truth_read(t, t->record, result, 8, address);
}

static bool initial_registers(Dwfl_Thread *thread, void *arg)
{
	const struct truth *t = arg;
	Dwarf_Word w[17];

	for (int i = 0; i < UNWIND_REGISTERS; i++)
		w[i] = t->reg[i];
	w[16] = t->pc;
	if (!dwfl_thread_state_registers(thread, 0, 17, w))
		return false;
	dwfl_thread_state_register_pc(thread, t->pc);
	return true;
}

/* Whether there is unwind information for the code before `pc`: without any libdw says the same words
 * as when an address is in no file. *signal: it calls that a signal's frame. *begin: of the rule. */
static bool has_rule(struct truth *t, uint64_t pc, uint64_t *begin, bool *signal)
{
	Dwfl_Module *m = dwfl_addrmodule(t->dwfl, pc - 1);
	Dwarf_CFI *cfi[2];
	Dwarf_Addr bias[2];
	Dwarf_Frame *frame;

	*begin = 0;
	*signal = false;
	if (!m)
		return false;
	cfi[0] = dwfl_module_eh_cfi(m, &bias[0]);
	cfi[1] = dwfl_module_dwarf_cfi(m, &bias[1]);
	for (int i = 0; i < 2; i++) {
		if (cfi[i] && !dwarf_cfi_addrframe(cfi[i], pc - 1 - bias[i], &frame)) {
			dwarf_frame_info(frame, begin, NULL, signal);
			*begin += bias[i];
			free(frame);
			return true;
		}
	}
	return false;
}

/* mov $15, %eax or %rax; syscall: the trampoline that the kernel has a signal handler return to. */
static bool is_sigreturn(struct truth *t, uint64_t pc)
{
	static const uint8_t eax[] = {0xb8, 15, 0, 0, 0, 0x0f, 0x05};
	static const uint8_t rax[] = {0x48, 0xc7, 0xc0, 15, 0, 0, 0, 0x0f, 0x05};
	uint8_t b[sizeof(rax)];

	return !truth_read(t, t->record, b, sizeof(b), pc) &&
	       (!memcmp(b, eax, sizeof(eax)) || !memcmp(b, rax, sizeof(rax)));
}

/* Whether a call ends at pc: a direct one, or through a register or memory (ff /2, by length). */
static bool is_called(struct truth *t, uint64_t pc)
{
	uint8_t b[7];

	if (truth_read(t, t->record, b, sizeof(b), pc - sizeof(b)))
		return false;
	for (int i = 0; i < 6; i++) {
		if (i != 2 && b[i] == 0xff && (b[i + 1] & 0x38) == 0x10)
			return true;
	}
	return b[2] == 0xe8;
}

/* Whether the frame that pc returns to has no caller, and its rule leads to what happens to lie above the
 * stack: pc is one byte behind the beginning of its rule, and no call is before it. Elsewhere code that
 * did not call may be returned to: Go's signal handler makes what it interrupted seem to have called. */
static bool is_bottom(struct truth *t, uint64_t pc)
{
	uint64_t begin;
	bool signal;

	return has_rule(t, pc, &begin, &signal) && !signal && begin == pc - 1 && !is_called(t, pc);
}

/* Where the file does not call the trampoline a signal's frame, libdw takes it for a function and goes
 * by rbp. What was interrupted then is what the kernel's ucontext says, as gdb has it. */
static bool from_ucontext(struct truth *t, Dwfl_Frame *frame)
{
	static const uint8_t order[] = {8, 9, 10, 11, 12, 13, 14, 15, 5, 4, 6, 3, 1, 0, 2, 7};
	Dwarf_Word sp;
	uint64_t g[17];

	if (dwfl_frame_reg(frame, UNWIND_RSP, &sp) ||
	    truth_read(t, t->record, g, sizeof(g), sp + 40))
		return false;
	for (unsigned i = 0; i < sizeof(order); i++)
		t->reg[order[i]] = g[i];
	t->pc = g[16];
	return true;
}

static int on_frame(Dwfl_Frame *frame, void *arg)
{
	struct truth *t = arg;
	Dwarf_Addr pc, begin;
	bool exact, signal;

	if (!dwfl_frame_pc(frame, &pc, &exact))
		return DWARF_CB_ABORT;
	if (t->out->count == UNWIND_FRAME_MAX)
		return DWARF_CB_ABORT;
	t->out->pc[t->out->count++] = pc;
	if (exact)
		return DWARF_CB_OK;
	if (is_sigreturn(t, pc)) {
		if (has_rule(t, pc, &begin, &signal) && signal)
			return DWARF_CB_OK;
		t->interrupted = from_ucontext(t, frame);
		return DWARF_CB_ABORT;
	}
	return is_bottom(t, pc) ? DWARF_CB_ABORT : DWARF_CB_OK;
}

static const Dwfl_Thread_Callbacks thread_callbacks = {
    .next_thread = next_thread,
    .memory_read = memory_read,
    .set_initial_registers = initial_registers,
};

void truth_libdw(struct truth *t, const struct snapshot_record *r, struct truth_stack *out)
{
	uint64_t begin;
	bool signal;
	int rc;

	memset(out, 0, sizeof(*out));
	t->record = r;
	t->out = out;
	memcpy(t->reg, r->reg, sizeof(t->reg));
	t->pc = r->pc;
	do {
		t->interrupted = false;
		rc = dwfl_getthread_frames(t->dwfl, (pid_t)r->tid, on_frame, t);
	} while (t->interrupted);
	t->out = NULL;
	if (rc < 0) {
		snprintf(out->why, sizeof(out->why), "%s", dwfl_errmsg(-1));
		out->silent =
		    !has_rule(t, out->count ? out->pc[out->count - 1] : r->pc, &begin, &signal);
	}
}

static int read_ranges(struct truth *t)
{
	char path[64], line[512];
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%u/maps", t->pid);
	f = fopen(path, "r");
	if (!f)
		return -errno;
	while (fgets(line, sizeof(line), f) && t->fixed_count < TRUTH_RANGES) {
		struct range r;
		char mode[8];

		if (sscanf(line, "%lx-%lx %7s", &r.begin, &r.end, mode) == 3 &&
		    (mode[1] != 'w' || mode[2] == 'x'))
			t->fixed[t->fixed_count++] = r;
	}
	fclose(f);
	return 0;
}

/* ---- libunwind, over accessors of our own ---- */

static int proc_name(unw_addr_space_t as, unw_word_t ip, char *name, size_t bytes,
		     unw_word_t *offset, void *arg)
{
	return -UNW_ENOINFO;
}

static int dyn_list(unw_addr_space_t as, unw_word_t *address, void *arg)
{
	return -UNW_ENOINFO;
}

static void put_info(unw_addr_space_t as, unw_proc_info_t *info, void *arg)
{
}

static int resume(unw_addr_space_t as, unw_cursor_t *cursor, void *arg)
{
	return -UNW_EINVAL;
}

static int access_fpreg(unw_addr_space_t as, unw_regnum_t number, unw_fpreg_t *value, int write,
			void *arg)
{
	return -UNW_EINVAL;
}

static int access_mem(unw_addr_space_t as, unw_word_t address, unw_word_t *value, int write,
		      void *arg)
{
	struct truth *t = arg;

	if (write || truth_read(t, t->record, value, 8, address))
		return -UNW_EINVAL;
	return 0;
}

static int access_reg(unw_addr_space_t as, unw_regnum_t number, unw_word_t *value, int write,
		      void *arg)
{
	const struct snapshot_record *r = ((struct truth *)arg)->record;

	if (write || number < 0 || number > UNW_X86_64_RIP)
		return -UNW_EBADREG;
	*value =
	    number == UNW_X86_64_RIP ? r->pc : r->reg[number]; /* libunwind numbers as DWARF does */
	return 0;
}

/* The binary search table of .eh_frame_hdr, as the file's program headers in memory name it. */
static int find_proc_info(unw_addr_space_t as, unw_word_t ip, unw_proc_info_t *info, int need,
			  void *arg);

static unw_accessors_t accessors = {
    .find_proc_info = find_proc_info,
    .put_unwind_info = put_info,
    .get_dyn_info_list_addr = dyn_list,
    .access_mem = access_mem,
    .access_reg = access_reg,
    .access_fpreg = access_fpreg,
    .resume = resume,
    .get_proc_name = proc_name,
};

/* libunwind exports it for debuggers, without declaring it. */
extern int _Ux86_64_dwarf_search_unwind_table(unw_addr_space_t as, unw_word_t ip,
					      unw_dyn_info_t *di, unw_proc_info_t *info, int need,
					      void *arg);

static int find_proc_info(unw_addr_space_t as, unw_word_t ip, unw_proc_info_t *info, int need,
			  void *arg)
{
	struct truth *t = arg;
	const struct mapping *m = NULL;
	Dwfl_Module *module = dwfl_addrmodule(t->dwfl, ip);
	unw_dyn_info_t di = {0};
	GElf_Addr bias;
	Elf *elf = module ? dwfl_module_getelf(module, &bias) : NULL;
	size_t count = 0;
	struct {
		uint8_t version, frame, count_encoding, table;
		int32_t frame_pointer;
		uint32_t rows;
	} header;

	for (uint32_t i = 0; i < t->mappings->count && !m; i++) {
		if (ip >= t->mappings->mappings[i].begin && ip < t->mappings->mappings[i].end)
			m = &t->mappings->mappings[i];
	}
	if (!m || !elf || elf_getphdrnum(elf, &count))
		return -UNW_ENOINFO;
	for (size_t i = 0; i < count; i++) {
		GElf_Phdr ph;

		if (!gelf_getphdr(elf, (int)i, &ph) || ph.p_type != PT_GNU_EH_FRAME)
			continue;
		di.u.rti.segbase = ph.p_vaddr + bias;
		if (truth_read(t, t->record, &header, sizeof(header), di.u.rti.segbase) ||
		    header.count_encoding != 0x03 || header.table != 0x3b)
			return -UNW_ENOINFO;
		di.format = UNW_INFO_FORMAT_REMOTE_TABLE;
		di.start_ip = m->begin;
		di.end_ip = m->end;
		di.u.rti.table_data = di.u.rti.segbase + 12;
		di.u.rti.table_len = (unw_word_t)header.rows * 8 / sizeof(unw_word_t);
		return _Ux86_64_dwarf_search_unwind_table(as, ip, &di, info, need, arg);
	}
	return -UNW_ENOINFO;
}

void truth_libunwind(struct truth *t, const struct mapping_scan *mappings,
		     const struct snapshot_record *r, struct truth_stack *out)
{
	unw_cursor_t cursor;
	bool exact = true;
	unw_word_t ip;

	memset(out, 0, sizeof(*out));
	t->record = r;
	t->mappings = mappings;
	t->out = out;
	unw_flush_cache(t->space, 0, 0);
	if (!unw_init_remote(&cursor, t->space, t)) {
		do {
			if (unw_get_reg(&cursor, UNW_REG_IP, &ip) || !ip ||
			    out->count == UNWIND_FRAME_MAX)
				break;
			out->pc[out->count++] = ip;
			if (!exact && is_bottom(t, ip))
				break;
			exact = is_sigreturn(t, ip);
		} while (unw_step(&cursor) > 0);
	}
	t->out = NULL;
}

int truth_open(struct truth **out, uint32_t pid)
{
	struct truth *t = calloc(1, sizeof(*t));
	char path[64];

	*out = NULL;
	if (!t)
		return -ENOMEM;
	t->pid = pid;
	snprintf(path, sizeof(path), "/proc/%u/mem", pid);
	t->memory = open(path, O_RDONLY | O_CLOEXEC);
	t->dwfl = dwfl_begin(&callbacks);
	t->space = unw_create_addr_space(&accessors, 0);
	if (t->memory < 0 || !t->dwfl || !t->space || read_ranges(t) ||
	    dwfl_linux_proc_report(t->dwfl, (pid_t)pid) || dwfl_report_end(t->dwfl, NULL, NULL) ||
	    !dwfl_attach_state(t->dwfl, NULL, (pid_t)pid, &thread_callbacks, t)) {
		fprintf(stderr, "accuracy: pid %u: %s\n", pid, dwfl_errmsg(-1));
		truth_close(t);
		return -ESRCH;
	}
	*out = t;
	return 0;
}

void truth_close(struct truth *t)
{
	if (!t)
		return;
	if (t->memory >= 0)
		close(t->memory);
	if (t->dwfl)
		dwfl_end(t->dwfl);
	if (t->space)
		unw_destroy_addr_space(t->space);
	free(t);
}
