// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/megatron/hybrid_layers.h"

#include <utility>

#include "reshardfs/error.h"

#include "base/text/text.h"

namespace reshardfs {
namespace {

constexpr const char* kFirstStage = "decoder_first_pipeline_num_layers";
constexpr const char* kLastStage = "decoder_last_pipeline_num_layers";

[[noreturn]] void refuse(const std::string& text, const std::string& what) {
  throw Error(ErrorKind::kBadInput,
              "states the hybrid layer pattern '" + printable(text) + "' in its arguments, " + what)
      .hint("bring the files of all ranks from one save");
}

}  // namespace

std::optional<std::string> layer_pattern_text(const MegatronArgs& args) {
  for (const char* name : {modelmap::kLayerPattern, modelmap::kOldLayerPattern}) {
    const auto text = args.text(name);
    if (text && !text->empty()) return std::string(*text);
  }
  return std::nullopt;
}

std::string pattern_contradiction(const MegatronArgs& args, const std::string& text,
                                  const std::vector<modelmap::LayerTensor>& names) {
  modelmap::LayerPattern pattern;
  try {
    pattern = modelmap::LayerPattern::parse(text);
  } catch (const Error& error) {
    return error.message();
  }
  const std::string subject = "the hybrid layer pattern '" + printable(text) + "' ";
  const std::string& layers = pattern.decoder();
  const auto stated = args.number("num_layers");
  if (stated && *stated != static_cast<std::int64_t>(layers.size())) {
    return subject + "has " + counted(layers.size(), "layer") +
           ", but the arguments state num_layers " + std::to_string(*stated);
  }
  const auto named = modelmap::layers_of_names(names);
  if (!named) return {};
  if (!named->is_hybrid) return subject + "is stated, but the names are those of a GPT model";
  if (named->decoder.size() < layers.size()) {
    return subject + "has " + counted(layers.size(), "layer") +
           ", but the names of the tensors have " + std::to_string(named->decoder.size());
  }
  const std::string why = disagreement(pattern, *named);
  return why.empty() ? why : subject + why;
}

std::vector<std::int64_t> layers_of_chunks(const MegatronArgs& args, const std::string& text,
                                           std::size_t chunks) {
  const modelmap::LayerPattern pattern = modelmap::LayerPattern::parse(text);
  const auto all = static_cast<std::int64_t>(pattern.decoder().size());
  const auto count = static_cast<std::int64_t>(chunks);
  if (text.find('|') != std::string::npos) {
    if (pattern.segments().size() != chunks) {
      refuse(text, "which has " + counted(pattern.segments().size(), "segment") + " for " +
                       counted(chunks, "part") + " of the model in all stages");
    }
    return pattern.segments();
  }
  if (chunks == 1) return {all};
  const auto first = args.number(kFirstStage);
  const auto last = args.number(kLastStage);
  const std::int64_t between = count - (first ? 1 : 0) - (last ? 1 : 0);
  std::int64_t rest = all;
  if (first) rest -= *first;
  if (last) rest -= *last;
  if (rest < 0 || (between == 0 ? rest != 0 : rest % between != 0)) {
    refuse(text, "whose " + counted(pattern.decoder().size(), "layer") + " cannot be cut for " +
                     counted(chunks, "part") + " of the model (" + kFirstStage + " " +
                     args.words(kFirstStage) + ", " + kLastStage + " " + args.words(kLastStage) +
                     ")");
  }
  std::vector<std::int64_t> layers(chunks, between == 0 ? 0 : rest / between);
  if (first) layers.front() = *first;
  if (last) layers.back() = *last;
  return layers;
}

}  // namespace reshardfs
