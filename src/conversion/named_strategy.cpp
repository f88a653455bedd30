// SPDX-License-Identifier: Apache-2.0
#include "conversion/named_strategy.h"

#include "reshardfs/error.h"

#include "checkpoint/recognition.h"
#include "strategy/files/strategy_file.h"

namespace reshardfs {

Strategy load_named_strategy(const std::filesystem::path& path, const SourceTreePtr& tree) {
  try {
    return load_strategy(path, tree);
  } catch (const Error& error) {
    const bool is_content =
        error.kind() == ErrorKind::kBadInput || error.kind() == ErrorKind::kMissing;
    if (!is_content || !is_checkpoint(path)) throw;
    throw Error(ErrorKind::kUsage, "is a checkpoint, not a strategy")
        .in_file(path.string())
        .needs(Need::kSourceStrategy)
        .hint("name the strategy file that the training job wrote (strategy_ckpt_config)");
  }
}

}  // namespace reshardfs
