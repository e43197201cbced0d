/* SPDX-License-Identifier: Apache-2.0
 * sanitized.h - defines SANITIZED in builds with a sanitizer, which costs extra memory and time. */
#pragma once

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SANITIZED 1
#endif
#endif
