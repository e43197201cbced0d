/* SPDX-License-Identifier: Apache-2.0
 * peer.c - see peer.h.
 * sock_diag reports uid 0 for a TCP socket that is closing or no longer has a file. So only an
 * established socket with an inode counts. We want the other end's socket, so the query swaps the
 * two addresses. */
#include "base/daemon/peer.h"

#include <arpa/inet.h>
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static void fill_end(const union peer_address *a, __be16 *port, __be32 to[4])
{
	if (a->any.ss_family == AF_INET) {
		*port = a->v4.sin_port;
		memcpy(to, &a->v4.sin_addr, 4);
	} else {
		*port = a->v6.sin6_port;
		memcpy(to, &a->v6.sin6_addr, 16);
	}
}

static bool ask(int netlink, const union peer_address *peer, const union peer_address *own,
		uid_t *uid)
{
	struct {
		struct nlmsghdr head;
		struct inet_diag_req_v2 req;
	} q = {.head = {.nlmsg_len = sizeof(q),
			.nlmsg_type = SOCK_DIAG_BY_FAMILY,
			.nlmsg_flags = NLM_F_REQUEST},
	       .req = {.sdiag_family = (__u8)peer->any.ss_family,
		       .sdiag_protocol = IPPROTO_TCP,
		       .idiag_states = 1u << TCP_ESTABLISHED}};
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
	n = recv(netlink, &answer, sizeof(answer), MSG_DONTWAIT); /* the kernel has already
								   * answered */
	if (n < (ssize_t)NLMSG_LENGTH(sizeof(*m)) || answer.head.nlmsg_type != SOCK_DIAG_BY_FAMILY)
		return false;
	m = NLMSG_DATA(&answer.head);
	if (m->idiag_state != TCP_ESTABLISHED || !m->idiag_inode ||
	    m->id.idiag_sport != q.req.id.idiag_sport || m->id.idiag_dport != q.req.id.idiag_dport)
		return false;
	*uid = m->idiag_uid;
	return true;
}

static bool tcp_user(const union peer_address *peer, const union peer_address *own, uid_t *uid)
{
	int netlink = socket(AF_NETLINK, SOCK_DGRAM | SOCK_CLOEXEC, NETLINK_SOCK_DIAG);
	bool known;

	if (netlink < 0)
		return false;
	known = ask(netlink, peer, own, uid);
	close(netlink);
	return known;
}

/* An IPv4 connection to a dual-stack socket. */
static void unmap(union peer_address *a)
{
	struct sockaddr_in v4 = {.sin_family = AF_INET, .sin_port = a->v6.sin6_port};

	if (a->any.ss_family != AF_INET6 || !IN6_IS_ADDR_V4MAPPED(&a->v6.sin6_addr))
		return;
	memcpy(&v4.sin_addr, a->v6.sin6_addr.s6_addr + 12, 4);
	a->v4 = v4;
}

static bool tcp_ends(int sock, union peer_address *peer, union peer_address *own)
{
	socklen_t peer_bytes = sizeof(*peer), own_bytes = sizeof(*own);

	memset(peer, 0, sizeof(*peer));
	memset(own, 0, sizeof(*own));
	if (getpeername(sock, (struct sockaddr *)peer, &peer_bytes) ||
	    getsockname(sock, (struct sockaddr *)own, &own_bytes))
		return false;
	unmap(peer);
	unmap(own);
	return peer->any.ss_family == AF_INET || peer->any.ss_family == AF_INET6;
}

bool peer_user(int sock, uid_t *uid)
{
	union peer_address peer, own;
	struct ucred unix_peer;
	socklen_t bytes = sizeof(unix_peer), own_bytes = sizeof(own);

	if (getsockname(sock, (struct sockaddr *)&own, &own_bytes))
		return false;
	if (own.any.ss_family != AF_UNIX)
		return tcp_ends(sock, &peer, &own) && tcp_user(&peer, &own, uid);
	if (getsockopt(sock, SOL_SOCKET, SO_PEERCRED, &unix_peer, &bytes))
		return false;
	*uid = unix_peer.uid;
	return true;
}

static bool is_loopback(const union peer_address *a)
{
	if (a->any.ss_family == AF_INET6)
		return IN6_IS_ADDR_LOOPBACK(&a->v6.sin6_addr);
	return a->any.ss_family == AF_INET &&
	       ntohl(a->v4.sin_addr.s_addr) >> IN_CLASSA_NSHIFT == IN_LOOPBACKNET;
}

bool peer_is_loopback(int sock)
{
	union peer_address peer, own;
	socklen_t bytes = sizeof(own);

	if (!getsockname(sock, (struct sockaddr *)&own, &bytes) && own.any.ss_family == AF_UNIX)
		return true;
	return tcp_ends(sock, &peer, &own) && is_loopback(&peer);
}

void peer_text(int sock, char out[PEER_TEXT_BYTES])
{
	union peer_address peer, own;
	char text[INET6_ADDRSTRLEN] = "";

	if (!tcp_ends(sock, &peer, &own)) {
		strcpy(out, "unix");
		return;
	}
	if (peer.any.ss_family == AF_INET)
		inet_ntop(AF_INET, &peer.v4.sin_addr, text, sizeof(text));
	else
		inet_ntop(AF_INET6, &peer.v6.sin6_addr, text, sizeof(text));
	snprintf(out, PEER_TEXT_BYTES, peer.any.ss_family == AF_INET ? "%s:%u" : "[%s]:%u", text,
		 /* the port is at the same place in v4 and v6 addresses */
		 ntohs(peer.v4.sin_port));
}

static void by_address(struct peer_key *k, const union peer_address *peer)
{
	k->kind = peer->any.ss_family;
	k->value = 0;
	if (is_loopback(peer)) {
		k->kind = AF_INET;
		k->value = IN_LOOPBACKNET;
	} else if (k->kind == AF_INET6) {
		memcpy(&k->value, &peer->v6.sin6_addr, sizeof(k->value));
	} else if (k->kind == AF_INET) {
		k->value = ntohl(peer->v4.sin_addr.s_addr);
	}
}

void peer_key_between(struct peer_key *k, const union peer_address *peer,
		      const union peer_address *own)
{
	union peer_address theirs = *peer, ours = *own;
	uid_t uid;

	unmap(&theirs);
	unmap(&ours);
	if (tcp_user(&theirs, &ours, &uid))
		*k = (struct peer_key){PEER_USER, uid};
	else
		by_address(k, &theirs);
}

void peer_key_of(struct peer_key *k, int sock)
{
	union peer_address peer, own;
	uid_t uid;

	if (peer_user(sock, &uid))
		*k = (struct peer_key){PEER_USER, uid};
	else if (tcp_ends(sock, &peer, &own))
		by_address(k, &peer);
	else
		*k = (struct peer_key){AF_UNSPEC, 0};
}
