// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/deepspeed/zero_stage0.h"

#include "base/text/text.h"
#include "checkpoint/torch/archive_folder.h"
#include "checkpoint/torch/torch_ranks.h"

namespace reshardfs {
namespace {

constexpr const char* kModule = "module";

bool is_whole(const TorchArchive& archive) {
  const PickleTree& tree = archive.tree();
  const PickleValue root = tree.root();
  const auto ranks = tree.integer(tree.find(root, "mp_world_size"));
  return tree.find(root, "param_shapes").is(PickleKind::kNone) &&
         tree.find(root, kModule).is(PickleKind::kDict) && (!ranks || *ranks == 1);
}

}  // namespace

std::optional<Discovery> read_without_zero(const std::filesystem::path& directory,
                                           const std::string& name, const SourceTreePtr& tree) {
  if (!read_archive(*open_file(directory / name, tree), is_whole)) return std::nullopt;
  CheckpointOptions options;
  options.state_key = kModule;
  TorchRanks ranks(directory, options, tree);
  ranks.open({{0, name}}, DTensors::kRefused);
  Discovery out = ranks.discovery();
  out.completeness.grounds.push_back("the only file of a run without ZeRO");
  out.notes.push_back("the optimizer's states in " + printable(name) +
                      " have no parameters' names, and are not read");
  return out;
}

}  // namespace reshardfs
