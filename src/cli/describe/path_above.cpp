// SPDX-License-Identifier: Apache-2.0
#include "cli/describe/path_above.h"

namespace reshardfs {

std::filesystem::path path_above(const std::filesystem::path& path) {
  std::filesystem::path plain = path.lexically_normal();
  if (!plain.has_filename()) plain = plain.parent_path();
  if (plain.empty() || plain == "." || plain.filename() == "..") return plain / "..";
  return plain.parent_path();
}

}  // namespace reshardfs
