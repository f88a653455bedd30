// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "reshardfs/error.h"

#include "support/checkpoint.h"
#include "support/errors.h"
#include "support/wire.h"
#include "view/view.h"

namespace reshardfs {
namespace {

using test::small_record;
using testing::ElementsAre;

/// The names in the index of hf/; none: there is no hf/.
std::vector<std::string> shown(const std::vector<std::string>& names,
                               const std::vector<std::string>& state_prefixes = {}) {
  std::string records;
  for (const std::string& name : names) records += small_record(name);
  const auto source =
      std::make_shared<const SourceTable>(test::memory_set({{0, records}}), std::nullopt);
  const auto whole = std::make_shared<const TargetTable>(source, std::nullopt, TargetOptions{});
  ConversionOptions options;
  options.views = {ViewKind::kHuggingFace};
  const std::vector<OutputFormat> formats;
  const std::vector<Rank> ranks{Rank()};
  std::vector<std::string> warnings;
  ShownModel model;
  model.state_prefixes = state_prefixes;
  std::vector<DeferredView> deferred;
  std::vector<AbsentFiles> absent;
  std::vector<std::string> out;
  for (const OutputFile& file : hugging_face_view({options,
                                                   formats,
                                                   ranks,
                                                   whole,
                                                   whole,
                                                   warnings,
                                                   {},
                                                   model,
                                                   {},
                                                   {},
                                                   deferred,
                                                   absent,
                                                   {}})) {
    if (file.path != "hf/model.safetensors.index.json") continue;
    std::string text(file.file->size(), '\0');
    file.file->read_at(0, std::as_writable_bytes(std::span(text)));
    const auto index = nlohmann::json::parse(text);
    for (const auto& [name, shard] : index.at("weight_map").items()) out.push_back(name);
  }
  return out;
}

TEST(HuggingFaceView, HasNoStatesOfTraining) {
  EXPECT_THAT(shown({"model.norm.weight", "optim.state.model.norm.weight.exp_avg",
                     "optim.param_groups.model.norm.weight.lr", "lr_scheduler.last_epoch",
                     "optimizer.state.exp_avg.decoder.norm.weight", "adam_m.model.norm.weight",
                     "global_step", "model.state.weight"}),
              ElementsAre("model.norm.weight", "model.state.weight"));
  EXPECT_THAT(shown({"w", "muon.w"}), ElementsAre("muon.w", "w"));
  EXPECT_THAT(shown({"w", "muon.w"}, {"muon."}), ElementsAre("w"));
}

TEST(HuggingFaceView, IsNotThereWithoutWeights) {
  test::expect_error(ErrorKind::kMissing, {"no tensor that is shown is a weight", "--views hub"},
                     [] {
                       shown({"adam_m.w", "step"});
                     });
}

}  // namespace
}  // namespace reshardfs
