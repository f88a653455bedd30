// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "reshardfs/virtual_file.h"

#include "base/retry_once.h"
#include "plan/file_image.h"
#include "plan/target_table.h"

namespace reshardfs {

/// A file made of parameters of one destination rank. Its size is computed when it is made, from
/// shapes alone; the list of its pieces when it is first read.
class TensorFile : public VirtualFile {
 public:
  std::uint64_t size() const override { return size_; }
  void read_at(std::uint64_t offset, std::span<std::byte> out) const override;

  /// "source" (JSON: what is read from which source files), "step" if the source has one, and, not
  /// listed, "sha256", for which the whole file is read once.
  std::vector<std::string> attribute_names() const override;
  std::optional<std::string> attribute(std::string_view name) const override;

 protected:
  TensorFile(std::shared_ptr<const TargetTable> target, std::int64_t rank);

  /// To be called by the constructor of each file.
  /// @param image bytes of the image that build() makes.
  /// @param behind bytes behind it, for which the file's own read_at() answers.
  /// @throws Error kBadInput if that is more than a file can have.
  void set_size(std::uint64_t image, std::uint64_t behind = 0);

  const TargetTable& target() const noexcept { return *target_; }
  std::int64_t rank() const noexcept { return rank_; }
  /// The pieces of the file. @throws Error kInternal if they are not as long as set_size() said.
  const FileImage& image() const;

 private:
  virtual std::unique_ptr<FileImage> build() const = 0;
  /// What the file holds.
  virtual std::vector<const TargetParameter*> parameters() const = 0;

  std::shared_ptr<const TargetTable> target_;
  std::int64_t rank_;
  std::uint64_t image_bytes_ = 0;
  std::uint64_t size_ = 0;
  mutable RetryOnce once_;  // guards the making of image_; a failed try is made again
  mutable std::unique_ptr<const FileImage> image_;
  mutable RetryOnce hashed_;
  mutable std::string sha256_;
};

}  // namespace reshardfs
