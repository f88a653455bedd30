// SPDX-License-Identifier: Apache-2.0
#include <string>

#include "fuzz/fuzzing.h"
#include "transport/aws_credentials.h"

using namespace reshardfs;

/// What has been read is written and read again.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const IniSections sections = parse_ini({reinterpret_cast<const char*>(data), size});
  std::string text;
  for (const auto& [name, section] : sections) {
    text += name.empty() ? "[]\n" : "[profile " + name + "]\n";
    for (const auto& [key, value] : section) text.append(key + "=" + value + "\n");
  }
  fuzz::require(parse_ini(text) == sections, "other sections");
  return 0;
}
