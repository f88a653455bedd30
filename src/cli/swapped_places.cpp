// SPDX-License-Identifier: Apache-2.0
#include "cli/swapped_places.h"

#include <filesystem>
#include <string>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "reshardfs/error.h"

#include "checkpoint/recognition.h"
#include "cli/advice/command_text.h"
#include "cli/advice/opened_source.h"

namespace reshardfs {

void refuse_swapped_places(const Given& given) {
  const std::string source = given.argument("SOURCE");
  const std::string mountpoint = given.argument("MOUNTPOINT");
  std::error_code failed;
  const bool is_empty = std::filesystem::is_directory(source, failed) && !failed &&
                        std::filesystem::is_empty(source, failed) && !failed;
  if (!is_empty || !is_checkpoint(mountpoint)) return;
  Given corrected = given;
  std::swap(corrected.arguments[0], corrected.arguments[1]);
  throw Error(ErrorKind::kUsage,
              fmt::format("SOURCE and MOUNTPOINT look swapped: {} is empty and {} is a checkpoint",
                          printable(source), printable(mountpoint)))
      .hint("run: " + command_text(with_known_layout(std::move(corrected), 0, "src-strategy")));
}

}  // namespace reshardfs
