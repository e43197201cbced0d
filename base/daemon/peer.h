/* SPDX-License-Identifier: Apache-2.0
 * peer.h - who is at the other end of a connection: the user, where the kernel names one (SO_PEERCRED of a
 * Unix socket; sock_diag of a TCP socket whose other end is of this machine), else the address.
 * So that what is shared among those who connect is shared among users of this machine, who have all of
 * 127.0.0.0/8 to connect from, and among other machines.
 * Threads: any. Never blocks on a peer: it asks the kernel. */
#ifndef SYSOM_BASE_DAEMON_PEER_H
#define SYSOM_BASE_DAEMON_PEER_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/types.h>

union peer_address {
	struct sockaddr_storage any;
	struct sockaddr_in v4;
	struct sockaddr_in6 v6;
};

/* Of a connected Unix or TCP socket. False: not known. */
bool peer_user(int sock, uid_t *uid);

#define PEER_USER 256u /* no address family */
/* Equal for all connections that one may make: of a user; from an IPv4 address; from the upper half of an
 * IPv6 address, as a host has all below; from loopback addresses, where the user is not known. */
struct peer_key {
	uint32_t kind; /* PEER_USER, AF_INET, AF_INET6; AF_UNSPEC: nothing is known */
	uint64_t value;
};

void peer_key_of(struct peer_key *k, int sock);
/* Of a TCP connection: its other end and ours. */
void peer_key_between(struct peer_key *k, const union peer_address *peer, const union peer_address *own);

#endif
