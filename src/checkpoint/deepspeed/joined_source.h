// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "storage/byte_source.h"

namespace reshardfs {

/// A part of a sequence of bytes that lies in one file without a gap.
struct JoinedPart {
  std::size_t file = 0;
  std::uint64_t offset = 0;  ///< in the file
  std::uint64_t length = 0;
};

/// Where the bytes of a sequence are.
class JoinedPlaces {
 public:
  JoinedPlaces() = default;
  JoinedPlaces(const JoinedPlaces&) = delete;
  JoinedPlaces& operator=(const JoinedPlaces&) = delete;
  virtual ~JoinedPlaces() = default;

  virtual std::uint64_t size() const noexcept = 0;
  /// The part that begins at an offset below size(), up to where the next one begins.
  virtual JoinedPart part_at(std::uint64_t offset) const = 0;
};

/// One sequence of bytes, of which each part is in one of several files. Errors name the file.
class JoinedSource final : public ByteSource {
 public:
  /// @param name in messages about the whole.
  /// @param files not empty; the parts refer to them by their numbers.
  JoinedSource(std::string name, std::vector<ByteSourcePtr> files,
               std::shared_ptr<const JoinedPlaces> places);

  const std::vector<ByteSourcePtr>& files() const noexcept { return files_; }
  /// Calls visit(file, bytes) for the files that have a range, in the order of their bytes.
  void for_each_file(
      const ByteRange& range,
      const std::function<void(const ByteSource& file, std::uint64_t bytes)>& visit) const;
  const std::string& name() const override { return name_; }
  std::uint64_t size() const override { return places_->size(); }
  std::int64_t mtime_ns() const override { return mtime_ns_; }
  /// Compares each file that it has read with what it was when it was opened.
  void read_at(std::uint64_t offset, std::span<std::byte> out) const override;
  void read_many(std::span<const ReadRequest> parts) const override;
  bool is_far() const noexcept override { return files_.front()->is_far(); }
  bool is_remote() const noexcept override { return files_.front()->is_remote(); }
  void foresee(std::span<const ByteRange> ranges, Foresight when) const noexcept override;
  bool gather(const StridedRanges& ranges, std::byte* out) const override;
  /// Nothing is left to compare: see read_at().
  void check_unchanged() const override {}

 private:
  /// Calls visit(part, offset of the part within the range).
  template <typename Visit>
  void for_each_part(std::uint64_t offset, std::uint64_t length, Visit&& visit) const;

  std::string name_;
  std::vector<ByteSourcePtr> files_;
  std::shared_ptr<const JoinedPlaces> places_;
  std::int64_t mtime_ns_ = 0;
};

}  // namespace reshardfs
