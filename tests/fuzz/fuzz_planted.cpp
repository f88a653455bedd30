// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <string_view>

#include "fuzz/fuzzing.h"

/// A planted bug: what the fuzzers and the replay must find, or they find nothing at all.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  constexpr std::string_view kMagic = "bug!";
  const bool found = size >= kMagic.size() && std::equal(kMagic.begin(), kMagic.end(), data);
  reshardfs::fuzz::require(!found, "the planted bug");
  return 0;
}
