// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>

#include "base/posix/descriptor.h"
#include "cache/record.h"

namespace reshardfs {

/// A record whose header has been checked.
struct KeptRecord {
  Descriptor file;
  RecordHeader header;
};

/// Records that are being read part by part, so that not each part has to open them. A few, and
/// only until their end was read: what is evicted takes up room for as long as it is open. Every
/// member function may be called from any number of threads at once.
class KeptRecords {
 public:
  using Record = std::shared_ptr<const KeptRecord>;

  /// @return nullptr if it is not kept.
  Record find(const RecordId& id) noexcept;
  void keep(const RecordId& id, Record record) noexcept;
  void forget(const RecordId& id) noexcept;

 private:
  static constexpr std::size_t kRecords = 8;
  struct Place {
    std::optional<RecordId> id;
    Record record;
    std::uint64_t used = 0;
  };
  Place* place_of(const RecordId& id) noexcept;

  std::mutex mutex_;  // guards both below
  std::array<Place, kRecords> places_;
  std::uint64_t uses_ = 0;
};

}  // namespace reshardfs
