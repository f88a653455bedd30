// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "format/torch/torch_save_writer.h"
#include "view/files/parted_file.h"

namespace reshardfs {

/// Parameters of one destination rank as torch.save writes them: a dictionary of tensors.
class TorchSaveFile final : public PartedFile {
 public:
  /// @param parameters arrays that the rank has, in any order.
  /// @param checksums whether the entries with tensors have their CRC-32, which needs all their
  ///        bytes: the first read of an entry's header reads the entry, and the first read of the
  ///        directory at the end reads all that are left. PyTorch does not look at them.
  /// @throws Error kUnsupported for types that torch does not have and for names that are not
  ///         UTF-8; kBadInput if the file would be too large.
  TorchSaveFile(std::shared_ptr<const TargetTable> table, Rank own_rank,
                std::vector<const TargetParameter*> parameters, bool checksums);
  ~TorchSaveFile() override;

  /// nullptr if there are checksums, because computing them requires reading the file.
  std::shared_ptr<const ByteSource> equal_source() const override;

 private:
  std::vector<Stretch> stretches() const override;
  void append_to(FileImage& image, std::size_t number) const override;
  void read_frame(std::uint64_t offset, std::span<std::byte> out) const override;
  std::vector<const TargetParameter*> parameters() const override { return parameters_; }

  TorchSaveFrame frame() const;
  std::string tail() const;
  /// What stands before a storage's bytes.
  std::string header_of(std::size_t storage) const;
  /// 0 if there are to be none.
  std::uint32_t checksum_of(std::size_t storage) const;

  std::vector<const TargetParameter*> parameters_;
  std::vector<std::size_t> storages_;  ///< of each parameter
  bool checksums_;
  // Set by stretches().
  mutable std::vector<std::uint64_t> begins_;  ///< of each storage's header, and of the directory
  mutable std::vector<ByteRange> contents_;    ///< of each storage
  mutable std::mutex known_mutex_;
  mutable std::vector<std::optional<std::uint32_t>> known_;  ///< guarded by known_mutex_
};

}  // namespace reshardfs
