/* SPDX-License-Identifier: Apache-2.0
 * fuzz_attach.c - any message with any number of descriptors on the attach socket. The first byte
 * is that number, the rest the message. */
#include <fcntl.h>
#include <stdbool.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/check.h"
#include "ring/attach.h"

#define FDS_MAX 20

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static bool send_message(int sock, const uint8_t *data, size_t bytes, size_t fd_count)
{
	char control[CMSG_SPACE(sizeof(int) * FDS_MAX)] __attribute__((aligned(8))) = {0};
	struct iovec part = {.iov_base = (void *)(uintptr_t)data, .iov_len = bytes};
	struct msghdr msg = {.msg_iov = &part, .msg_iovlen = 1};

	if (fd_count) {
		int fds[FDS_MAX];
		struct cmsghdr *c;

		for (size_t i = 0; i < FDS_MAX; i++)
			fds[i] = sock;
		msg.msg_control = control;
		msg.msg_controllen = CMSG_SPACE(sizeof(int) * fd_count);
		c = CMSG_FIRSTHDR(&msg);
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN(sizeof(int) * fd_count);
		memcpy(CMSG_DATA(c), fds, sizeof(int) * fd_count);
	}
	return sendmsg(sock, &msg, MSG_DONTWAIT) >= 0;
}

static int lowest_free_fd(void)
{
	int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);

	close(fd);
	return fd;
}

static void check_text(const char *text)
{
	size_t n = strnlen(text, ATTACH_TEXT_BYTES);

	CHECK(n < ATTACH_TEXT_BYTES);
	for (size_t i = 0; i < n; i++)
		CHECK((unsigned char)text[i] >= 0x20 && text[i] != 0x7f);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	struct attach_hello hello;
	int pair[2], fds[ATTACH_FDS] = {-1, -1}, before, rc;

	if (bytes < 1 || socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair))
		return 0;
	before = lowest_free_fd();
	if (send_message(pair[0], data + 1, bytes - 1, data[0] % (FDS_MAX + 1))) {
		rc = attach_accept(pair[1], &hello, fds);
		if (!rc) {
			CHECK(data[0] % (FDS_MAX + 1) == ATTACH_FDS);
			for (int i = 0; i < ATTACH_FDS; i++) {
				CHECK(fcntl(fds[i], F_GETFD) >= 0);
				close(fds[i]);
			}
			check_text(hello.job);
			check_text(hello.role);
			check_text(hello.pod);
			check_text(hello.pod_namespace);
			check_text(hello.pod_container);
			check_text(hello.pod_host);
			check_text(hello.gpu_uuid);
			check_text(hello.program);
			check_text(hello.libs);
		}
		CHECK(lowest_free_fd() == before);
	}
	close(pair[0]);
	close(pair[1]);
	return 0;
}
