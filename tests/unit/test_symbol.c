/* SPDX-License-Identifier: Apache-2.0
 * The truth is nm's: every function that it lists with a size is asked for at its first and last byte
 * and one past it. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "symbol/symbol_content.h"
#include "symbol/symbol_elf.h"
#include "symbol/symbol_index.h"
#include "symbol/symbol_mini.h"
#include "symbol/symbol_resolver.h"
#include "symbol/symbol_source.h"
#include "tests/unit/skip.h"

static char dir[] = "/tmp/sysom-test-symbol-XXXXXX";

static void sh(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
static void sh(const char *fmt, ...)
{
	char command[4096];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(command, sizeof(command), fmt, ap);
	va_end(ap);
	if (system(command))
		fail_msg("failed: %s", command);
}

static void write_text(const char *name, const char *text)
{
	char path[256];
	FILE *f;

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	f = fopen(path, "w");
	assert_non_null(f);
	fputs(text, f);
	fclose(f);
}

static int set_up(void **state)
{
	if (!mkdtemp(dir))
		return -1;
	write_text("sparse.c",
		   "__attribute__((noinline)) int exported_first(int a) { return a + 1; }\n"
		   "static __attribute__((noinline)) int hot(int a) {\n"
		   " int s = 0; for (int i = 0; i < a; i++) s += i * a; return s; }\n"
		   "__attribute__((noinline)) int exported_last(int a) { return hot(a) + 2; }\n");
	write_text("mangled.cc",
		   "namespace net { template <class T> struct layer { T forward(T x) const; };\n"
		   "template <class T> T layer<T>::forward(T x) const { return x * 2; }\n"
		   "template struct layer<float>; }\n");
	return 0;
}

static int tear_down(void **state)
{
	sh("rm -rf %s", dir);
	return 0;
}

static size_t build_id_of(const char *path, uint8_t id[SYMBOL_BUILD_ID_MAX])
{
	int fd = open(path, O_RDONLY), n;

	assert_true(fd >= 0);
	n = symbol_elf_build_id(fd, id);
	close(fd);
	assert_true(n >= 0);
	return (size_t)n;
}

static struct symbol_resolver *resolver(const char *directory)
{
	struct symbol_resolver_options o = {
	    .directory = directory, .debug_root = dir, .links = true};
	struct symbol_resolver *r;

	assert_int_equal(symbol_resolver_open(&r, &o), 0);
	return r;
}

static void build_id_is_what_readelf_prints(void **state)
{
	uint8_t id[SYMBOL_BUILD_ID_MAX];
	char hex[2 * SYMBOL_BUILD_ID_MAX + 1] = "", line[256] = "";
	size_t n = build_id_of("/proc/self/exe", id);
	FILE *f;

	for (size_t i = 0; i < n; i++)
		sprintf(hex + 2 * i, "%02x", id[i]);
	snprintf(line, sizeof(line), "readelf -n /proc/%d/exe | sed -n 's/.*Build ID: //p'",
		 getpid());
	f = popen(line, "r");
	assert_non_null(f);
	assert_non_null(fgets(line, sizeof(line), f));
	pclose(f);
	line[strcspn(line, "\n")] = 0;
	assert_string_equal(line, hex);
}

/* A library without a note segment, and a note in a section alone. */
static size_t id_of_section(const char *section, const char *note, uint8_t id[SYMBOL_BUILD_ID_MAX])
{
	char path[128];

	sh("cd %s && printf 'int alone(void) { return 1; }' >alone.c && "
	   "gcc -shared -fPIC -fcf-protection=none -Wl,--build-id=none -Wl,-z,noseparate-code "
	   "-o alone.so alone.c && "
	   "objcopy -R .note.gnu.property alone.so && printf '%s' >note && "
	   "objcopy --add-section %s=note --set-section-flags %s=readonly alone.so alone2.so",
	   dir, note, section, section);
	snprintf(path, sizeof(path), "%s/alone2.so", dir);
	return build_id_of(path, id);
}

static void build_id_of_a_section_without_a_segment(void **state)
{
	static const uint8_t want[] = {0x10, 0x32, 0x54, 0x76, 0x98, 0xba, 0xdc, 0xfe};
	uint8_t id[SYMBOL_BUILD_ID_MAX];
	size_t n = id_of_section(".note.gnu.build-id",
				 "\\004\\0\\0\\0\\010\\0\\0\\0\\003\\0\\0\\0GNU\\0"
				 "\\020\\062\\124\\166\\230\\272\\334\\376",
				 id);

	assert_int_equal(n, sizeof(want));
	assert_memory_equal(id, want, sizeof(want));
}

static void go_build_id_where_there_is_no_other(void **state)
{
	uint8_t id[SYMBOL_BUILD_ID_MAX];
	size_t n = id_of_section(".note.go.buildid",
				 "\\004\\0\\0\\0\\037\\0\\0\\0\\004\\0\\0\\0Go\\0\\0"
				 "actionaction/main/content-hash0\\0",
				 id);

	assert_int_equal(n, 13);
	assert_memory_equal(id, "content-hash0", 13);
	/* too short to distinguish files */
	assert_int_equal(id_of_section(".note.go.buildid",
				       "\\004\\0\\0\\0\\004\\0\\0\\0\\004\\0\\0\\0Go\\0\\0"
				       "a/bc",
				       id),
			 0);
}

struct tally {
	unsigned rows, named, beyond, nested;
};

/* nm prints every alias; the name given must be one of a symbol with the same range. */
static void check_line(struct symbol_resolver *r, const char *path, uint64_t address, uint64_t size,
		       struct tally *t)
{
	struct symbol_name n;

	t->rows++;
	if (symbol_resolver_find(r, NULL, 0, path, address, &n)) {
		fail_msg("%s: nothing at %llx", path, (unsigned long long)address);
		return;
	}
	/* a symbol that begins where an outer one does owns it; every other first byte is its own */
	assert_true(n.begin == address && n.size <= size);
	t->named += n.size == size;
	t->nested += n.size != size;
	if (symbol_resolver_find(r, NULL, 0, path, address + size, &n) == -ENOENT)
		t->beyond++;
	else
		assert_true(address + size >= n.begin && address + size < n.begin + n.size);
}

static void check_against_nm(const char *path, const char *nm_options, struct tally *t)
{
	struct symbol_resolver *r = resolver(NULL);
	char command[512], line[8192];
	FILE *f;

	snprintf(command, sizeof(command), "nm -S %s %s | grep -E ' [TtWwiuV] '", nm_options, path);
	f = popen(command, "r");
	assert_non_null(f);
	while (fgets(line, sizeof(line), f)) {
		unsigned long long address, size;
		char kind;

		if (sscanf(line, "%llx %llx %c", &address, &size, &kind) == 3 && size &&
		    strchr("TtWi", kind))
			check_line(r, path, address, size, t);
	}
	pclose(f);
	symbol_resolver_close(r);
}

static void every_function_of_real_files_is_found_as_nm_lists_it(void **state)
{
	static const char *const files[] = {"/lib/x86_64-linux-gnu/libc.so.6", "/usr/bin/python3",
					    "/usr/lib/x86_64-linux-gnu/libstdc++.so.6"};
	struct tally t = {0};
	char self[256];

	for (size_t i = 0; i < 3; i++)
		if (!access(files[i], R_OK))
			check_against_nm(files[i], "-D", &t);
	assert_true(t.rows > 2000);
	print_message("%u functions, %u beyond the last byte unnamed, %u inner\n", t.rows, t.beyond,
		      t.nested);
	assert_true(t.named > t.rows * 9 / 10);
	assert_true(t.beyond > 0);
	memset(&t, 0, sizeof(t));
	self[readlink("/proc/self/exe", self, sizeof(self) - 1)] = 0;
	check_against_nm(self, "", &t);
	assert_true(t.rows > 50);
}

/* SysOM-AI's case: a stripped library whose two exported functions lie around a static one that is hot.
 * The nearest lower exported name would get all its samples. */
static void a_sparse_table_names_nothing_rather_than_the_neighbour(void **state)
{
	char full[256], stripped[256];
	uint8_t id[SYMBOL_BUILD_ID_MAX];
	struct symbol_name n;
	struct symbol_resolver *r;
	unsigned long long hot = 0;
	char line[512];
	size_t bytes;
	FILE *f;

	snprintf(full, sizeof(full), "%s/libsparse.so", dir);
	snprintf(stripped, sizeof(stripped), "%s/stripped/libsparse.so", dir);
	sh("cd %s && mkdir -p stripped tree && gcc -O2 -g -fno-toplevel-reorder -fPIC -shared "
	   "-Wl,--build-id -o libsparse.so sparse.c && strip -o stripped/libsparse.so libsparse.so",
	   dir);
	snprintf(line, sizeof(line), "nm %s | grep ' t hot'", full);
	f = popen(line, "r");
	assert_non_null(f);
	assert_int_equal(fscanf(f, "%llx", &hot), 1);
	pclose(f);
	bytes = build_id_of(stripped, id);
	assert_int_equal(bytes, 20);

	r = resolver(NULL);
	assert_int_equal(symbol_resolver_find(r, id, bytes, stripped, hot + 4, &n), -ENOENT);
	symbol_resolver_close(r);
	/* with the real file in the Build-ID directory it has its own name */
	sh("cd %s && id=$(readelf -n libsparse.so | sed -n 's/.*Build ID: //p') && "
	   "sub=tree/.build-id/$(echo $id | cut -c1-2) && mkdir -p $sub && "
	   "cp libsparse.so $sub/$(echo $id | cut -c3-).debug",
	   dir);
	snprintf(line, sizeof(line), "%s/tree", dir);
	r = resolver(line);
	assert_int_equal(symbol_resolver_find(r, id, bytes, stripped, hot + 4, &n), 0);
	assert_string_equal(n.function, "hot");
	symbol_resolver_close(r);
}

static void a_debug_link_is_followed_and_a_foreign_build_id_is_not(void **state)
{
	char path[256];
	uint8_t id[SYMBOL_BUILD_ID_MAX];
	struct symbol_resolver *r = resolver(NULL);
	struct symbol_name n;
	size_t bytes;
	int hot = 0;

	sh("cd %s && mkdir -p link other && "
	   "gcc -O1 -g -fPIC -shared -Wl,--build-id -o link/liba.so sparse.c && "
	   "objcopy --only-keep-debug link/liba.so link/liba.so.debug && strip link/liba.so && "
	   "objcopy --add-gnu-debuglink=link/liba.so.debug link/liba.so && cp link/liba.so other/",
	   dir);
	snprintf(path, sizeof(path), "%s/link/liba.so", dir);
	bytes = build_id_of(path, id);
	/* the static function lies between the exported ones; walk all code and see it come up */
	for (uint64_t a = 0x1000; a < 0x1200; a++)
		if (!symbol_resolver_find(r, id, bytes, path, a, &n))
			hot += !strcmp(n.function, "hot");
	assert_true(hot > 4);
	id[0] ^= 1;
	assert_int_equal(symbol_resolver_find(r, id, bytes, path, 0x1100, &n), -ENODATA);
	symbol_resolver_close(r);
}

/* Two files with one Build ID, both open at a time: each address gets its own file's name. */
static void a_forged_build_id_does_not_name_the_other_file(void **state)
{
	struct symbol_resolver *r = resolver(NULL);
	char path[2][256];
	uint8_t id[2][SYMBOL_ID_MAX];
	struct symbol_name n;
	unsigned seen[2] = {0};

	sh("cd %s && mkdir -p forged && o='-O1 -fPIC -shared -Wl,--build-id=0x1122334455667788' && "
	   "gcc $o -o forged/a.so sparse.c && "
	   "gcc $o -Dexported_first=forged_first -o forged/b.so sparse.c",
	   dir);
	for (int i = 0; i < 2; i++) {
		int fd;

		snprintf(path[i], sizeof(path[i]), "%s/forged/%c.so", dir, 'a' + i);
		fd = open(path[i], O_RDONLY | O_CLOEXEC);
		assert_int_equal(symbol_content_id(fd, id[i]), 24);
		close(fd);
	}
	assert_memory_equal(id[0], id[1], 8);
	for (uint64_t a = 0x1000; a < 0x1200; a++)
		for (int i = 1; i >= 0; i--) {
			/* the other one's file is refused for it, whoever points there */
			if (symbol_resolver_find(r, id[i], 24, path[i], a, &n))
				continue;
			assert_true(n.proven);
			assert_string_not_equal(n.function, i ? "exported_first" : "forged_first");
			seen[i] += !strcmp(n.function, i ? "forged_first" : "exported_first");
		}
	assert_true(seen[0] && seen[1]);
	symbol_resolver_close(r);
	r = resolver(NULL);
	for (uint64_t a = 0x1000; a < 0x1200; a++)
		if (!symbol_resolver_find(r, id[0], 24, path[1], a, &n))
			assert_false(n.proven);
	symbol_resolver_close(r);
}

static void mangled_names_are_shown_demangled(void **state)
{
	struct symbol_resolver *r = resolver(NULL);
	char path[256], line[512];
	unsigned long long at;
	struct symbol_name n;
	FILE *f;

	sh("cd %s && g++ -O2 -fPIC -shared -o libmangled.so mangled.cc", dir);
	snprintf(path, sizeof(path), "%s/libmangled.so", dir);
	snprintf(line, sizeof(line), "nm %s | grep forward", path);
	f = popen(line, "r");
	assert_non_null(f);
	assert_int_equal(fscanf(f, "%llx", &at), 1);
	pclose(f);
	assert_int_equal(symbol_resolver_find(r, NULL, 0, path, at, &n), 0);
	assert_string_equal(n.function, "net::layer<float>::forward(float) const");
	assert_string_equal(n.raw, "_ZNK3net5layerIfE7forwardEf");
	symbol_resolver_close(r);
}

/* What rustc 1.95 makes of a closure that is passed on and of a trait's method, in both manglings. */
static void rust_names_are_shown_demangled(void **state)
{
	static const char *const names[][2] = {
	    {"_RINvNtCs2OpA4fNwd7R_1r3net5applyNCNvB4_2go0EB4_",
	     "r::net::apply::<r::go::{closure#0}>"},
	    {"_RNvXNtCs2OpA4fNwd7R_1r3netINtB2_5LayerINtNtCslNYArtu3iFV_5alloc3vec3VechEENtB2_"
	     "7Forward7forward",
	     "<r::net::Layer<alloc::vec::Vec<u8>> as r::net::Forward>::forward"},
	    {"_ZN1r3net5apply17h0627c4441a261ab2E", "r::net::apply"},
	    {"_ZN82_$LT$r..net..Layer$LT$alloc..vec..Vec$LT$u8$GT$$GT$$u20$as$u20$r..net.."
	     "Forward$GT$7forward17ha6f4046915dcc7deE",
	     "<r::net::Layer<alloc::vec::Vec<u8>> as r::net::Forward>::forward"},
	};
	struct symbol_resolver *r = resolver(NULL);
	char path[256], text[2048] = ".text\n";
	struct symbol_name n;
	unsigned long long at;
	FILE *f;

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		snprintf(text + strlen(text), sizeof(text) - strlen(text),
			 ".globl \"%s\"\n.type \"%s\",@function\n\"%s\": nop\nret\n.size "
			 "\"%s\",.-\"%s\"\n",
			 names[i][0], names[i][0], names[i][0], names[i][0], names[i][0]);
	write_text("rust.s", text);
	sh("cd %s && gcc -shared -nostdlib -o librust.so rust.s", dir);
	snprintf(path, sizeof(path), "%s/librust.so", dir);
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		snprintf(text, sizeof(text), "nm %s | grep -F '%s'", path, names[i][0]);
		f = popen(text, "r");
		assert_non_null(f);
		assert_int_equal(fscanf(f, "%llx", &at), 1);
		pclose(f);
		assert_int_equal(symbol_resolver_find(r, NULL, 0, path, at, &n), 0);
		assert_string_equal(n.raw, names[i][0]);
		assert_string_equal(n.function, names[i][1]);
	}
	symbol_resolver_close(r);
}

/* The distribution's kind of small symbol file: what .dynsym lacks, xz-compressed inside the file. */
static void small_symbol_files_inside_stripped_ones_are_read(void **state)
{
	struct symbol_resolver *r = resolver(NULL);
	char path[256], line[512];
	unsigned long long hot, first;
	struct symbol_name n;
	FILE *f;

	if (system("command -v xz >/dev/null"))
		skip_needs("command:xz");
	sh("cd %s && mkdir -p mini && gcc -O2 -fno-toplevel-reorder -fPIC -shared -o mini/full.so "
	   "sparse.c && cd mini && nm full.so | sed -n 's/.* t hot$/hot/p' >keep && "
	   "objcopy -S --keep-symbols=keep full.so small && "
	   "objcopy --only-keep-debug small small.debug && xz -kf small.debug && "
	   "strip -o stripped.so full.so && "
	   "objcopy --add-section .gnu_debugdata=small.debug.xz stripped.so libmini.so",
	   dir);
	snprintf(line, sizeof(line),
		 "nm %s/mini/full.so | sed -n 's/ t hot$//p; "
		 "s/ T exported_first$//p' | sort -r",
		 dir);
	f = popen(line, "r");
	assert_non_null(f);
	assert_int_equal(fscanf(f, "%llx %llx", &hot, &first), 2);
	pclose(f);
	snprintf(path, sizeof(path), "%s/mini/stripped.so", dir);
	assert_int_equal(symbol_resolver_find(r, NULL, 0, path, hot + 4, &n), -ENOENT);
	snprintf(path, sizeof(path), "%s/mini/libmini.so", dir);
	assert_int_equal(symbol_resolver_find(r, NULL, 0, path, hot + 4, &n), 0);
	assert_string_equal(n.function, "hot");
	assert_int_equal(symbol_resolver_find(r, NULL, 0, path, first, &n), 0);
	assert_string_equal(n.function, "exported_first");
	symbol_resolver_close(r);
}

static void what_is_no_symbol_file_is_refused_with_a_reason(void **state)
{
	struct symbol_resolver *r = resolver(NULL);
	struct symbol_resolver_stats st;
	struct symbol_name n;
	char path[256];

	write_text("text.so",
		   "not an ELF file at all, but long enough to be read as a header of one.....");
	snprintf(path, sizeof(path), "%s/text.so", dir);
	assert_int_equal(symbol_resolver_find(r, NULL, 0, path, 1, &n), -EBADMSG);
	assert_string_equal(symbol_resolver_why(r), "not an ELF file for x86-64");
	sh("cd %s && gcc -shared -fPIC -o cut.so sparse.c && truncate -s 2000 cut.so", dir);
	snprintf(path, sizeof(path), "%s/cut.so", dir);
	assert_int_equal(symbol_resolver_find(r, NULL, 0, path, 1, &n), -EBADMSG);
	assert_true(strlen(symbol_resolver_why(r)) > 0);
	snprintf(path, sizeof(path), "%s/fifo", dir);
	assert_int_equal(mkfifo(path, 0600), 0);
	assert_int_equal(symbol_resolver_find(r, NULL, 0, path, 1, &n), -EBADMSG);
	assert_int_equal(symbol_resolver_find(r, NULL, 0, "/nonexistent", 1, &n), -ENODATA);
	symbol_resolver_stats_get(r, &st);
	assert_int_equal(st.refused, 3);
	assert_int_equal(st.no_file, 1);
	symbol_resolver_close(r);
}

static int content_of(const char *name, uint8_t content[SYMBOL_CONTENT_BYTES])
{
	char path[256];
	int fd, err;

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	assert_true(fd >= 0);
	err = symbol_content(fd, content);
	close(fd);
	return err;
}

static void content_is_distinguished_behind_one_build_id(void **state)
{
	uint8_t a[SYMBOL_CONTENT_BYTES], b[SYMBOL_CONTENT_BYTES], c[SYMBOL_CONTENT_BYTES];
	const char *const same = "-O1 -fPIC -shared -Wl,--build-id=0x1122334455667788";

	sh("cd %s && gcc %s -o one.so sparse.c && cp one.so copy.so && "
	   "gcc %s -Dhot=cold -o other.so sparse.c",
	   dir, same, same);
	sh("cd %s && cp one.so frames.so && "
	   "at=$(readelf -SW frames.so | sed 's/\\[ */[/' | awk '$2 == \".eh_frame\" {print $5}') "
	   "&& "
	   "printf x | dd of=frames.so bs=1 seek=$((0x$at + 40)) conv=notrunc 2>/dev/null",
	   dir);
	/* e_shentsize, e_shnum, e_shstrndx */
	sh("cd %s && cp one.so bare.so && "
	   "head -c 6 /dev/zero | dd of=bare.so bs=1 seek=58 conv=notrunc 2>/dev/null",
	   dir);
	assert_int_equal(content_of("one.so", a), 0);
	assert_int_equal(content_of("copy.so", b), 0);
	assert_memory_equal(a, b, sizeof(a));
	assert_int_equal(content_of("other.so", b),
			 0); /* one static function is called otherwise */
	assert_memory_not_equal(a, b, sizeof(a));
	assert_int_equal(content_of("frames.so", b), 0);
	assert_memory_not_equal(a, b, sizeof(a));
	assert_int_equal(content_of("bare.so", c), 0);
	assert_memory_not_equal(a, c, sizeof(a));
	/* in place, at once, and with the same size: not what was remembered */
	sh("cd %s && cat other.so >copy.so", dir);
	assert_int_equal(content_of("other.so", a), 0);
	assert_int_equal(content_of("copy.so", b), 0);
	assert_memory_equal(a, b, sizeof(a));
}

static void content_of_overlapping_sections_is_refused(void **state)
{
	uint8_t a[SYMBOL_CONTENT_BYTES];
	char path[256];
	Elf64_Ehdr h;
	Elf64_Shdr s;
	int fd;

	sh("cd %s && gcc -shared -fPIC -o overlap.so sparse.c", dir);
	snprintf(path, sizeof(path), "%s/overlap.so", dir);
	fd = open(path, O_RDWR | O_CLOEXEC);
	assert_int_equal(pread(fd, &h, sizeof(h), 0), sizeof(h));
	for (unsigned i = 1; i < h.e_shnum; i++) {
		off_t at = (off_t)(h.e_shoff + i * sizeof(s));

		assert_int_equal(pread(fd, &s, sizeof(s), at), sizeof(s));
		if (i == h.e_shstrndx || s.sh_type == SHT_NOBITS)
			continue;
		s.sh_type = SHT_STRTAB;
		s.sh_offset = 0;
		s.sh_size = (uint64_t)lseek(fd, 0, SEEK_END);
		assert_int_equal(pwrite(fd, &s, sizeof(s), at), sizeof(s));
	}
	close(fd);
	assert_int_equal(content_of("overlap.so", a), -EBADMSG);
}

/* Moves what fits the type of a file's sections into a hole far behind its end. */
static void tables_into_a_hole(const char *path, uint32_t type, uint64_t bytes)
{
	int fd = open(path, O_RDWR | O_CLOEXEC);
	Elf64_Ehdr h;
	Elf64_Shdr s;

	assert_true(fd >= 0);
	assert_int_equal(pread(fd, &h, sizeof(h), 0), sizeof(h));
	for (unsigned i = 0; i < h.e_shnum; i++) {
		off_t at = (off_t)(h.e_shoff + i * sizeof(s));

		assert_int_equal(pread(fd, &s, sizeof(s), at), sizeof(s));
		if (s.sh_type != type)
			continue;
		s.sh_offset = 1ull << 32;
		s.sh_size = bytes;
		assert_int_equal(pwrite(fd, &s, sizeof(s), at), sizeof(s));
	}
	assert_int_equal(ftruncate(fd, 15ll << 40), 0);
	close(fd);
}

static void tables_in_a_hole_of_a_sparse_file_are_none(void **state)
{
	struct symbol_elf e;
	const char *why;
	char path[256];
	int fd;

	sh("cd %s && gcc -shared -fPIC -o hole.so sparse.c && cp hole.so names.so", dir);
	snprintf(path, sizeof(path), "%s/hole.so", dir);
	tables_into_a_hole(path, SHT_SYMTAB, 24ull << 26);
	tables_into_a_hole(path, SHT_DYNSYM, 24ull << 26);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	assert_int_equal(symbol_elf_init(&e, fd, &why), 0);
	assert_int_equal(e.quality, SYMBOL_NONE);
	symbol_elf_fini(&e);
	close(fd);
	snprintf(path, sizeof(path), "%s/names.so", dir);
	tables_into_a_hole(path, SHT_STRTAB, 12ull << 30);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	assert_int_equal(symbol_elf_init(&e, fd, &why), -EBADMSG);
	assert_string_equal(why, "a hole where the sections' names are");
	close(fd);
}

/* Without a Build ID only the checksum says that the two belong together: of 15 TB that are not there. */
/* What names the library whose debug link is followed, or not. */
static enum symbol_quality linked(uint64_t link_bytes_max, bool stopped)
{
	const atomic_bool stop = stopped;
	struct symbol_source s = {
	    .debug_root = dir, .links = true, .stop = &stop, .link_bytes_max = link_bytes_max};
	enum symbol_quality quality;
	struct symbol_elf e;
	const char *why;
	char path[256];
	int fd;

	snprintf(path, sizeof(path), "%s/crc/libb.so", dir);
	assert_int_equal(symbol_source_open(&s, NULL, 0, path, &e, &fd, &why), 0);
	quality = e.quality;
	symbol_elf_fini(&e);
	close(fd);
	return quality;
}

static void a_debug_link_is_not_followed_to_a_file_with_holes_or_too_large(void **state)
{
	struct stat st;
	char path[256];

	sh("cd %s && mkdir -p crc && "
	   "gcc -O1 -g -fPIC -shared -Wl,--build-id=none -o crc/libb.so sparse.c && "
	   "objcopy --only-keep-debug crc/libb.so crc/libb.debug && strip crc/libb.so && "
	   "objcopy --add-gnu-debuglink=crc/libb.debug crc/libb.so",
	   dir);
	snprintf(path, sizeof(path), "%s/crc/libb.debug", dir);
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(linked(0, false), SYMBOL_DEBUG); /* the link's, with the right checksum */
	assert_int_equal(linked((uint64_t)st.st_size, false), SYMBOL_DEBUG);
	assert_int_equal(linked((uint64_t)st.st_size - 1, false), SYMBOL_DYNAMIC);
	assert_int_equal(linked(0, true), SYMBOL_DYNAMIC);
	sh("truncate -s 15T %s", path);
	assert_int_equal(linked(1ull << 62, false), SYMBOL_DYNAMIC);
}

/* dir/NAME.xz as .gnu_debugdata. What unpacking says, and how much it wrote. */
static int unpack_mini(const char *name, off_t *written, uint64_t *packed)
{
	struct symbol_elf e, mini = {.fd = -1};
	const char *why;
	char path[256];
	int fd, scratch, err;

	sh("cd %s && gcc -O1 -fPIC -shared -s -o packed.so sparse.c && "
	   "objcopy --add-section .gnu_debugdata=%s.xz packed.so",
	   dir, name);
	snprintf(path, sizeof(path), "%s/packed.so", dir);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	snprintf(path, sizeof(path), "%s/scratch", dir);
	scratch = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	assert_true(fd >= 0 && scratch >= 0);
	assert_int_equal(symbol_elf_init(&e, fd, &why), 0);
	err = symbol_mini_unpack(&e, scratch, &mini);
	*written = lseek(scratch, 0, SEEK_END);
	*packed = e.sections[e.mini].bytes;
	if (!err)
		symbol_elf_fini(&mini);
	symbol_elf_fini(&e);
	close(scratch);
	close(fd);
	return err;
}

static void small_symbols_that_unpack_to_much_are_refused(void **state)
{
	uint64_t packed;
	off_t written;

	sh("cd %s && head -c 30000000 /dev/zero | xz >bomb.xz", dir);
	assert_int_equal(unpack_mini("bomb", &written, &packed), -EBADMSG);
	assert_true(written <= 64 * (off_t)packed);
	/* not too much for its size: behind the symbols stand 2 MB that can't be packed, then zeros */
	for (int mib = 60; mib <= 70; mib += 10) {
		sh("cd %s && gcc -O1 -fPIC -shared -o whole.so sparse.c && "
		   "head -c 2000000 /dev/urandom >>whole.so && truncate -s %dM whole.so && "
		   "xz -0 <whole.so >whole.xz",
		   dir, mib);
		assert_int_equal(unpack_mini("whole", &written, &packed), mib == 60 ? 0 : -EBADMSG);
		assert_true(64 * (off_t)packed > 70 << 20);
		assert_true(written <= 64 << 20);
	}
}

static void symbols_that_need_a_large_window_are_refused(void **state)
{
	uint64_t packed;
	off_t written;

	sh("cd %s && gcc -O1 -fPIC -shared -o whole.so sparse.c && "
	   "xz --lzma2=preset=0,dict=32MiB <whole.so >small.xz && "
	   "xz --lzma2=preset=0,dict=64MiB <whole.so >large.xz",
	   dir);
	assert_int_equal(unpack_mini("small", &written, &packed), 0);
	assert_int_equal(unpack_mini("large", &written, &packed), -EBADMSG);
}

static void a_small_cache_evicts_and_opens_again(void **state)
{
	struct symbol_resolver_options o = {.debug_root = dir, .cache_bytes_max = 1, .links = true};
	struct symbol_resolver_stats st;
	struct symbol_resolver *r;
	struct symbol_name n;
	uint8_t c[SYMBOL_BUILD_ID_MAX], self[SYMBOL_BUILD_ID_MAX];
	const char *libc = "/lib/x86_64-linux-gnu/libc.so.6";
	size_t c_bytes = build_id_of(libc, c), self_bytes = build_id_of("/proc/self/exe", self);

	assert_int_equal(symbol_resolver_open(&r, &o), 0);
	for (int i = 0; i < 3; i++) {
		symbol_resolver_find(r, c, c_bytes, libc, 0x50000, &n);
		symbol_resolver_find(r, self, self_bytes, "/proc/self/exe", 0x50000, &n);
	}
	symbol_resolver_stats_get(r, &st);
	assert_int_equal(st.built, 2); /* the index files stay */
	assert_int_equal(st.opened, 6);
	symbol_resolver_forget(r, c, c_bytes);
	symbol_resolver_find(r, c, c_bytes, libc, 0x50000, &n);
	symbol_resolver_stats_get(r, &st);
	assert_int_equal(st.built, 3);
	symbol_resolver_close(r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(build_id_is_what_readelf_prints),
	    cmocka_unit_test(build_id_of_a_section_without_a_segment),
	    cmocka_unit_test(go_build_id_where_there_is_no_other),
	    cmocka_unit_test(every_function_of_real_files_is_found_as_nm_lists_it),
	    cmocka_unit_test(a_sparse_table_names_nothing_rather_than_the_neighbour),
	    cmocka_unit_test(a_debug_link_is_followed_and_a_foreign_build_id_is_not),
	    cmocka_unit_test(a_forged_build_id_does_not_name_the_other_file),
	    cmocka_unit_test(mangled_names_are_shown_demangled),
	    cmocka_unit_test(rust_names_are_shown_demangled),
	    cmocka_unit_test(small_symbol_files_inside_stripped_ones_are_read),
	    cmocka_unit_test(what_is_no_symbol_file_is_refused_with_a_reason),
	    cmocka_unit_test(content_is_distinguished_behind_one_build_id),
	    cmocka_unit_test(content_of_overlapping_sections_is_refused),
	    cmocka_unit_test(tables_in_a_hole_of_a_sparse_file_are_none),
	    cmocka_unit_test(a_debug_link_is_not_followed_to_a_file_with_holes_or_too_large),
	    cmocka_unit_test(small_symbols_that_unpack_to_much_are_refused),
	    cmocka_unit_test(symbols_that_need_a_large_window_are_refused),
	    cmocka_unit_test(a_small_cache_evicts_and_opens_again),
	};

	return cmocka_run_group_tests(tests, set_up, tear_down);
}
