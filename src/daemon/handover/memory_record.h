// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "base/posix/descriptor.h"
#include "fuse/opening_table.h"

namespace reshardfs {

/// Two texts in memory that several processes may have, and beside them a table of openings. A
/// process that is killed while it writes leaves the text that there was before. One process at a
/// time writes.
class MemoryRecord {
 public:
  /// An empty one. @throws Error kIo
  MemoryRecord();
  /// That of another process.
  explicit MemoryRecord(Descriptor memory) : memory_(std::move(memory)) {}

  int descriptor() const noexcept { return memory_.get(); }
  enum class Text : std::uint8_t {
    kState,
    kTree,  ///< TreeSource::save()
  };
  /// Each text is one thread's at a time. @throws Error kIo
  void write(std::string_view text, Text which = Text::kState);
  /// @throws Error kIo
  std::string read(Text which = Text::kState) const;
  /// The table, for as long as this lives: what another process has noted, or zeros.
  /// @throws Error kIo
  std::span<OpeningTable::Entry> openings();

 private:
  struct Unmap {
    void operator()(OpeningTable::Entry* entries) const noexcept;
  };

  Descriptor memory_;
  std::unique_ptr<OpeningTable::Entry, Unmap> openings_;
};

}  // namespace reshardfs
