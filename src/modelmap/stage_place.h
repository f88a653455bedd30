// SPDX-License-Identifier: Apache-2.0
/// What maps say of pipeline stages: where the tensors of a rule, an alias or a block are.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace reshardfs::modelmap {

class Pattern;

enum class StagePlace : std::uint8_t {
  kUnstated,  ///< the map says nothing: others may
  kFirst,
  kLast,
  kEvery,
  kLayer,    ///< in that of its layer
  kUnknown,  ///< the map says that networks differ
};

struct StageStatement {
  StagePlace place = StagePlace::kUnstated;
  std::string capture{};  ///< kLayer: the number of the layer

  /// "first", "last", "every", "unknown" or "{capture}".
  /// @throws Error kBadInput that shows the text.
  static StageStatement parse(const std::string& text);
  /// @throws Error kBadInput unless the capture is the first of the pattern, and a number: outside
  ///         of a block's pattern, the number in the name.
  void check_for(const Pattern& pattern, bool is_block) const;
};

/// By side.
struct StageStatements {
  StageStatement from{};
  StageStatement to{};

  bool is_stated() const noexcept {
    return from.place != StagePlace::kUnstated || to.place != StagePlace::kUnstated;
  }
  const StageStatement& of(bool is_from) const noexcept { return is_from ? from : to; }
};

}  // namespace reshardfs::modelmap
