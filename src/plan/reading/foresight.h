// SPDX-License-Identifier: Apache-2.0
/// Tells remote sources which ranges a reader of a file needs now and will need next. The plan
/// knows which ranges of which sources these are.
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

/// Lists the sources of a range of a file.
using UsesOfRange = FunctionRef<void(const ByteRange& range, SourceSink& sink)>;

/// Identifies a file's reads by this object's address.
class ForeseenFile {
 public:
  ForeseenFile() = default;
  ForeseenFile(const ForeseenFile&) = delete;
  ForeseenFile& operator=(const ForeseenFile&) = delete;
  /// Forgets the file's readers, because another file may get the same address.
  ~ForeseenFile();

  /// Requests everything that a read needs at once, from any number of sources. If the read
  /// continues another one, it also requests what the following reads will need.
  /// @param size the size of the file in bytes.
  /// @return whether it has now requested all up to the end of the file: a reader who goes on needs
  ///         another file next.
  bool foresee(std::uint64_t size, const ByteRange& range, UsesOfRange uses) const noexcept;

 private:
  mutable std::atomic<bool> has_readers_ = false;
};

/// Requests the beginning of a file of this size that will be read next, as far as there is memory.
void foresee_beginning(std::uint64_t size, UsesOfRange uses) noexcept;

/// read_checked() of a range of a file. Calls foresee() first if any source is remote.
/// @param read (offset, out, batch) reads a range from its sources.
/// @param at_end is called when foresee() has come to the end of the file.
template <typename Read, typename AtEnd>
void read_foreseen(const ForeseenFile& file, std::uint64_t size, std::uint64_t offset,
                   std::span<std::byte> out, Read&& read, UsesOfRange uses, AtEnd&& at_end) {
  const bool foreseen = BlockPool::is_used();
  if (foreseen && file.foresee(size, ByteRange(offset, out.size()), uses)) at_end();
  read_checked([&](ReadBatch& batch) { read(offset, out, batch); }, foreseen);
}

}  // namespace reshardfs
