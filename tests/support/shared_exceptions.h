// SPDX-License-Identifier: Apache-2.0
/// To be included by one file of a program whose threads hand exceptions to each other. Their
/// references are counted in libstdc++, which is not built with the thread sanitizer: it takes the
/// last thread that lets go of an exception for one that deletes it while another one reads it.
#pragma once

#ifdef __SANITIZE_THREAD__
// Seen by the sanitizer, and called before it is ready itself.
// NOLINTNEXTLINE(bugprone-reserved-identifier): the sanitizer's name
extern "C" __attribute__((visibility("default"), no_sanitize("thread"))) const char*
__tsan_default_suppressions() {
  return "race:std::__exception_ptr::exception_ptr::_M_release\n"
         "race:__cxa_end_catch\n";
}
#endif
