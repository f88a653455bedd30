// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <unordered_map>
#include <vector>

#include "base/byte_range.h"
#include "checkpoint/dcp/described_content.h"
#include "format/torch/item_range.h"

namespace reshardfs {

/// A file of tensors as torch.save writes them: one archive behind the other, each with one tensor;
/// or all in one file, under their names.
class TorchItems final : public DescribedContent, public std::enable_shared_from_this<TorchItems> {
 public:
  using Runs = std::unordered_map<std::size_t, ItemRange>;  ///< by the numbers of entries

  /// @param entries with their types and shapes; their extents are set here.
  /// @param places of their archives in the file; one without elements may have none (empty).
  /// @param runs where entries are in archives that have more than them.
  TorchItems(std::vector<TensorEntry> entries, BoxOffsets offsets, std::vector<ByteRange> places,
             Runs runs = {});
  /// The same of a file in which tensors are found by their names: see NamedTensors.
  TorchItems(std::vector<TensorEntry> entries, BoxOffsets offsets);

  std::shared_ptr<const FileIndex> index() const override { return index_; }
  ByteSourcePtr tensors(ByteSourcePtr file) const override;
  std::size_t places() const override { return places_.empty() ? 1 : places_.size(); }
  std::vector<RefusedTensor> examine(const ByteSource& tensors, bool read_all) const override;

  const TensorEntry& entry(std::size_t number) const { return index_->entries()[number]; }
  /// Nothing if it is found by its name.
  std::optional<ByteRange> place(std::size_t entry) const;
  /// The number of a place that several entries are in, below shared_places(); nothing for an entry
  /// that is alone in its place.
  std::optional<std::size_t> shared_place(std::size_t entry) const;
  std::size_t shared_places() const noexcept { return shared_places_; }
  /// The shape of what its archive has.
  Shape stored_shape(std::size_t entry) const;
  /// Where its content begins in that of its archive, in bytes.
  std::uint64_t first_in_place(std::size_t entry) const;
  /// Where the content of an entry begins in tensors().
  std::uint64_t begin(std::size_t entry) const { return begins_[entry]; }
  /// The entry whose content is at an offset below size(): the last one that begins there.
  std::size_t entry_at(std::uint64_t offset) const;
  std::uint64_t size() const noexcept { return size_; }

 private:
  void find_shared_places();

  std::vector<ByteRange> places_;                        ///< none: by name
  std::unordered_map<std::size_t, std::size_t> shared_;  ///< their numbers, by entry
  std::size_t shared_places_ = 0;
  Runs runs_;
  std::vector<std::uint64_t> begins_;
  std::uint64_t size_ = 0;
  std::shared_ptr<const FileIndex> index_;
};

}  // namespace reshardfs
