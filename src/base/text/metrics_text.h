// SPDX-License-Identifier: Apache-2.0
/// Metrics in Prometheus' text format:
/// https://prometheus.io/docs/instrumenting/exposition_formats/
#pragma once

#include <chrono>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <utility>

namespace reshardfs {

/// What all names begin with.
inline constexpr std::string_view kMetricPrefix = "reshardfs_";

/// A label's value as it stands between quotes. A byte that is no UTF-8, and each
/// of a control character, becomes a text such as "\xff".
std::string metric_label_value(std::string_view text);

class MetricsText {
 public:
  struct Label {
    std::string_view name;
    std::string_view value;  ///< any bytes
  };

  /// @param mount the value of the label `mount`, which every sample has first.
  explicit MetricsText(std::string_view mount);

  /// Begins a family. @param name without the prefix. @param help one line without backslashes.
  void family(std::string_view name, std::string_view type, std::string_view help);
  void sample(std::uint64_t value, std::initializer_list<Label> labels = {});
  /// In seconds.
  void seconds_sample(std::chrono::nanoseconds value);
  /// @param bounds upper ones of the classes, ascending. @param counts of each class, not summed,
  ///        and of what exceeds the last bound. @param total of all that was counted.
  void histogram(std::span<const std::chrono::microseconds> bounds,
                 std::span<const std::uint64_t> counts, std::chrono::nanoseconds total,
                 std::initializer_list<Label> labels = {});

  std::string take() && { return std::move(text_); }

 private:
  void line(std::string_view suffix, std::string_view labels, std::string_view value);

  const std::string mount_label_;
  std::string name_;
  std::string text_;
};

}  // namespace reshardfs
