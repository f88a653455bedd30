// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "checkpoint/whole/stated_words.h"

namespace reshardfs {

/// In what two sets differ of what they state beside their tensors. Keys, ascending.
struct WordsDiff {
  std::vector<std::string> only_in_a{};
  std::vector<std::string> only_in_b{};
  std::vector<std::string> different{};

  bool empty() const noexcept {
    return only_in_a.empty() && only_in_b.empty() && different.empty();
  }
};

/// A text of a header and the same text of an index are the same. The number of parameters that an
/// index states is compared where both state it: files without an index have no place for it.
WordsDiff diff_words(const StatedWords& a, const StatedWords& b);

}  // namespace reshardfs
