// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <iterator>
#include <string>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "reshardfs/conversion_options.h"

namespace reshardfs {

/// Text on its way to a sink, some of it gathered: however long it gets, little is in memory.
class BoundedWriter {
 public:
  explicit BoundedWriter(const TextSink& sink) : sink_(sink) {}

  void write(std::string_view text) {
    if (text.size() >= kGathered) {
      flush();
      sink_(text);
      return;
    }
    buffer_ += text;
    if (buffer_.size() >= kGathered) flush();
  }
  template <typename... Values>
  void print(fmt::format_string<Values...> format, Values&&... values) {
    fmt::format_to(std::back_inserter(buffer_), format, std::forward<Values>(values)...);
    if (buffer_.size() >= kGathered) flush();
  }
  /// To be called at the end: a sink may throw, which a destructor may not.
  void flush() {
    if (!buffer_.empty()) sink_(buffer_);
    buffer_.clear();
  }

 private:
  static constexpr std::size_t kGathered = 16384;

  const TextSink& sink_;
  std::string buffer_;
};

}  // namespace reshardfs
