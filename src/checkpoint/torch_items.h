// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "base/byte_range.h"
#include "checkpoint/described_content.h"

namespace reshardfs {

/// A file of archives of torch.save, each with one tensor.
class TorchItems final : public DescribedContent, public std::enable_shared_from_this<TorchItems> {
 public:
  /// @param entries with their types and shapes; their extents are set here.
  /// @param places of their archives in the file; one without elements may have none (empty).
  TorchItems(std::vector<TensorEntry> entries, PieceOffsets pieces, std::vector<ByteRange> places);

  std::shared_ptr<const FileIndex> index() const override { return index_; }
  ByteSourcePtr tensors(ByteSourcePtr file) const override;

  const ByteRange& place(std::size_t entry) const { return places_[entry]; }
  /// Where the content of an entry begins in tensors().
  std::uint64_t begin(std::size_t entry) const { return begins_[entry]; }
  /// The entry whose content is at an offset below size(): the last one that begins there.
  std::size_t entry_at(std::uint64_t offset) const;
  std::uint64_t size() const noexcept { return size_; }

 private:
  std::vector<ByteRange> places_;
  std::vector<std::uint64_t> begins_;
  std::uint64_t size_ = 0;
  std::shared_ptr<const FileIndex> index_;
};

}  // namespace reshardfs
