// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "reshardfs/error.h"

#include "storage/byte_source.h"
#include "support/sources.h"

namespace reshardfs::test {

/// A source in memory that notes how it is called: "many 0+4 8+2", "check", "foresee 3+5". What was
/// foreseen is "foreseen 0+4".
class RecordingSource final : public ByteSource {
 public:
  RecordingSource(std::string bytes, std::string name, std::int64_t mtime_ns = 0)
      : inner_(std::move(bytes), std::move(name)), mtime_ns_(mtime_ns) {}

  const std::string& name() const override { return inner_.name(); }
  std::uint64_t size() const override { return inner_.size(); }
  std::int64_t mtime_ns() const override { return mtime_ns_; }
  FileStamp stamp() const override { return {1, 2, mtime_ns_}; }
  void read_at(std::uint64_t offset, std::span<std::byte> out) const override {
    calls.push_back("read" + words(offset, out.size()));
    inner_.read_at(offset, out);
  }
  void read_many(std::span<const ReadRequest> parts) const override {
    const bool foreseen =
        std::any_of(parts.begin(), parts.end(), [](const auto& part) { return part.foreseen; });
    std::string call = foreseen ? "foreseen" : "many";
    for (const ReadRequest& part : parts) {
      call += words(part.offset, part.out.size());
      inner_.read_at(part.offset, part.out);
    }
    calls.push_back(call);
  }
  bool is_far() const noexcept override { return far; }
  bool is_remote() const noexcept override { return far; }
  void foresee(std::span<const ByteRange> ranges, Foresight when) const noexcept override {
    std::string call = when == Foresight::kNow     ? "now"
                       : when == Foresight::kApart ? "apart"
                                                   : "ahead";
    for (const ByteRange& range : ranges) call += words(range.offset(), range.length());
    calls.push_back(call);
  }
  bool gather(const StridedRanges& ranges, std::byte* out) const override {
    if (!gathers) return false;
    calls.push_back("gather" + words(ranges.span().offset(), ranges.span().length()));
    for (std::uint64_t i = 0; i < ranges.count(); ++i) {
      inner_.read_at(ranges.offset_of(i),
                     {out + ranges.out_offset_of(i), static_cast<std::size_t>(ranges.length())});
    }
    return true;
  }
  void check_unchanged() const override {
    calls.emplace_back("check");
    if (changed) throw Error(ErrorKind::kChanged, "has been changed").in_file(name());
  }

  bool far = false;
  bool gathers = false;
  bool changed = false;
  mutable std::vector<std::string> calls;

 private:
  static std::string words(std::uint64_t offset, std::uint64_t length) {
    return " " + std::to_string(offset) + "+" + std::to_string(length);
  }

  MemorySource inner_;
  std::int64_t mtime_ns_;
};

inline std::string read_text(const ByteSource& source, std::uint64_t offset, std::size_t length) {
  std::string out(length, '\0');
  source.read_at(offset, std::as_writable_bytes(std::span(out)));
  return out;
}

}  // namespace reshardfs::test
