/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/text/demangle.h"
#include "model/kernel_name.h"

/* args: joined by '|' */
static void expect(const char *raw, const char *base, const char *args)
{
	char joined[2048] = "";
	struct kernel_name k;

	assert_int_equal(kernel_name_parse(&k, raw), 0);
	for (uint32_t i = 0; i < k.arg_count; i++) {
		strcat(joined, i ? "|" : "");
		strncat(joined, k.args[i], 64);
	}
	assert_string_equal(k.base, base);
	assert_string_equal(joined, args);
	kernel_name_free(&k);
}

static void takes_demangled_names_apart(void **state)
{
	(void)state;
	expect("ampere_sgemm_128x64_nn", "ampere_sgemm_128x64_nn", "");
	expect(
	    "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>, "
	    "at::detail::Array<char*, 3> >(int, at::native::CUDAFunctor_add<float>)",
	    "at::native::vectorized_elementwise_kernel",
	    "4|at::native::CUDAFunctor_add<float>|at::detail::Array<char*, 3>");
	expect("void cutlass::Kernel<cutlass_80_tensorop_s1688gemm_128x64_32x6_nn_align4>(Params)",
	       "cutlass::Kernel", "cutlass_80_tensorop_s1688gemm_128x64_32x6_nn_align4");
	expect("void at::(anonymous namespace)::fill<float>(float*, (anonymous namespace)::X)",
	       "at::(anonymous namespace)::fill", "float");
	expect("unsigned long ns::Class<int, 3>::run<bool>() const", "ns::Class::run",
	       "int|3|bool");
	expect("void f<(lambda(int)#1)>(int)", "f", "(lambda(int)#1)");
	/* cut, as traces do with long names */
	expect("void at::native::reduce_kernel<512, 1, at::native::ReduceOp<bool, at::na",
	       "at::native::reduce_kernel", "512|1|at::native::ReduceOp<bool, at::na");
	expect("Memcpy HtoD (Pageable -> Device)", "Memcpy HtoD (Pageable -> Device)", "");
	expect("", "", "");
}

static void takes_mangled_names_apart(void **state)
{
	(void)state;
	/* void gemm<float, 128, true>(float*) */
	expect("_Z4gemmIfLi128ELb1EEvPT_", "gemm", "float|128|true");
	/* ns::reduce<double>(int), by c++filt */
	expect("_ZN2ns6reduceIdEEvi", "ns::reduce", "double");
	expect("_Znotaname", "_Znotaname", "");
	/* Rust: mycrate::foo, std::mem::align_of::<f64>, <mycrate::Foo as mycrate::Bar>::baz */
	expect("_RNvCs1234_7mycrate3foo", "mycrate::foo", "");
	expect("_RINvNtC3std3mem8align_ofdE", "std::mem::align_of", "f64");
	expect("_RNvXs_Cs1_7mycrateNtB4_3FooNtB4_3Bar3baz", "<mycrate::Foo as mycrate::Bar>::baz",
	       "");
	expect("_Reduce_kernel", "_Reduce_kernel", "");
}

static void odd_names_stay_whole(void **state)
{
	char *deep = malloc(5000), *many = malloc(5000), *at;
	struct kernel_name k;

	(void)state;
	expect("a>b", "a>b", "");
	memset(deep, '<', 4999);
	deep[4999] = '\0';
	expect(deep, deep, "");
	at = stpcpy(many, "f<");
	for (int i = 0; i < 100; i++)
		at += sprintf(at, "%d,", i);
	strcpy(at, "x>(int)");
	assert_int_equal(kernel_name_parse(&k, many), 0);
	assert_int_equal(k.arg_count, KERNEL_NAME_ARGS_MAX);
	assert_string_equal(k.args[62], "62");
	assert_non_null(strstr(k.args[63], "99,x"));
	kernel_name_free(&k);
	free(deep);
	free(many);
}

static void strips_what_distinguishes_variants_of_a_kernel(void **unused)
{
	static const char *const pairs[][2] = {
	    {"_ZN7cutlass6KernelI4GemmILi128EEEEvT_", "cutlass::Kernel"},
	    {"_ZN2at6native29vectorized_elementwise_kernelILi4EfEEvi",
	     "at::native::vectorized_elementwise_kernel"},
	    {"_Z6kernelPf", "kernel"},
	    {"void at::native::reduce_kernel<512, 1>(float*)", "at::native::reduce_kernel"},
	    {"volta_sgemm_128x64_nn", "volta_sgemm_#x#_nn"},
	    {"ampere_gemm_64x3_tn(qkv)", "ampere_gemm_#x#_tn"},
	    {"ampere_fp16_256x128_tn(up)", "ampere_fp#_#x#_tn"},
	    {"", ""},
	    {"_ZN", "_ZN"},
	    {"_Z9999999999999999999x", "_Z#x"},
	};
	char base[256], tiny[4];

	for (size_t i = 0; i < sizeof(pairs) / sizeof(*pairs); i++)
		assert_string_equal(kernel_name_family(pairs[i][0], base, sizeof(base)),
				    pairs[i][1]);
	kernel_name_family("_ZN7cutlass6KernelE", tiny, sizeof(tiny));
	assert_true(strlen(tiny) < sizeof(tiny));
}

/* Each parameter holds the one before twice: the last one alone has 2^33 letters. */
static void a_name_that_stands_for_gigabytes_is_cut(void **unused)
{
	static const char digits[] = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ";
	char name[512], text[4096], *at;
	struct kernel_name k;

	at = stpcpy(name, "_Z1fI1AIiiE");
	for (int i = 0; i < 33; i++)
		at += sprintf(at, "S_IS%c_S%c_E", digits[i], digits[i]);
	strcpy(at, "EvT_");
	assert_true(demangle(name, true, text, sizeof(text)));
	assert_int_equal(strlen(text), sizeof(text) - 1);
	assert_memory_equal(text, "void f<A<int, int>, ", 20);
	assert_int_equal(kernel_name_parse(&k, name), 0);
	assert_string_equal(k.base, "f");
	kernel_name_free(&k);
}

static void are_shown_as_people_read_them(void **unused)
{
	static const char *const pairs[][2] = {
	    {"_ZN5flash9attentionILi64ELi2EEEvPf", "flash::attention<64, 2>"},
	    {"_Z4gemmIfLi128ELb1EEvPT_<<<8,1,1, 128,1,1>>>",
	     "gemm<float, 128, true><<<8,1,1, 128,1,1>>>"},
	    {"_Znotaname", "_Znotaname"},
	    {"_RNvCs1234_7mycrate3foo<<<8,1,1, 128,1,1>>>", "mycrate::foo<<<8,1,1, 128,1,1>>>"},
	    {"_RINvNtC3std3mem8align_ofdE", "std::mem::align_of::<f64>"},
	    {"_RNvXs_Cs1_7mycrateNtB4_3FooNtB4_3Bar3baz", "<mycrate::Foo as mycrate::Bar>::baz"},
	    {"_ZN7mycrate3foo17h0123456789abcdefE", "mycrate::foo"},
	    {"_Reduce_kernel(wgrad)", "_Reduce_kernel(wgrad)"},
	    {"gemm_f32_128x256_nt(wgrad)<<<8,1,1, 256,1,1>>>",
	     "gemm_f32_128x256_nt(wgrad)<<<8,1,1, 256,1,1>>>"},
	    {"", ""},
	};
	char text[256], tiny[8];

	for (size_t i = 0; i < sizeof(pairs) / sizeof(*pairs); i++)
		assert_string_equal(kernel_name_text(pairs[i][0], text, sizeof(text)), pairs[i][1]);
	assert_string_equal(kernel_name_text(pairs[0][0], tiny, sizeof(tiny)), "flash::");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(takes_demangled_names_apart),
	    cmocka_unit_test(takes_mangled_names_apart),
	    cmocka_unit_test(strips_what_distinguishes_variants_of_a_kernel),
	    cmocka_unit_test(are_shown_as_people_read_them),
	    cmocka_unit_test(a_name_that_stands_for_gigabytes_is_cut),
	    cmocka_unit_test(odd_names_stay_whole),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
