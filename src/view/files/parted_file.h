// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/process/retry_once.h"
#include "plan/reading/foresight.h"
#include "plan/target/file_image.h"
#include "view/files/tensor_file.h"

namespace reshardfs {

/// A file of many parameters. It keeps where each begins, from its first read on; which bytes of
/// which sources a parameter is made of is found anew by each read that touches it, as that costs
/// about as much as one system call, and would take hundreds of bytes for each.
class PartedFile : public TensorFile {
 public:
  void read_at(std::uint64_t offset, std::span<std::byte> out) const override;
  std::vector<const ByteSource*> sources_of(std::uint64_t offset,
                                            std::uint64_t length) const override;
  /// Compared once.
  std::shared_ptr<const ByteSource> equal_source() const override;

 protected:
  /// A stretch of the file, up to where the next one begins.
  struct Stretch {
    std::uint64_t begin = 0;
    std::size_t number = kFrame;  ///< of what it holds, as the file counts
  };
  /// What belongs to no parameter.
  static constexpr std::size_t kFrame = SIZE_MAX;

  using TensorFile::TensorFile;

 private:
  /// All stretches, in order; none is empty.
  virtual std::vector<Stretch> stretches() const = 0;
  /// Appends the bytes of a stretch that is not of the frame.
  virtual void append_to(FileImage& image, std::size_t number) const = 0;
  /// Bytes of a stretch of the frame.
  /// @param offset in the stretch.
  virtual void read_frame(std::uint64_t offset, std::span<std::byte> out) const = 0;

  std::uint64_t end_of(const Stretch& stretch) const;
  /// Calls visit(stretch, offset in the stretch, length) for the stretches of a range.
  template <typename Visit>
  void for_each_stretch(const ByteRange& range, Visit&& visit) const;
  FileImage image_of(const Stretch& stretch) const;
  void read_stretches(std::uint64_t offset, std::span<std::byte> out, ReadBatch& batch) const;
  void for_each_use(const ByteRange& range, SourceSink& sink) const;

  ForeseenFile reads_;
  mutable RetryOnce listed_;  ///< guards stretches_; a failed try is made again
  mutable std::vector<Stretch> stretches_;
  mutable RetryOnce compared_;  ///< guards equal_source_
  mutable std::shared_ptr<const ByteSource> equal_source_;
};

}  // namespace reshardfs
