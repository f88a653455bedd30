// SPDX-License-Identifier: Apache-2.0
#include "vfs/valid_name.h"

#include <algorithm>
#include <string>

#include "reshardfs/error.h"

namespace reshardfs {
namespace {

constexpr std::size_t kNameBytes = 255;

[[noreturn]] void refuse(std::string_view name, const std::string& reason) {
  throw Error(ErrorKind::kBadInput,
              "'" + printable(std::string(name)) + "' cannot be a file name: " + reason);
}

bool is_control(char c) {
  const auto byte = static_cast<unsigned char>(c);
  return byte < 0x20 || byte == 0x7f;
}

}  // namespace

void check_name(std::string_view name) {
  if (name.empty()) refuse(name, "it is empty");
  if (name == "." || name == "..") refuse(name, "it has a meaning of its own");
  if (name.size() > kNameBytes) {
    refuse(name, "it has " + std::to_string(name.size()) + " bytes, more than 255");
  }
  if (name.find('/') != std::string_view::npos) refuse(name, "it holds a '/'");
  if (std::any_of(name.begin(), name.end(), is_control))
    refuse(name, "it holds a control character");
}

}  // namespace reshardfs
