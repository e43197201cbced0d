/* SPDX-License-Identifier: Apache-2.0
 * bench_symbols - what names cost: a symbol file of 1 GB with 10 million functions, and a Build-ID
 * directory of 170,000 files. Every answer is checked. Each figure comes from a child of its own, so that
 * VmHWM is that part's; peers answer for the same file in the same run.
 * usage: bench_symbols [SYMBOLS [FILES]]; needs 4 GB in $TMPDIR or /tmp, given back at the end. */
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/check.h"
#include "base/clock.h"
#include "symbol/symbol_resolver.h"
#include "symbol/symbol_store.h"

#define NAME_BYTES   76u
#define FIRST	     0x10000u
#define STRIDE	     64u
#define SIZE	     48u
#define TOUCHED	     10000u
#define PEER_SECONDS 120
#define PEER_NAMES   100u

static char dir[256];

/* ---- files ---- */

/* A method's mangled name, all of one length. */
static void name_of(uint32_t i, char name[NAME_BYTES])
{
	int n = snprintf(name, NAME_BYTES, "_ZN5bench%uf%08u", NAME_BYTES - 14, i);

	memset(name + n, 'a' + (char)(i % 26), NAME_BYTES - 3 - (size_t)n);
	strcpy(name + NAME_BYTES - 3, "Ev");
}

/* Symbols in a scattered order, as linkers leave them. */
static uint32_t scattered(uint32_t i, uint32_t count)
{
	return (uint32_t)((uint64_t)i * 2654435761u % count);
}

/* A symbol file: Build ID, executable section, table and names. */
static void write_elf(const char *path, const uint8_t id[20], uint32_t count)
{
	static const char names[] = "\0.note\0.text\0.symtab\0.strtab\0.shstrtab";
	struct {
		Elf64_Ehdr e;
		Elf64_Phdr p, load;
		Elf64_Nhdr n;
		char gnu[4];
		uint8_t id[20];
		Elf64_Shdr s[6];
		char names[sizeof(names)];
	} h = {.gnu = "GNU"};
	uint64_t table = (sizeof(h) + 7) & ~7ull,
		 strings = table + (uint64_t)count * sizeof(Elf64_Sym),
		 strings_bytes = 1 + (uint64_t)count * NAME_BYTES;
	char name[NAME_BYTES], pad[8] = "";
	FILE *f = fopen(path, "wb");

	CHECK(f);
	memcpy(h.e.e_ident, ELFMAG "\2\1\1", 7);
	h.e.e_type = ET_DYN;
	h.e.e_machine = EM_X86_64;
	h.e.e_version = EV_CURRENT;
	h.e.e_ehsize = sizeof(h.e);
	h.e.e_phoff = (uint64_t)((char *)&h.p - (char *)&h);
	h.e.e_phentsize = sizeof(h.p);
	h.e.e_phnum = 2;
	h.e.e_shoff = (uint64_t)((char *)h.s - (char *)&h);
	h.e.e_shentsize = sizeof(h.s[0]);
	h.e.e_shnum = 6;
	h.e.e_shstrndx = 5;
	h.n = (Elf64_Nhdr){4, 20, NT_GNU_BUILD_ID};
	memcpy(h.id, id, 20);
	memcpy(h.names, names, sizeof(names));
	h.p = (Elf64_Phdr){.p_type = PT_NOTE,
			   .p_offset = (uint64_t)((char *)&h.n - (char *)&h),
			   .p_filesz = sizeof(h.n) + 24,
			   .p_align = 4};
	h.load = (Elf64_Phdr){.p_type = PT_LOAD,
			      .p_flags = PF_R | PF_X,
			      .p_filesz = sizeof(h),
			      .p_memsz = FIRST + (uint64_t)count * STRIDE,
			      .p_align = 4096};
	h.s[1] = (Elf64_Shdr){.sh_name = 1,
			      .sh_type = SHT_NOTE,
			      .sh_offset = h.p.p_offset,
			      .sh_size = h.p.p_filesz,
			      .sh_addralign = 4};
	h.s[2] = (Elf64_Shdr){.sh_name = 7,
			      .sh_type = SHT_NOBITS,
			      .sh_flags = SHF_ALLOC | SHF_EXECINSTR,
			      .sh_addr = FIRST,
			      .sh_size = (uint64_t)count * STRIDE};
	h.s[3] = (Elf64_Shdr){.sh_name = 13,
			      .sh_type = SHT_SYMTAB,
			      .sh_offset = table,
			      .sh_link = 4,
			      .sh_size = strings - table,
			      .sh_entsize = sizeof(Elf64_Sym),
			      .sh_addralign = 8};
	h.s[4] = (Elf64_Shdr){
	    .sh_name = 21, .sh_type = SHT_STRTAB, .sh_offset = strings, .sh_size = strings_bytes};
	h.s[5] = (Elf64_Shdr){.sh_name = 29,
			      .sh_type = SHT_STRTAB,
			      .sh_offset = (uint64_t)(h.names - (char *)&h),
			      .sh_size = sizeof(names)};
	CHECK(fwrite(&h, sizeof(h), 1, f) == 1);
	CHECK(fwrite(pad, 1, table - sizeof(h), f) == table - sizeof(h));
	for (uint32_t k = 0; k < count; k++) {
		uint32_t i = scattered(k, count);
		Elf64_Sym s = {1 + i * NAME_BYTES,
			       ELF64_ST_INFO(STB_GLOBAL, STT_FUNC),
			       0,
			       2,
			       FIRST + (uint64_t)i * STRIDE,
			       SIZE};

		CHECK(fwrite(&s, sizeof(s), 1, f) == 1);
	}
	CHECK(fputc(0, f) == 0);
	for (uint32_t i = 0; i < count; i++) {
		name_of(i, name);
		CHECK(fwrite(name, NAME_BYTES, 1, f) == 1);
	}
	CHECK(!fclose(f));
}

static void id_of(uint32_t i, uint8_t id[20])
{
	memset(id, 0, 20);
	for (int k = 0; k < 4; k++)
		id[3 - k] =
		    (uint8_t)((i * 2654435761u) >> (8 * k)); /* spread over the directories */
	memcpy(id + 16, &i, 4);
}

static void path_of(const char *tree, const uint8_t id[20], char *path, size_t bytes, bool make)
{
	int n = snprintf(path, bytes, "%s/.build-id/%02x", tree, id[0]);

	if (make)
		mkdir(path, 0755);
	n += snprintf(path + n, bytes - (size_t)n, "/");
	for (int i = 1; i < 20; i++)
		n += snprintf(path + n, bytes - (size_t)n, "%02x", id[i]);
	snprintf(path + n, bytes - (size_t)n, ".debug");
}

/* ---- measuring ---- */

static double seconds(void)
{
	return (double)clock_monotonic_ns() * 1e-9;
}

static double hwm_mib(void)
{
	char line[256];
	unsigned long kb = 0;
	FILE *f = fopen("/proc/self/status", "re");

	while (f && fgets(line, sizeof(line), f))
		sscanf(line, "VmHWM: %lu", &kb);
	if (f)
		fclose(f);
	return (double)kb / 1024;
}

/* fn in a child: its figures are its own. */
static void apart(void (*fn)(uint32_t), uint32_t n)
{
	int status;
	pid_t pid;

	fflush(stdout);
	pid = fork();
	CHECK(pid >= 0);
	if (!pid) {
		fn(n);
		fflush(stdout);
		_exit(0);
	}
	CHECK(waitpid(pid, &status, 0) == pid && !status);
}

static struct symbol_resolver *resolver(const char *index)
{
	static char tree[300], path[300];
	struct symbol_resolver_options o = {.directory = tree,
					    .index_dir = path,
					    .debug_root = "/nonexistent",
					    .index_bytes_max = 16ull << 30};
	struct symbol_resolver *r;

	snprintf(tree, sizeof(tree), "%s/tree", dir);
	snprintf(path, sizeof(path), "%s/%s", dir, index);
	CHECK(!symbol_resolver_open(&r, &o));
	return r;
}

static void ask(struct symbol_resolver *r, const uint8_t id[20], uint32_t i, uint32_t offset)
{
	struct symbol_name n;
	char want[NAME_BYTES];
	int err = symbol_resolver_find(r, id, 20, NULL, FIRST + (uint64_t)i * STRIDE + offset, &n);

	if (offset >= SIZE) {
		CHECK(err == -ENOENT);
		return;
	}
	name_of(i, want);
	CHECK(!err && !strcmp(n.raw, want));
}

static uint32_t next(uint64_t *state)
{
	*state = *state * 6364136223846793005ull + 1442695040888963407ull;
	return (uint32_t)(*state >> 33);
}

/* ---- one large file ---- */

static void build_large(uint32_t count)
{
	struct symbol_resolver *r = resolver("index");
	uint8_t id[20] = {0xff};
	double t = seconds();

	ask(r, id, count / 2, 5);
	printf("  index of %u functions: built in            %7.1f s   VmHWM %6.1f MiB\n", count,
	       seconds() - t, hwm_mib());
	symbol_resolver_close(r);
}

static void drop_caches(const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	if (fd >= 0) {
		fsync(fd);
		posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
		close(fd);
	}
}

static void fill_caches(const char *path)
{
	static char chunk[1 << 20];
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	CHECK(fd >= 0);
	while (read(fd, chunk, sizeof(chunk)) > 0)
		;
	close(fd);
}

static void index_path(char *path, size_t bytes)
{
	snprintf(path, bytes, "%s/index/ff/%038d.idx", dir, 0);
}

static void look_up_large(uint32_t count)
{
	struct symbol_resolver *r;
	struct symbol_resolver_stats st;
	uint8_t id[20] = {0xff};
	uint64_t state = 1;
	uint32_t n = 2000;
	char path[400];
	double t, cold;

	index_path(path, sizeof(path));
	CHECK(!access(path, R_OK));
	drop_caches(path);
	t = seconds();
	r = resolver("index");
	ask(r, id, count / 3, 5);
	printf("  opened, and the first name, from disk        %7.1f ms\n", (seconds() - t) * 1e3);
	t = seconds();
	for (uint32_t i = 0; i < n; i++)
		ask(r, id, next(&state) % count, 7);
	cold = (seconds() - t) / n * 1e9;
	fill_caches(path);
	for (uint32_t i = 0; i < 20000; i++)
		ask(r, id, next(&state) % count, next(&state) % STRIDE);
	n = 200000;
	t = seconds();
	for (uint32_t i = 0; i < n; i++)
		ask(r, id, next(&state) % count, 7);
	printf("  lookup: cold %.0f ns, warm %.0f ns", cold, (seconds() - t) / n * 1e9);
	t = seconds();
	for (uint32_t i = 0; i < n; i++)
		ask(r, id, (count / 2 + i / 100) % count, i % SIZE);
	symbol_resolver_stats_get(r, &st);
	printf(", near the last one %.0f ns; VmHWM %.1f MiB, of it open indexes %.2f MiB\n",
	       (seconds() - t) / n * 1e9, hwm_mib(), (double)st.cached_bytes / (1 << 20));
	symbol_resolver_close(r);
}

/* Of the peer's answers, how many are right: names stand on lines of their own. */
static uint32_t count_right(uint32_t count, uint32_t symbols)
{
	char line[1024], path[300], want[NAME_BYTES];
	uint64_t state = 9;
	uint32_t asked = 0, right = 0;
	FILE *f;

	snprintf(path, sizeof(path), "%s/answers", dir);
	f = fopen(path, "r");
	while (f && asked < count && fgets(line, sizeof(line), f)) {
		if (strncmp(line, "_Z", 2))
			continue;
		name_of(next(&state) % symbols, want);
		right += !strncmp(line, want, NAME_BYTES - 1);
		asked++;
	}
	if (f)
		fclose(f);
	return right;
}

/* Seconds for count addresses, and the largest resident set; below 0: it failed, or took too long. */
static double peer_run(const char *command, uint32_t count, uint32_t symbols, double *mib)
{
	char line[1600], addresses[300];
	uint64_t state = 9;
	struct rusage use;
	double t;
	int status;
	pid_t pid;
	FILE *f;

	snprintf(addresses, sizeof(addresses), "%s/addresses", dir);
	f = fopen(addresses, "w");
	CHECK(f);
	for (uint32_t i = 0; i < count; i++)
		fprintf(f, "0x%llx\n",
			FIRST + (unsigned long long)(next(&state) % symbols) * STRIDE + 7);
	fclose(f);
	snprintf(line, sizeof(line), "exec timeout %d %s <%s >%s/answers 2>/dev/null", PEER_SECONDS,
		 command, addresses, dir);
	t = seconds();
	pid = fork();
	if (!pid) {
		execl("/bin/sh", "sh", "-c", line, (char *)NULL);
		_exit(127);
	}
	CHECK(wait4(pid, &status, 0, &use) == pid);
	*mib = (double)use.ru_maxrss / 1024;
	return status ? -1 : seconds() - t;
}

static void peers(uint32_t count)
{
	static const char *const tools[][2] = {
	    {"addr2line", "-f -e"},
	    {"eu-addr2line", "-f -e"},
	    {"llvm-symbolizer", "--no-inlines --no-demangle -e"}};
	uint8_t id[20] = {0xff};
	char path[400], command[600], tree[300];

	snprintf(tree, sizeof(tree), "%s/tree", dir);
	path_of(tree, id, path, sizeof(path), false);
	fill_caches(path);
	for (size_t i = 0; i < 3; i++) {
		double t, mib;

		snprintf(command, sizeof(command), "command -v %s >/dev/null", tools[i][0]);
		if (system(command)) {
			printf("  peer %-16s not installed\n", tools[i][0]);
			continue;
		}
		snprintf(command, sizeof(command), "%s %s %s", tools[i][0], tools[i][1], path);
		t = peer_run(command, PEER_NAMES, count, &mib);
		if (t < 0)
			printf("  peer %-16s no answer in %d s; largest resident %.0f MiB\n",
			       tools[i][0], PEER_SECONDS, mib);
		else
			printf("  peer %-16s %u names in %6.2f s (%u right); largest resident %.0f "
			       "MiB\n",
			       tools[i][0], PEER_NAMES, t, count_right(PEER_NAMES, count), mib);
	}
}

/* ---- many files ---- */

static void open_store(uint32_t files)
{
	char path[300];
	struct symbol_store_options o = {.directory = path};
	struct symbol_store_stats st;
	struct symbol_store *s;
	uint8_t id[20];
	uint64_t state = 5;
	double t = seconds(), cold;
	uint32_t n = 20000;

	snprintf(path, sizeof(path), "%s", dir);
	CHECK(!symbol_store_open(&s, &o));
	symbol_store_stats_get(s, &st);
	CHECK(st.files == files + 1);
	printf("  directory of %llu files: opened in           %7.2f s   table %.1f MiB, VmHWM "
	       "%.1f MiB\n",
	       (unsigned long long)st.files, seconds() - t, (double)st.memory_bytes / (1 << 20),
	       hwm_mib());
	t = seconds();
	for (uint32_t i = 0; i < n; i++) {
		id_of(next(&state) % files, id);
		CHECK(!symbol_store_needed(s, id, 20, SYMBOL_TABLE, 1));
	}
	cold = (seconds() - t) / n * 1e9;
	state = 5;
	t = seconds();
	for (uint32_t i = 0; i < n; i++) {
		id_of(next(&state) % files, id);
		CHECK(!symbol_store_needed(s, id, 20, SYMBOL_TABLE, 1));
	}
	printf("  is this file needed?: first time %.0f ns, then %.0f ns\n", cold,
	       (seconds() - t) / n * 1e9);
	symbol_store_close(s);
}

static void touch(uint32_t files)
{
	struct symbol_resolver *r = resolver("index2");
	struct symbol_resolver_stats st;
	uint8_t id[20];

	for (int round = 0; round < 2; round++) {
		double t = seconds();

		for (uint32_t i = 0; i < TOUCHED && i < files; i++) {
			id_of(i * 17 % files, id);
			ask(r, id, 1, 3);
		}
		symbol_resolver_stats_get(r, &st);
		printf("  %u Build IDs, one name of each, %s: %8.0f ns each; ", TOUCHED,
		       round ? "again     " : "first time", (seconds() - t) / TOUCHED * 1e9);
		printf("%llu open, %.2f MiB; VmHWM %.1f MiB\n", (unsigned long long)st.cached,
		       (double)st.cached_bytes / (1 << 20), hwm_mib());
	}
	symbol_resolver_close(r);
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *at)
{
	return remove(path);
}

static void remove_dir(void)
{
	nftw(dir, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

int main(int argc, char **argv)
{
	uint32_t count = argc > 1 ? (uint32_t)atoi(argv[1]) : 10000000,
		 files = argc > 2 ? (uint32_t)atoi(argv[2]) : 170000;
	const char *tmp = getenv("TMPDIR");
	uint8_t id[20] = {0xff};
	struct statvfs fs;
	char path[400], tree[300];

	snprintf(dir, sizeof(dir), "%.200s/sysom-bench-symbols-XXXXXX", tmp && *tmp ? tmp : "/tmp");
	if (!mkdtemp(dir) || statvfs(dir, &fs) || fs.f_bavail * fs.f_frsize < 4ull << 30 ||
	    (fs.f_files && fs.f_favail < 400000)) {
		printf("  skipped: needs 4 GB and 400,000 inodes in %s\n", dir);
		rmdir(dir);
		return 0;
	}
	snprintf(tree, sizeof(tree), "%s/tree", dir);
	mkdir(tree, 0755);
	snprintf(path, sizeof(path), "%s/.build-id", tree);
	mkdir(path, 0755);
	path_of(tree, id, path, sizeof(path), true);
	write_elf(path, id, count);
	apart(build_large, count);
	apart(look_up_large, count);
	peers(count);
	for (uint32_t i = 0; i < files; i++) {
		id_of(i, id);
		path_of(tree, id, path, sizeof(path), true);
		write_elf(path, id, 4);
	}
	apart(open_store, files);
	apart(touch, files);
	remove_dir();
	return 0;
}
