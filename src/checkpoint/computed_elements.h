// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include "checkpoint/appended_source.h"

namespace reshardfs {

/// Elements that are computed one by one or many at once, but none in part.
class ComputedElements : public ComputedContent {
 public:
  /// @param width of an element in bytes, at most 8.
  explicit ComputedElements(std::size_t width) : width_(width) {}

  void read(const ReadRequest& part) const final;

 protected:
  std::size_t width() const noexcept { return width_; }

 private:
  /// Elements [first, first + count), at least one. See read().
  virtual void make(std::uint64_t first, std::uint64_t count, bool foreseen,
                    std::byte* out) const = 0;
  /// After the last of them.
  virtual void check_unchanged() const {}

  std::size_t width_;
};

}  // namespace reshardfs
