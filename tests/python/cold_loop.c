/* SPDX-License-Identifier: Apache-2.0
 * A file with what python_elf looks for: a runtime in its section, and an interpreter loop whose rare
 * branches the compiler puts into a part of their own. */
extern void rare(int) __attribute__((cold));
extern int _PyEval_EvalFrameDefault(const unsigned char *code, int n);
extern void PyEval_RestoreThread(void *tstate);

__attribute__((section(".PyRuntime"))) char _PyRuntime[64] = {1};
const unsigned long Py_Version = 0x030b07f0;
char PyCode_Type[64] = {1};
volatile int sink;

__attribute__((noinline)) void rare(int x)
{
	sink = x;
}

void PyEval_RestoreThread(void *tstate)
{
	sink = tstate != 0;
}

#define OP(k)                                                                                      \
	if (code[i] == (k)) {                                                                      \
		x += sink;                                                                         \
		if (__builtin_expect(x == (k)*7, 0))                                               \
			rare(x + (k));                                                             \
	}
#define OPS(k) OP(k) OP((k) + 1) OP((k) + 2) OP((k) + 3) OP((k) + 4) OP((k) + 5) OP((k) + 6)

int _PyEval_EvalFrameDefault(const unsigned char *code, int n)
{
	int x = 0;

	for (int i = 0; i < n; i++) {
		OPS(0) OPS(7) OPS(14) OPS(21) OPS(28) OPS(35)
	}
	return x;
}
