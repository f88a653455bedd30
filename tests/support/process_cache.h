// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "storage/remote/cached_fetcher.h"
#include "support/temp_dir.h"

namespace reshardfs::test {

/// A cache on disk of the process, as --cache-dir makes one, as long as this lives.
class ProcessCache {
 public:
  ProcessCache() { reopen(); }
  ProcessCache(const ProcessCache&) = delete;
  ProcessCache& operator=(const ProcessCache&) = delete;
  ~ProcessCache() { source_cache() = nullptr; }

  /// As another process finds it when all that this one keeps has been written.
  void reopen() {
    if (source_cache()) source_cache()->flush();
    source_cache() = nullptr;
    source_cache() = BlockCache::open({directory_.path() / "cache", BlockCache::kMinBytes});
  }
  std::filesystem::path path() const { return directory_.path() / "cache"; }

 private:
  TempDir directory_;
};

}  // namespace reshardfs::test
