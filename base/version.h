/* SPDX-License-Identifier: Apache-2.0
 * version.h - the release that all programs of this tree say they are; CHANGELOG.md has its notes. */
#ifndef SYSOM_BASE_VERSION_H
#define SYSOM_BASE_VERSION_H

#define SYSOM_VERSION "0.1.0"

#endif
