// SPDX-License-Identifier: Apache-2.0
#include "cli/process_end.h"

#include <unistd.h>

#include <cstdio>
#include <iostream>

#include <spdlog/spdlog.h>

#include "transport/http_engine.h"

namespace reshardfs {

int leave(int exit_code) noexcept {
  if (!HttpEngine::is_running()) return exit_code;
  try {
    std::cout.flush();
    spdlog::default_logger_raw()->flush();
  } catch (...) {
    // What cannot be written has been tried.
  }
  static_cast<void>(std::fflush(nullptr));
  ::_exit(exit_code);
}

}  // namespace reshardfs
