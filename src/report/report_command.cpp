// SPDX-License-Identifier: Apache-2.0
#include "report/report_command.h"

#include <string_view>

#include "base/rank_list.h"
#include "conversion/option_words.h"
#include "conversion/source_words.h"
#include "strategy/derive/layer_stages.h"

namespace reshardfs {
namespace {

template <typename Value, std::size_t kCount>
std::string list(const std::array<OptionWord<Value>, kCount>& words,
                 const std::vector<Value>& values) {
  std::string out;
  for (const Value value : values) out += (out.empty() ? "" : ",") + word_of(words, value);
  return out;
}

void add_target(const ConversionOptions& options, CommandWords& words) {
  if (!options.dst_sizes.empty()) {
    words.add("dst-strategy", options.dst_sizes.text);
    if (!options.stage_layers.empty()) {
      words.add("stage-layers", to_text(options.stage_layers));
    }
  } else if (options.dst_strategy) {
    words.add("dst-strategy", options.dst_strategy->string());
  }
}

void add_output_options(const ConversionOptions& options, CommandWords& words) {
  const ConversionOptions usual;
  words.add("prefix", options.prefix, usual.prefix);
  words.add("format", list(kFormatWords, options.formats));
  words.add("views", list(kViewWords, options.views));
  words.add("metadata", options.safetensors_metadata, usual.safetensors_metadata);
  if (options.align) words.add("align", std::to_string(*options.align));
  words.add("shard-size", std::to_string(options.shard_bytes), std::to_string(usual.shard_bytes));
  if (options.dcp_shards > 0) words.add("dcp-shards", std::to_string(options.dcp_shards));
  words.add("dcp-release", word_of(kTorchReleaseWords, options.dcp_release),
            word_of(kTorchReleaseWords, usual.dcp_release));
  words.add("iteration-release", word_of(kIterationReleaseWords, options.iteration_release),
            word_of(kIterationReleaseWords, usual.iteration_release));
  for (const auto& [name, member] : kTrainerWords) {
    const auto& value = options.trainer.*member;
    if (value) words.add("map-var", std::string(name) + "=" + std::to_string(*value));
  }
  words.add("cast", options.casts);
  words.flag("params", options.rank_params);
  words.flag("crc", options.append_crc);
}

}  // namespace

std::vector<std::string> report_command(const ConversionOptions& options, const std::string& step) {
  const ConversionOptions usual;
  CommandWords words({"reshardfs", "report", options.source.path.string()});
  SourceRequest source = options.source;
  if (!step.empty()) source.step = step;
  add_source_words(source, words);
  add_target(options, words);
  words.add("name-map", options.name_map.string());
  words.add("unmatched", word_of(kUnmatchedWords, options.unmatched),
            word_of(kUnmatchedWords, usual.unmatched));
  if (!options.ranks.empty()) words.add("ranks", format_rank_list(options.ranks));
  words.add("include", options.include);
  words.add("exclude", options.exclude);
  words.flag("weights-only", options.weights_only);
  add_output_options(options, words);
  words.output("report.html");
  return words.take();
}

}  // namespace reshardfs
