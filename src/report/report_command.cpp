// SPDX-License-Identifier: Apache-2.0
#include "report/report_command.h"

#include <string_view>

#include "base/rank_list.h"
#include "conversion/option_words.h"
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

class Words {
 public:
  explicit Words(std::vector<std::string> begin) : words_(std::move(begin)) {}

  void add(std::string_view option, const std::string& value, const std::string& usual = {}) {
    if (value == usual) return;
    // An option takes no next word that looks like an option itself.
    if (value.starts_with('-')) {
      words_.push_back(std::string(option) + "=" + value);
    } else {
      words_.emplace_back(option);
      words_.push_back(value);
    }
  }
  void add(std::string_view option, const std::vector<std::string>& values) {
    for (const std::string& value : values) add(option, value);
  }
  void flag(std::string_view option, bool given) {
    if (given) words_.emplace_back(option);
  }
  std::vector<std::string> take() { return std::move(words_); }

 private:
  std::vector<std::string> words_;
};

void add_strategies(const ConversionOptions& options, Words& words) {
  if (!options.src_sizes.empty()) words.add("--src-strategy", options.src_sizes);
  if (options.src_strategy) words.add("--src-strategy", options.src_strategy->string());
  if (!options.dst_sizes.empty()) {
    words.add("--dst-strategy", options.dst_sizes);
    if (!options.stage_layers.empty()) {
      words.add("--stage-layers", to_text(options.stage_layers));
    }
  } else if (options.dst_strategy) {
    words.add("--dst-strategy", options.dst_strategy->string());
  }
}

void add_output_options(const ConversionOptions& options, Words& words) {
  const ConversionOptions usual;
  words.add("--prefix", options.prefix, usual.prefix);
  words.add("--format", list(kFormatWords, options.formats));
  words.add("--views", list(kViewWords, options.views));
  words.add("--metadata", options.safetensors_metadata, usual.safetensors_metadata);
  if (options.align) words.add("--align", std::to_string(*options.align));
  words.add("--shard-size", std::to_string(options.shard_bytes), std::to_string(usual.shard_bytes));
  if (options.dcp_shards > 0) words.add("--dcp-shards", std::to_string(options.dcp_shards));
  words.add("--dcp-release", word_of(kTorchReleaseWords, options.dcp_release),
            word_of(kTorchReleaseWords, usual.dcp_release));
  words.add("--cast", options.casts);
  words.flag("--params", options.rank_params);
  words.flag("--crc", options.append_crc);
}

}  // namespace

std::vector<std::string> report_command(const ConversionOptions& options, const std::string& step) {
  const ConversionOptions usual;
  Words words({"reshardfs", "report", options.source.string()});
  add_strategies(options, words);
  words.add("--src-pattern", options.src_pattern);
  words.add("--src-prefix", options.src_prefix);
  words.add("--state-key", options.state_key);
  words.flag("--dequantize", options.dequantize);
  words.add("--step", step.empty() ? options.step : step, usual.step);
  words.add("--src-join", options.src_join);
  words.add("--map", options.maps.maps);
  for (const MapDirection direction : options.maps.directions) {
    words.add("--map-direction", word_of(kMapDirectionWords, direction));
  }
  words.add("--model-config", options.maps.model_config.string());
  words.add("--training-config", options.maps.training_config.string());
  words.add("--map-var", options.maps.variables);
  words.add("--name-map", options.name_map.string());
  words.add("--state-prefix", options.state_prefixes);
  words.add("--unmatched", word_of(kUnmatchedWords, options.unmatched),
            word_of(kUnmatchedWords, usual.unmatched));
  words.add("--replicas", word_of(kReplicasWords, options.replicas),
            word_of(kReplicasWords, usual.replicas));
  if (!options.ranks.empty()) words.add("--ranks", format_rank_list(options.ranks));
  words.add("--include", options.include);
  words.add("--exclude", options.exclude);
  words.flag("--weights-only", options.weights_only);
  words.flag("--allow-unmatched", options.allow_unmatched);
  if (!options.dec_key_file.empty()) {
    words.add("--dec-key-file", options.dec_key_file.string());
    words.add("--dec-mode", options.dec_mode, usual.dec_mode);
  }
  words.flag("--check-crc", options.check_crc);
  words.flag("--no-symlinks", options.no_symlinks);
  add_output_options(options, words);
  words.add("-O", "report.html");
  return words.take();
}

}  // namespace reshardfs
