/* SPDX-License-Identifier: Apache-2.0 */
#include "analysis/robust/chance.h"

#include <math.h>

#include "analysis/robust/median.h"

#define NORMAL_MOST  12
#define STUDENT_MOST 1000

double chance_beyond(double z)
{
	return erfc(z / sqrt(2));
}

/* P(|T| > t). */
static double student_tails(double t, uint32_t freedom)
{
	double angle = atan(t / sqrt(freedom)), c2 = cos(angle) * cos(angle), sum = 0, term = 1;

	if (freedom % 2) {
		term = cos(angle);
		for (uint32_t k = 1; k + 1 < freedom; k += 2) {
			sum += term;
			term *= c2 * (k + 1) / (k + 2);
		}
		return 1 - 2 / M_PI * (angle + sin(angle) * sum);
	}
	for (uint32_t k = 0; k + 2 <= freedom; k += 2) {
		sum += term;
		term *= c2 * (k + 1) / (k + 2);
	}
	return 1 - sin(angle) * sum;
}

/* freedom 0: the normal distribution. */
static double deviation(double chance, uint32_t freedom, double most)
{
	double lo = 0, hi = most;

	for (int i = 0; i < 60; i++) {
		double x = (lo + hi) / 2;

		if ((freedom ? student_tails(x, freedom) : chance_beyond(x)) / 2 > chance)
			lo = x;
		else
			hi = x;
	}
	return hi;
}

double chance_normal(double chance)
{
	return deviation(chance, 0, NORMAL_MOST);
}

double chance_student(double chance, uint32_t freedom)
{
	return deviation(chance, freedom ? freedom : 1, STUDENT_MOST);
}

double chance_cut(double *chance, uint32_t n, double rate)
{
	median_sort(chance, n);
	for (uint32_t i = n; i-- > 0;)
		if (chance[i] <= rate * (i + 1) / n)
			return chance[i];
	return -1;
}
