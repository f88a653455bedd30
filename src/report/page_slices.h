// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "plan/target/target_table.h"
#include "report/bounded_writer.h"

namespace reshardfs {

/// The drawings of a parameter's slices in a page: one of the source, and one of both sides. Equal
/// drawings are stored once, and their total size is bounded: beyond it there are no more.
class PageSlices {
 public:
  /// @param target, ranks must outlive it.
  /// @param examples numbers of parameters in the target.
  PageSlices(const TargetTable& target, const std::vector<Rank>& ranks,
             const std::vector<std::size_t>& examples);

  /// For each example its number, or -1.
  const std::vector<std::int64_t>& numbers() const noexcept { return numbers_; }
  /// Writes the picture of both sides where the page shows it anyway.
  /// @param example one of those above.
  void write_card(std::size_t example, BoundedWriter& out);
  /// Writes elements that the page does not show: <template id="source-N">, and of what is on no
  /// card <template id="target-N">.
  void write_rest(BoundedWriter& out) const;

 private:
  struct Slices {
    std::string source{};
    std::string target{};
    bool is_on_card = false;
  };

  const TargetTable& target_;
  const std::vector<Rank>& ranks_;
  std::vector<std::size_t> examples_;
  std::vector<std::int64_t> numbers_{};
  std::vector<Slices> slices_{};
};

}  // namespace reshardfs
