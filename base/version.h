/* SPDX-License-Identifier: Apache-2.0
 * version.h - the release number of all programs of this tree; CHANGELOG.md has the notes. */
#pragma once

#define SYSOM_VERSION "0.1.0"
