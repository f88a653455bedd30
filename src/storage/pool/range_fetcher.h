// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/byte_range.h"
#include "storage/byte_source.h"

namespace reshardfs {

/// One version of one object whose ranges can be fetched, many at once. What it delivers is always
/// of that version: it fails if there is another one.
/// Every member function may be called from any number of threads at once.
class RangeFetcher {
 public:
  /// Called once, on any thread; must not wait. @param failure null: all of the range is there
  using Done = std::function<void(std::exception_ptr failure)>;

  RangeFetcher() = default;
  RangeFetcher(const RangeFetcher&) = delete;
  RangeFetcher& operator=(const RangeFetcher&) = delete;
  virtual ~RangeFetcher() = default;

  virtual const std::string& name() const noexcept = 0;
  virtual std::uint64_t size() const noexcept = 0;
  /// Nanoseconds since the epoch.
  virtual std::int64_t mtime_ns() const noexcept = 0;
  virtual FileStamp stamp() const noexcept = 0;
  /// Tells this version from all others of all objects, as far as it is certain; empty if it is
  /// not.
  virtual const std::string& identity() const noexcept = 0;
  /// Whether bytes of it have been read, or it is known in another way that whoever asks may read
  /// it.
  virtual bool is_opened() const noexcept { return true; }
  /// As ByteSource has it.
  virtual bool is_remote() const noexcept { return true; }
  /// @throws Error kChanged if it is known that there is another version.
  virtual void check_unchanged() const = 0;

  /// False once what is under way takes so long that it may never end: what is remote ends with an
  /// error instead.
  virtual bool answers() const noexcept { return true; }

  /// Whether whole blocks should be asked for (BlockPool::kBlockBytes), since they are kept as
  /// such.
  virtual bool by_blocks() const noexcept { return false; }

  /// Begins to fetch a range.
  /// @param range not empty, and in the object.
  /// @param out where it goes, one piece after the other: as long as the range together. Held until
  ///        `done` is called.
  /// @throws std::bad_alloc, Error; then `done` will not be called.
  virtual void fetch(const ByteRange& range, std::vector<std::span<std::byte>> out, Foresight when,
                     Done done) const = 0;
};

using RangeFetcherPtr = std::shared_ptr<const RangeFetcher>;

}  // namespace reshardfs
