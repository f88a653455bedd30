// SPDX-License-Identifier: Apache-2.0
#include "report/option_texts.h"

#include <string_view>

#include "base/rank_list.h"
#include "report/option_words.h"

namespace reshardfs {
namespace {

template <typename Value, std::size_t kCount>
std::string list(const std::array<OptionWord<Value>, kCount>& words,
                 const std::vector<Value>& values) {
  std::string out;
  for (const Value value : values) out += (out.empty() ? "" : ",") + word_of(words, value);
  return out;
}

class Texts {
 public:
  void add(std::string_view option, const std::string& value, const std::string& usual = {}) {
    if (value != usual) list_.push_back(std::string(option) + " " + value);
  }
  void add(std::string_view option, const std::vector<std::string>& values) {
    for (const std::string& value : values) add(option, value);
  }
  void flag(std::string_view option, bool given) {
    if (given) list_.emplace_back(option);
  }
  std::vector<std::string> take() { return std::move(list_); }

 private:
  std::vector<std::string> list_;
};

}  // namespace

std::vector<std::string> option_texts(const ConversionOptions& options) {
  const ConversionOptions usual;
  Texts texts;
  texts.add("--step", options.step, usual.step);
  texts.add("--src-pattern", options.src_pattern);
  texts.add("--src-join", options.src_join);
  texts.add("--map", options.maps.maps);
  for (const MapDirection direction : options.maps.directions) {
    texts.add("--map-direction", word_of(kMapDirectionWords, direction));
  }
  texts.add("--model-config", options.maps.model_config.string());
  texts.add("--map-var", options.maps.variables);
  texts.add("--name-map", options.name_map.string());
  texts.add("--state-prefix", options.state_prefixes);
  texts.add("--unmatched", word_of(kUnmatchedWords, options.unmatched),
            word_of(kUnmatchedWords, usual.unmatched));
  texts.add("--replicas", word_of(kReplicasWords, options.replicas),
            word_of(kReplicasWords, usual.replicas));
  if (!options.ranks.empty()) texts.add("--ranks", format_rank_list(options.ranks));
  texts.add("--include", options.include);
  texts.add("--exclude", options.exclude);
  texts.add("--prefix", options.prefix, usual.prefix);
  texts.add("--format", list(kFormatWords, options.formats));
  texts.add("--views", list(kViewWords, options.views));
  texts.add("--metadata", options.safetensors_metadata, usual.safetensors_metadata);
  texts.add("--align", std::to_string(options.align), std::to_string(usual.align));
  texts.add("--shard-size", std::to_string(options.shard_bytes), std::to_string(usual.shard_bytes));
  texts.add("--cast", options.casts);
  if (!options.dec_key_file.empty()) texts.add("--dec-mode", options.dec_mode);
  texts.flag("--params", options.rank_params);
  texts.flag("--check-crc", options.check_crc);
  texts.flag("--no-symlinks", options.no_symlinks);
  texts.flag("--crc", options.append_crc);
  return texts.take();
}

}  // namespace reshardfs
