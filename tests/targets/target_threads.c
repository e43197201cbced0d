/* SPDX-License-Identifier: Apache-2.0
 * target_threads.c - 500 threads, each of which works a little and then waits for an event. */
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#define THREADS 500

unsigned threads_work(unsigned x);
unsigned threads_wait(unsigned x);

__attribute__((noinline)) unsigned threads_work(unsigned x)
{
	for (unsigned i = 0; i < 100000; i++)
		x = (x * 31 + i) % 1000003;
	return x;
}

__attribute__((noinline)) unsigned threads_wait(unsigned x)
{
	return poll(NULL, 0, 20 + (int)(x % 50)) ? x : x + 1;
}

static void *turn(void *arg)
{
	for (unsigned x = *(unsigned *)arg;;)
		x = threads_wait(threads_work(x)) + 1;
	return NULL;
}

int main(void)
{
	static unsigned seed[THREADS];
	pthread_t thread;

	for (unsigned i = 0; i < THREADS; i++) {
		seed[i] = i;
		if (pthread_create(&thread, NULL, turn, &seed[i]))
			return 1;
	}
	puts("ready");
	fflush(stdout);
	pthread_join(thread, NULL);
	return 0;
}
