/* SPDX-License-Identifier: Apache-2.0
 * nvtx_caller.c - a program that marks ranges with the real NVTX headers. */
#include <dlfcn.h>
#include <nvtx3/nvToolsExt.h>
#include <stdlib.h>
#include <time.h>

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
