/* SPDX-License-Identifier: Apache-2.0
 * read_user.c - the memory that bpf/ code reads in user space, one per thread. */
#include "bpf/read_user.h"

__thread struct read_user read_user_source;
