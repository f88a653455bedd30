// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "export/folder_target.h"
#include "support/temp_dir.h"

namespace reshardfs::test {

/// A directory as shares of an export see it, each of which is alone with its manifest.
inline FolderTarget target_of(const TempDir& directory) {
  return {directory.path(), "s3://elsewhere/source", LockMode::kShared};
}

}  // namespace reshardfs::test
