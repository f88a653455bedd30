// SPDX-License-Identifier: Apache-2.0
#include "cli/shown_file.h"

#include <algorithm>
#include <filesystem>
#include <vector>

#include "reshardfs/error.h"

#include "base/text/near_name.h"

namespace reshardfs {

const OutputFile& shown_file(const Conversion& conversion, const std::string& path) {
  // "./rank_0//x" and "/rank_0/x" are the same.
  const std::string plain =
      std::filesystem::path("/" + path).lexically_normal().relative_path().string();
  const auto& files = conversion.files();
  const auto found = std::find_if(files.begin(), files.end(),
                                  [&](const OutputFile& file) { return file.path == plain; });
  if (found != files.end()) return *found;
  if (const std::string why = conversion.why_absent(plain); !why.empty()) {
    throw Error(ErrorKind::kMissing, "there is no file '" + printable(path) + "': " + why);
  }
  constexpr std::size_t kExamples = 4;
  std::string some;
  std::vector<std::string> paths;
  std::size_t listed = 0;
  for (const OutputFile& file : files) {
    paths.push_back(file.path);
    if (file.hidden) continue;
    if (listed++ < kExamples) some += (some.empty() ? "" : ", ") + printable(file.path);
  }
  throw Error(ErrorKind::kMissing, "the conversion has no file '" + printable(path) + "'")
      .hint(did_you_mean(plain, paths))
      .hint("there are " + std::to_string(listed) + ": " + some +
            (listed > kExamples ? ", ..." : ""));
}

}  // namespace reshardfs
