/* SPDX-License-Identifier: Apache-2.0
 * chain_blas.c - a matrix product in OpenBLAS's hand-written assembly. */
#include <cblas.h>
#include <stdio.h>

#define N 400

int main(void)
{
	static double a[N * N], b[N * N], c[N * N];

	for (int i = 0; i < N * N; i++)
		a[i] = b[i] = i % 7;
	puts("ready");
	fflush(stdout);
	for (;;)
		cblas_dgemm(CblasRowMajor, CblasNoTrans, CblasTrans, N, N, N, 1, a, N, b, N, 0, c,
			    N);
}
