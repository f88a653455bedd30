// SPDX-License-Identifier: Apache-2.0
#include <string>

#include "base/text/file_name.h"
#include "fuzz/fuzzing.h"

using namespace reshardfs;
using fuzz::require;

namespace {

/// Every component can be an entry of a directory.
void check_path(const std::string& path) {
  std::size_t begin = 0;
  while (true) {
    const std::size_t end = path.find('/', begin);
    const std::string component = path.substr(begin, end - begin);
    require(!component.empty() && component != "." && component != "..", "a bad component");
    // What the caller appends must fit into NAME_MAX too.
    require(component.size() + kParameterFileExtension.size() <= 255, "a component is too long");
    for (const char c : component) {
      require(static_cast<unsigned char>(c) >= 0x20 && c != 0x7f, "a control character");
    }
    if (end == std::string::npos) return;
    require(!component.ends_with(kParameterFileExtension), "a directory that looks like a file");
    begin = end + 1;
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string input(reinterpret_cast<const char*>(data), size);
  if (!input.empty()) {
    const std::string path = to_file_path(input);
    check_path(path);
    require(from_file_path(path) == input, "a name is not that of its path");
  }
  if (const auto name = from_file_path(input)) {
    require(to_file_path(*name) == input, "two paths of one name");
  }
  return 0;
}
