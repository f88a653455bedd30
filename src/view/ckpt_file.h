// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <memory>
#include <mutex>

#include "reshardfs/virtual_file.h"

#include "plan/file_image.h"
#include "plan/target_table.h"

namespace reshardfs {

/// One destination rank as a .ckpt file. The size is computed at once, from shapes alone; the list
/// of records is made when the file is first read.
class CkptFile : public VirtualFile {
 public:
  /// @throws Error kBadInput if the file would exceed 2^63-1 bytes.
  CkptFile(std::shared_ptr<const TargetTable> target, std::int64_t rank);

  std::uint64_t size() const override { return size_; }
  void read_at(std::uint64_t offset, std::span<std::byte> out) const override;

 private:
  std::uint64_t compute_size() const;
  std::unique_ptr<const FileImage> build() const;
  const FileImage& image() const;

  std::shared_ptr<const TargetTable> target_;
  std::int64_t rank_;
  std::uint64_t size_;
  mutable std::once_flag once_;  // guards the making of image_; a failed try is made again
  mutable std::unique_ptr<const FileImage> image_;
};

}  // namespace reshardfs
