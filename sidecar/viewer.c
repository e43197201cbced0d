/* SPDX-License-Identifier: Apache-2.0
 * viewer.c - see viewer.h.
 * A TCP socket that is closing, or has no file any more, is told with uid 0: only an established one that
 * somebody holds open counts. The other end's addresses are its own, so they are asked for the other way
 * round. */
#include "sidecar/viewer.h"

#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

union viewer_address {
	struct sockaddr_storage any;
	struct sockaddr_in v4;
	struct sockaddr_in6 v6;
};

static void fill_end(const union viewer_address *a, __be16 *port, __be32 to[4])
{
	if (a->any.ss_family == AF_INET) {
		*port = a->v4.sin_port;
		memcpy(to, &a->v4.sin_addr, 4);
	} else {
		*port = a->v6.sin6_port;
		memcpy(to, &a->v6.sin6_addr, 16);
	}
}

static bool ask(int netlink, const union viewer_address *peer, const union viewer_address *own, uid_t *uid)
{
	struct {
		struct nlmsghdr head;
		struct inet_diag_req_v2 req;
	} q = { .head = { .nlmsg_len = sizeof(q), .nlmsg_type = SOCK_DIAG_BY_FAMILY,
			  .nlmsg_flags = NLM_F_REQUEST },
		.req = { .sdiag_family = (__u8)peer->any.ss_family, .sdiag_protocol = IPPROTO_TCP,
			 .idiag_states = 1u << TCP_ESTABLISHED } };
	union {
		struct nlmsghdr head;
		char bytes[4096];
	} answer;
	const struct inet_diag_msg *m;
	ssize_t n;

	fill_end(peer, &q.req.id.idiag_sport, q.req.id.idiag_src);
	fill_end(own, &q.req.id.idiag_dport, q.req.id.idiag_dst);
	q.req.id.idiag_cookie[0] = q.req.id.idiag_cookie[1] = INET_DIAG_NOCOOKIE;
	if (send(netlink, &q, sizeof(q), MSG_DONTWAIT) != (ssize_t)sizeof(q))
		return false;
	n = recv(netlink, &answer, sizeof(answer), MSG_DONTWAIT); /* the kernel has answered by now */
	if (n < (ssize_t)NLMSG_LENGTH(sizeof(*m)) || answer.head.nlmsg_type != SOCK_DIAG_BY_FAMILY)
		return false;
	m = NLMSG_DATA(&answer.head);
	if (m->idiag_state != TCP_ESTABLISHED || !m->idiag_inode ||
	    m->id.idiag_sport != q.req.id.idiag_sport || m->id.idiag_dport != q.req.id.idiag_dport)
		return false;
	*uid = m->idiag_uid;
	return true;
}

static bool tcp_peer(int sock, uid_t *uid)
{
	union viewer_address peer, own;
	socklen_t peer_bytes = sizeof(peer), own_bytes = sizeof(own);
	int netlink;
	bool known;

	memset(&peer, 0, sizeof(peer));
	memset(&own, 0, sizeof(own));
	if (getpeername(sock, (struct sockaddr *)&peer, &peer_bytes) ||
	    getsockname(sock, (struct sockaddr *)&own, &own_bytes) ||
	    (peer.any.ss_family != AF_INET && peer.any.ss_family != AF_INET6))
		return false;
	netlink = socket(AF_NETLINK, SOCK_DGRAM | SOCK_CLOEXEC, NETLINK_SOCK_DIAG);
	if (netlink < 0)
		return false;
	known = ask(netlink, &peer, &own, uid);
	close(netlink);
	return known;
}

static bool is_named(const char *list, const struct viewer *v)
{
	char *end;

	if (!strcmp(list, "*"))
		return true;
	for (; v->known && *list; list = *end == ',' ? end + 1 : end) {
		unsigned long number = strtoul(list, &end, 10);

		if (end == list)
			return false;
		if (number == v->uid)
			return true;
	}
	return false;
}

void viewer_of(struct viewer *v, int sock, const char *see_all)
{
	struct ucred peer;
	socklen_t bytes = sizeof(peer);
	struct sockaddr_storage a;
	socklen_t a_bytes = sizeof(a);

	*v = (struct viewer){ .uid = (uid_t)-1 };
	if (getsockname(sock, (struct sockaddr *)&a, &a_bytes))
		return;
	if (a.ss_family == AF_UNIX) {
		v->known = !getsockopt(sock, SOL_SOCKET, SO_PEERCRED, &peer, &bytes);
		v->uid = v->known ? peer.uid : v->uid;
	} else {
		v->known = tcp_peer(sock, &v->uid);
	}
	v->all = (v->known && (v->uid == 0 || v->uid == geteuid())) || is_named(see_all, v);
}

bool viewer_sees(const struct viewer *v, uid_t owner)
{
	return v->all || (v->known && v->uid == owner);
}
