// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "reshardfs/layout.h"

#include "strategy/rules_axes.h"

namespace reshardfs {

/// How a parameter is cut, as keys of a [[rule]]. Layouts that give every device the same have the
/// same texts, whatever their device matrices.
struct CutText {
  std::string keys;       ///< lines with `cut`, `uneven` and `field`; empty: nothing is cut
  std::string optimizer;  ///< the value of `optimizer`

  auto operator<=>(const CutText&) const = default;
};

/// @param axes of a strategy with this layout.
/// @throws Error kUnsupported if rules cannot say it.
CutText cut_text(const Layout& layout, const CommonAxes& axes);

}  // namespace reshardfs
