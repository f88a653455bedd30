// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "base/process/retry_once.h"
#include "plan/reading/foresight.h"
#include "plan/target/file_image.h"
#include "view/files/tensor_file.h"

namespace reshardfs {

/// A file of many parameters. From its first read on it keeps the offset of each parameter. Which
/// bytes of which sources a parameter consists of is computed by each read anew: this takes about
/// as long as one system call, and keeping it would take hundreds of bytes for each parameter.
class PartedFile : public TensorFile {
 public:
  void read_at(std::uint64_t offset, std::span<std::byte> out) const override;
  /// Compared once.
  std::shared_ptr<const ByteSource> equal_source() const override;
  std::vector<StoredRange> stored_ranges(std::uint64_t offset, std::uint64_t length,
                                         std::uint64_t least) const override;

  /// Programs mostly read `next` after this file: its beginning is fetched when all of this one has
  /// been. Call this before the files are read.
  void be_followed_by(std::weak_ptr<const PartedFile> next) noexcept { next_ = std::move(next); }

 protected:
  /// A part of the file, up to the beginning of the next one.
  struct Stretch {
    std::uint64_t begin = 0;
    std::size_t number = kFrame;  ///< the derived class's index of the contents
  };
  /// Stretch::number of a stretch that belongs to no parameter, such as a header.
  static constexpr std::size_t kFrame = SIZE_MAX;

  using TensorFile::TensorFile;

 private:
  /// All stretches, in order; none is empty.
  virtual std::vector<Stretch> stretches() const = 0;
  /// Appends the bytes of a stretch whose number is not kFrame.
  virtual void append_to(FileImage& image, std::size_t number) const = 0;
  /// Reads bytes of a stretch whose number is kFrame.
  /// @param offset in the file.
  virtual void read_frame(std::uint64_t offset, std::span<std::byte> out) const = 0;

  std::uint64_t end_of(const Stretch& stretch) const;
  /// Calls visit(stretch, offset in the stretch, length) for the stretches of a range.
  template <typename Visit>
  void for_each_stretch(const ByteRange& range, Visit&& visit) const;
  FileImage image_of(const Stretch& stretch) const;
  void read_stretches(std::uint64_t offset, std::span<std::byte> out, ReadBatch& batch) const;
  void for_each_use(const ByteRange& range, SourceSink& sink) const;
  void foresee_next() const noexcept;

  ForeseenFile reads_;
  std::weak_ptr<const PartedFile> next_;
  mutable RetryOnce listed_;  ///< guards stretches_; a failed try is made again
  mutable std::vector<Stretch> stretches_;
  mutable RetryOnce compared_;  ///< guards equal_source_
  mutable std::shared_ptr<const ByteSource> equal_source_;
};

}  // namespace reshardfs
