// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/one_save.h"

#include "reshardfs/error.h"

#include "base/text/text.h"

namespace reshardfs {

void OneSave::add(const std::string& file, const SaveFacts& facts) {
  for (const auto& [key, value] : facts) {
    const auto [known, is_new] = known_.try_emplace(key, Stated{value, file});
    if (is_new || known->second.value == value) continue;
    throw Error(ErrorKind::kBadInput, "'" + printable(known->second.file) + "' and '" +
                                          printable(file) +
                                          "' are not of one save: " + printable(key) + " is " +
                                          printable(known->second.value) + " in the first, and " +
                                          printable(value) + " in the second")
        .hint("bring all files of the step, from one save");
  }
}

}  // namespace reshardfs
