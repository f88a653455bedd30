// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/byte_range.h"
#include "checkpoint/dcp/described_content.h"
#include "format/torch/dcp_table.h"

namespace reshardfs {

/// A file of tensors as torch.save writes them: consecutive archives with one tensor each, or one
/// archive with named tensors.
class TorchItems final : public DescribedContent, public std::enable_shared_from_this<TorchItems> {
 public:
  using Runs = std::unordered_map<std::size_t, ItemRange>;  ///< keyed by the entry's index

  /// @param entries with their types and shapes; their extents are set here.
  /// @param places of their archives in the file; may be empty for an entry without elements.
  /// @param runs positions of entries in archives that contain more elements.
  TorchItems(std::vector<TensorEntry> entries, BoxOffsets offsets, std::vector<ByteRange> places,
             Runs runs = {});
  /// The same for a file in which tensors are found by what it calls them: see NamedTensors.
  /// @param keys of all entries; empty: their names.
  TorchItems(std::vector<TensorEntry> entries, BoxOffsets offsets, std::vector<std::string> keys);

  std::shared_ptr<const FileIndex> index() const override { return index_; }
  ByteSourcePtr tensors(ByteSourcePtr file) const override;
  std::size_t places() const override { return places_.empty() ? 1 : places_.size(); }
  std::vector<RefusedTensor> examine(const ByteSource& tensors, bool read_all) const override;
  std::vector<SavedArchives> archives(const ByteSource& tensors) const override;

  const TensorEntry& entry(std::size_t number) const { return index_->entries()[number]; }
  /// What the file calls it, where entries are found by that.
  const std::string& key(std::size_t number) const {
    return keys_.empty() ? entry(number).name : keys_[number];
  }
  bool has_keys() const noexcept { return !keys_.empty(); }
  /// nullopt if the entry is found by its name.
  std::optional<ByteRange> place(std::size_t entry) const;
  /// The number, below shared_places(), of a place that several entries share; nullopt for an entry
  /// with a place of its own.
  std::optional<std::size_t> shared_place(std::size_t entry) const;
  std::size_t shared_places() const noexcept { return shared_places_; }
  /// The shape of the tensor in the entry's archive.
  Shape stored_shape(std::size_t entry) const;
  /// The offset of its content in the archive's content, in bytes.
  std::uint64_t first_in_place(std::size_t entry) const;
  /// The offset of an entry's content in tensors().
  std::uint64_t begin(std::size_t entry) const { return begins_[entry]; }
  /// The entry whose content contains an offset below size(); if several begin there, the last one.
  std::size_t entry_at(std::uint64_t offset) const;
  std::uint64_t size() const noexcept { return size_; }

 private:
  void find_shared_places();

  std::vector<ByteRange> places_;                        ///< empty: tensors are found by name
  std::vector<std::string> keys_;                        ///< see key()
  std::unordered_map<std::size_t, std::size_t> shared_;  ///< numbers of shared places, by entry
  std::size_t shared_places_ = 0;
  Runs runs_;
  std::vector<std::uint64_t> begins_;
  std::uint64_t size_ = 0;
  std::shared_ptr<const FileIndex> index_;
};

}  // namespace reshardfs
