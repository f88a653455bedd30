// SPDX-License-Identifier: Apache-2.0
/// Tells far sources what a reader of a file needs, and what it will need next: which ranges of
/// which sources those are follows from the plan.
#pragma once

#include <atomic>
#include <cstdint>
#include <span>

#include "base/byte_range.h"
#include "base/function_ref.h"
#include "plan/reading/content.h"
#include "plan/reading/source_sinks.h"
#include "storage/pool/block_pool.h"

namespace reshardfs {

/// Tells what a range of a file is read from.
using UsesOfRange = FunctionRef<void(const ByteRange& range, SourceSink& sink)>;

/// Tells the reads of one file from those of others, by its address.
class ForeseenFile {
 public:
  ForeseenFile() = default;
  ForeseenFile(const ForeseenFile&) = delete;
  ForeseenFile& operator=(const ForeseenFile&) = delete;
  /// What is known of its readers is forgotten: another file may get the address.
  ~ForeseenFile();

  /// What a read needs is asked for at once, however many sources that are; and if it goes on where
  /// another one ended, so is what the next ones will need.
  /// @param size bytes of the file.
  void foresee(std::uint64_t size, const ByteRange& range, UsesOfRange uses) const noexcept;

 private:
  mutable std::atomic<bool> has_readers_ = false;
};

/// read_checked() of a range of a file, foreseen where any source is far away.
/// @param read (offset, out, batch) reads a range as its sources are now.
template <typename Read>
void read_foreseen(const ForeseenFile& file, std::uint64_t size, std::uint64_t offset,
                   std::span<std::byte> out, Read&& read, UsesOfRange uses) {
  const auto checked = [&] { read_checked([&](ReadBatch& batch) { read(offset, out, batch); }); };
  if (!BlockPool::is_used()) return checked();
  file.foresee(size, ByteRange(offset, out.size()), uses);
  const ForeseenReads scope;
  checked();
}

}  // namespace reshardfs
