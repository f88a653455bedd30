// SPDX-License-Identifier: Apache-2.0
#include "daemon/process/process_end.h"

#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <iostream>

#include "fuse/event_log.h"
#include "storage/local/local_readers.h"
#include "storage/remote/cached_fetcher.h"
#include "transport/http_engine.h"

namespace reshardfs {

int leave(int exit_code) noexcept {
  // A command may be done before the cache has on disk what it found.
  if (const auto& cache = source_cache()) cache->flush(std::chrono::seconds(2));
  if (!HttpEngine::is_running() && !LocalReaders::is_running()) return exit_code;
  try {
    std::cout.flush();
    flush_log();
  } catch (...) {
    // Writing was tried; there is nowhere to report the failure.
  }
  static_cast<void>(std::fflush(nullptr));
  ::_exit(exit_code);
}

}  // namespace reshardfs
