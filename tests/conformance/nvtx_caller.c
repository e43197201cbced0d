/* SPDX-License-Identifier: Apache-2.0
 * nvtx_caller.c - a program that marks ranges with the real NVTX headers. */
#include <dlfcn.h>
#include <nvtx3/nvToolsExt.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#define MEGABYTE (1u << 20)

/* A text of so many bytes without an end, in front of memory that nobody may read. */
static char *unreadable_after(size_t bytes)
{
	size_t whole = (bytes + 4095) & ~4095ul;
	char *at =
	    mmap(NULL, whole + 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	mprotect(at + whole, 4096, PROT_NONE);
	return memset(at + whole - bytes, 'x', bytes);
}

/* By each call that takes a text. */
static void mark(nvtxDomainHandle_t domain, const char *text)
{
	nvtxEventAttributes_t a = {.version = NVTX_VERSION,
				   .size = NVTX_EVENT_ATTRIB_STRUCT_SIZE,
				   .messageType = NVTX_MESSAGE_TYPE_ASCII,
				   .message.ascii = text};

	nvtxRangePushA(text);
	nvtxRangePop();
	nvtxRangeEnd(nvtxRangeStartA(text));
	nvtxDomainRangePushEx(domain, &a);
	nvtxDomainRangePop(domain);
	nvtxDomainRegisterStringA(domain, text);
	nvtxDomainCreateA(text);
}

/* Texts of a megabyte, texts that never end, and ranges that are never closed. */
static int hostile(nvtxDomainHandle_t domain)
{
	const struct timespec pause = {0, 300000000};
	char *megabyte = unreadable_after(MEGABYTE + 4096);
	char *crossing = unreadable_after(5000), *longest = malloc(4096);

	memset(crossing + 3000, 0, 1); /* an end on the second page */
	mprotect(megabyte + 8192, MEGABYTE - 4096, PROT_NONE);
	memset(longest, 'y', 4095);
	longest[4095] = 0;
	mark(domain, megabyte);
	mark(domain, unreadable_after(100));
	mark(domain, crossing);
	mark(domain, longest);
	for (int i = 0; i < 1000; i++)
		nvtxRangePushA("never closed");
	nvtxRangePushA("after");
	nvtxRangePop();
	nanosleep(&pause, NULL);
	return 0;
}

int main(void)
{
	void (*begin)(const double *, unsigned) =
	    (void (*)(const double *, unsigned))dlsym(RTLD_DEFAULT, "sysom_step_begin");
	void (*span)(const char *) =
	    (void (*)(const char *))dlsym(RTLD_DEFAULT, "sysom_span_begin");
	struct timespec pause = {0, 150000000};
	nvtxDomainHandle_t domain = nvtxDomainCreateA("library");
	nvtxEventAttributes_t a = {0};
	nvtxRangeId_t range;

	/* starts tracing; as a step it would win over those of a catalogue */
	if (span && getenv("NVTX_STEPS"))
		span("start");
	else if (begin)
		begin(NULL, 0);
	if (getenv("NVTX_HOSTILE"))
		return hostile(domain);
	a.version = NVTX_VERSION;
	a.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
	nvtxRangePushA("forward");
	a.messageType = NVTX_MESSAGE_TYPE_REGISTERED;
	a.message.registered = nvtxDomainRegisterStringA(domain, "layer");
	nvtxDomainRangePushEx(domain, &a);
	nvtxDomainRangePop(domain);
	nvtxRangePop();
	range = nvtxRangeStartA("overlapping");
	a.messageType = NVTX_MESSAGE_TYPE_ASCII;
	a.message.ascii = "attributes";
	nvtxRangePushEx(&a);
	nvtxRangeEnd(range);
	nvtxRangePop();
	nvtxRangePushA("execute 3 with 96 tokens");
	nvtxRangePushA("execute 1 with 1 tokens"); /* within a step */
	nvtxRangePop();
	nvtxRangePop();
	a.messageType = NVTX_MESSAGE_TYPE_REGISTERED;
	a.message.registered = nvtxDomainRegisterStringA(domain, "execute 2 with 64 tokens");
	nvtxDomainRangePushEx(domain, &a);
	nvtxDomainRangePop(domain);
	nanosleep(&pause, NULL);
	return 0;
}
