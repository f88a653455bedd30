// SPDX-License-Identifier: Apache-2.0
#include "cli/swapped_places.h"

#include <filesystem>
#include <system_error>

#include <fmt/format.h>

#include "reshardfs/error.h"

#include "checkpoint/recognition.h"

namespace reshardfs {

void refuse_swapped_places(const std::string& source, const std::string& mountpoint) {
  std::error_code failed;
  const bool is_empty = std::filesystem::is_directory(source, failed) && !failed &&
                        std::filesystem::is_empty(source, failed) && !failed;
  if (!is_empty || !is_checkpoint(mountpoint)) return;
  const std::string empty = printable(source);
  const std::string checkpoint = printable(mountpoint);
  throw Error(ErrorKind::kUsage,
              fmt::format("SOURCE and MOUNTPOINT look swapped: {} is empty and {} is a checkpoint",
                          empty, checkpoint))
      .hint(fmt::format("try reshardfs mount {} {}", checkpoint, empty));
}

}  // namespace reshardfs
