// SPDX-License-Identifier: Apache-2.0
/// Files of torch.save with a dictionary of tensors: a ZIP archive with data.pkl, byteorder and
/// version, and behind them an entry for each storage. Nothing in it depends on the storages'
/// bytes but their checksums.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "reshardfs/dtype.h"
#include "reshardfs/shape.h"

#include "base/byte_range.h"
#include "format/torch/zip_writer.h"

namespace reshardfs {

/// A tensor in C order, which is all of a storage.
struct SavedTensor {
  std::string_view name;  ///< unique, UTF-8
  DType dtype = DType::kFloat32;
  Shape shape;
  /// Tensors of the same bytes may share one. Storages are numbered from 0, in the order in which
  /// tensors first name them.
  std::size_t storage = 0;
};

/// All of such a file but the storages' bytes.
class TorchSaveFrame {
 public:
  /// @throws Error kUnsupported with the parameter for a type that torch does not have, and for
  ///         names that are not UTF-8; kBadInput if the file would be too large.
  explicit TorchSaveFrame(std::span<const SavedTensor> tensors);

  /// The entries before the storages.
  const std::string& head() const noexcept { return head_; }
  std::size_t storage_count() const noexcept { return storages_.size(); }
  /// Where a storage's local header begins; behind the last one, the directory.
  std::uint64_t begin(std::size_t storage) const {
    return storage < storages_.size() ? storages_[storage].begin : directory_;
  }
  /// Where its bytes are, at a multiple of kTorchArchiveAlign.
  ByteRange content(std::size_t storage) const {
    return ByteRange::between(begin(storage + 1) - storages_[storage].bytes, begin(storage + 1));
  }
  std::uint64_t file_bytes() const noexcept { return file_bytes_; }

  /// From the directory on.
  /// @param checksums of the storages; empty: 0 for all.
  std::string tail(std::span<const std::uint32_t> checksums) const;

 private:
  struct Storage {
    std::uint64_t begin = 0;
    std::uint64_t bytes = 0;
  };

  std::string head_;
  std::vector<ZipEntry> head_entries_;
  std::vector<Storage> storages_;
  std::uint64_t directory_ = 0;
  std::uint64_t file_bytes_ = 0;
};

/// What stands before a storage's bytes.
/// @param begin as TorchSaveFrame::begin().
std::string torch_storage_header(std::size_t storage, std::uint64_t bytes, std::uint64_t begin,
                                 std::uint32_t checksum);

}  // namespace reshardfs
