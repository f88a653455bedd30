// SPDX-License-Identifier: Apache-2.0
#include "export/target.h"

#include "reshardfs/error.h"

namespace reshardfs {

void throw_in_the_way(const Target& target, const std::string& path, const std::string& what) {
  throw Error(ErrorKind::kUsage, what)
      .in_file(target.shown(path))
      .hint(std::string("choose another ") + target.words().another +
            ", or use --force to replace it");
}

}  // namespace reshardfs
