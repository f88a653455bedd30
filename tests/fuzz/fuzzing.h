// SPDX-License-Identifier: Apache-2.0
/// What fuzz targets share.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "reshardfs/error.h"

#include "format/file_index.h"

namespace reshardfs::fuzz {

/// Ends the program: the fuzzer keeps the input.
[[noreturn]] inline void fail(const std::string& what) {
  std::fprintf(stderr, "WRONG: %s\n", what.c_str());
  std::abort();
}

inline void require(bool condition, const char* what) {
  if (!condition) fail(what);
}

/// Runs `action`, which may throw an Error, with a message, and nothing else.
/// @return what it said, nothing if it came to its end.
template <typename Action>
std::optional<std::string> refusal(Action&& action) {
  try {
    action();
    return std::nullopt;
  } catch (const Error& error) {
    require(error.kind() != ErrorKind::kInternal, error.what());
    require(!error.message().empty(), "an error without a message");
    return error.what();
  }
}

/// @return whether it came to its end.
template <typename Action>
bool may_refuse(Action&& action) {
  return !refusal(std::forward<Action>(action));
}

/// The input as a stream of small numbers; zeros when it has ended.
class Numbers {
 public:
  Numbers(const std::uint8_t* data, std::size_t size) : data_(data), left_(size) {}

  bool ended() const noexcept { return left_ == 0; }
  std::uint8_t byte() noexcept {
    if (left_ == 0) return 0;
    --left_;
    return *data_++;
  }
  /// In [low, high].
  std::int64_t pick(std::int64_t low, std::int64_t high) noexcept {
    const auto count = static_cast<std::uint64_t>(high - low) + 1;
    std::uint64_t value = byte();
    for (std::uint64_t reach = 256; reach < count; reach <<= 8U) value = value << 8U | byte();
    return low + static_cast<std::int64_t>(value % count);
  }
  bool one_in(std::int64_t count) noexcept { return pick(0, count - 1) == 0; }

 private:
  const std::uint8_t* data_;
  std::size_t left_;
};

/// What every index promises: extents inside the file, none over another, as long as the contents.
inline void check_index(const FileIndex& index, std::uint64_t file_bytes) {
  std::vector<std::pair<std::uint64_t, std::uint64_t>> extents;
  for (const TensorEntry& entry : index.entries()) {
    std::uint64_t stored = 0;
    for (const ByteRange& extent : entry.extents) {
      require(extent.length() <= file_bytes && extent.offset() <= file_bytes - extent.length(),
              "an extent leaves the file");
      if (extent.length() > 0) extents.emplace_back(extent.offset(), extent.length());
      stored += extent.length();
    }
    const std::uint64_t factor = entry.encoding == ContentEncoding::kFloat32AsBFloat16 ? 2 : 1;
    require(stored == entry.content_bytes * factor, "extents of another length than the content");
    require(index.find(entry.name) == &entry, "a name is not found, or found elsewhere");
  }
  std::sort(extents.begin(), extents.end());
  for (std::size_t i = 1; i < extents.size(); ++i) {
    require(extents[i - 1].first + extents[i - 1].second <= extents[i].first, "extents overlap");
  }
}

}  // namespace reshardfs::fuzz
