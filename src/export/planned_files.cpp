// SPDX-License-Identifier: Apache-2.0
#include "export/planned_files.h"

#include "reshardfs/error.h"

#include "base/text/text.h"
#include "export/folder.h"

namespace reshardfs {

std::vector<const OutputFile*> exported_files(const Conversion& conversion) {
  std::vector<const OutputFile*> files;
  for (const OutputFile& output : conversion.files()) {
    if (!output.hidden && output.file->snapshot() == nullptr) files.push_back(&output);
  }
  return files;
}

std::string top_of(const std::string& path) {
  return path.substr(0, path.find('/'));
}

PlannedFiles::PlannedFiles(const Conversion& conversion, const std::optional<Share>& wanted)
    : files(exported_files(conversion)) {
  for (const OutputFile* file : files) {
    // A view's paths come from names in files.
    if (!is_plain_path(file->path)) {
      throw Error(ErrorKind::kInternal, "a view has a file '" + printable(file->path) + "'");
    }
    tops.insert(top_of(file->path));
  }
  if (!wanted) return;
  share = plan_share(files, *wanted);
  files = files_of_share(files, *wanted);
}

}  // namespace reshardfs
