// SPDX-License-Identifier: Apache-2.0
/// How a strategy cuts its parameters, in the words of rules.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "reshardfs/layout.h"
#include "reshardfs/strategy.h"

#include "strategy/derive/derive_cuts.h"

namespace reshardfs {

/// A TOML string.
std::string toml_string(const std::string& text);

/// "[3, 9, 1, 7]".
std::string number_list(const std::vector<std::int64_t>& numbers);

/// "["a", "b"]": texts that are TOML values already.
std::string value_list(const std::vector<std::string>& values);

/// Lines of TOML, none of them empty, that a '#' makes comments of. None begins with "# ", as prose
/// does: taking away all other marks gives TOML again.
std::string commented_out(const std::string& toml);

/// One device matrix in which the layouts of all parameters can be written.
class CommonAxes {
 public:
  struct Axis {
    std::string name;
    std::int64_t stride = 1;  ///< device numbers from one device along the axis to the next
    std::int64_t size = 1;
  };

  /// The device matrix of the strategy if all its layouts have the same, else the coarsest one that
  /// has the axes of all cuts.
  /// @throws Error kUnsupported if there is none; names two parameters and their layouts.
  explicit CommonAxes(const Strategy& strategy);

  /// Major first.
  const std::vector<Axis>& axes() const noexcept { return axes_; }
  /// The names of the axes that a group of devices is, major first.
  std::vector<std::string> names_of(const DeviceGroup& group) const;

 private:
  bool is_cut(const Axis& axis, const Strategy& strategy) const;
  void name_axes(const Strategy& strategy);

  std::vector<Axis> axes_;
};

/// How a parameter is cut, as keys of a [[rule]]. Layouts that give every device the same have the
/// same texts, whatever their device matrices.
struct CutText {
  std::string keys;       ///< lines with `cut`, `uneven` and `field`; empty: nothing is cut
  std::string optimizer;  ///< the value of `optimizer`

  // NOLINTNEXTLINE(modernize-use-nullptr): what = default compares with is no pointer
  auto operator<=>(const CutText&) const = default;
};

/// @param axes of a strategy with this layout.
/// @throws Error kUnsupported if rules cannot say it.
CutText cut_text(const Layout& layout, const CommonAxes& axes);

}  // namespace reshardfs
