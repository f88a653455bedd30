// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace reshardfs {

/// The metrics of several mounts as one text in Prometheus' format, where each family stands once.
class MetricsUnion {
 public:
  /// Begins a family of the union's own. @param name without the prefix, none of a mount's.
  void begin(std::string_view name, std::string_view help);
  /// A sample of it. @param labels beside `mount`: empty, or `,name="value"`.
  void own_sample(std::string_view mount, std::string_view labels, bool value);

  /// Adds what a mount says of itself. Its samples get the label `mount` with this value, whatever
  /// they had: in its own mount namespace it may have another path.
  /// @param text may be anything. Families of which another mount states another type are left out.
  /// @return false, and adds nothing, if it is not in the format in which MetricsText writes.
  bool add(std::string_view mount, std::string_view text);

  std::string text() const;

 private:
  struct Family {
    std::string type;
    std::string help;
    std::string samples;
  };
  /// By their order in the text.
  std::vector<std::string> order_;
  std::map<std::string, Family, std::less<>> families_;
};

}  // namespace reshardfs
