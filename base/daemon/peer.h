/* SPDX-License-Identifier: Apache-2.0
 * peer.h - who is at the other end of a connection: the user if the kernel knows it (SO_PEERCRED of
 * a Unix socket; sock_diag of a TCP socket with both ends on this machine), otherwise the address.
 * So shared resources can be divided among the users of this machine and among other machines.
 * Addresses alone are not enough, because a local user can connect from all of 127.0.0.0/8.
 * Threads: any. Never blocks on a peer, because it only asks the kernel. */
#pragma once

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

/* sock: a connected Unix or TCP socket. False: not known. */
bool peer_user(int sock, uid_t *uid);
/* Whether both ends are on this machine, judged only by their addresses: loopback, or a Unix
 * socket. */
bool peer_is_loopback(int sock);

#define PEER_TEXT_BYTES 64u
/* ADDRESS:PORT of the other end, or "unix", for people. */
void peer_text(int sock, char out[PEER_TEXT_BYTES]);

#define PEER_USER 256u /* not an address family */
#define PEER_NAME 257u /* the name in a certificate; value: its keyed hash */
/* Equal for all connections that one peer can make. Keyed by user, else by IPv4 address, else by
 * the upper half of an IPv6 address, because a host owns the lower half. Loopback addresses with an
 * unknown user share one key. */
struct peer_key {
	uint32_t kind; /* PEER_USER, PEER_NAME, AF_INET, AF_INET6; AF_UNSPEC: unknown */
	uint64_t value;
};

void peer_key_of(struct peer_key *k, int sock);
/* The key of a TCP connection, from the addresses of its other end and of ours. */
void peer_key_between(struct peer_key *k, const union peer_address *peer,
		      const union peer_address *own);
