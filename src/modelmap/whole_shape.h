// SPDX-License-Identifier: Apache-2.0
/// What maps say of whole tensors for those who have only slices: how long they are by the model's
/// configuration, and along which dimension networks cut them.
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "modelmap/expression.h"

namespace reshardfs::modelmap {

/// "[cut heads*head_dim by heads, hidden]"
struct WholeShape {
  std::vector<Expression> lengths{};  ///< by dimension
  std::optional<std::size_t> cut{};   ///< the dimension that parallelism cuts
  std::optional<Expression> unit{};   ///< how many indivisible parts that dimension has

  /// @throws Error kBadInput that shows the text.
  static WholeShape parse(std::string_view text);
  /// Without its marks and brackets: "heads*head_dim, hidden".
  std::string formula() const;
};

/// By word that a capture of the name takes; under "" for all words.
using WholeShapes = std::map<std::string, WholeShape>;

}  // namespace reshardfs::modelmap
