/* SPDX-License-Identifier: Apache-2.0
 * sanitized.h - SANITIZED is defined where a sanitizer's memory and time come on top of ours. */
#ifndef SYSOM_BASE_SANITIZED_H
#define SYSOM_BASE_SANITIZED_H

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SANITIZED 1
#endif
#endif

#endif
