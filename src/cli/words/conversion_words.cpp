// SPDX-License-Identifier: Apache-2.0
#include "cli/words/conversion_words.h"

#include <filesystem>
#include <string>

#include "reshardfs/error.h"
#include "reshardfs/strategy_rules.h"

#include "base/rank_list.h"
#include "cli/options/value_checks.h"
#include "cli/words/shared_words.h"
#include "cli/words/source_request.h"
#include "conversion/option_words.h"
#include "modelmap/variables.h"
#include "storage/location.h"
#include "strategy/derive/layer_stages.h"

namespace reshardfs {
namespace {

void set_target(const Given& given, ConversionOptions& options) {
  NamedStrategy named = named_strategy(
      given, "dst-strategy", "a strategy file, a directory of them, or sizes such as 'tp=8,dp=2'");
  options.dst_strategy = std::move(named.path);
  options.dst_sizes = std::move(named.sizes);
  const std::string layers = given.text("stage-layers");
  if (!layers.empty()) options.stage_layers = parse_stage_layers(layers);
  const std::string name_map = given.text("name-map");
  if (!name_map.empty()) {
    options.name_map =
        existing_path(given, "name-map", "a JSON file").value_or(absolute_location(name_map));
  }
}

void set_choices(const Given& given, ConversionOptions& options) {
  options.unmatched = given.word("unmatched", kUnmatchedWords);
  const std::string ranks = given.text("ranks");
  if (!ranks.empty()) options.ranks = parse_rank_list(ranks);
  options.include = given.texts("include");
  options.exclude = given.texts("exclude");
  options.weights_only = given.flag("weights-only");
  options.partial = given.flag("partial");
  options.allow_idle_view_options = given.from_file;
}

void set_files(const Given& given, ConversionOptions& options) {
  options.prefix = given.text("prefix");
  options.formats = given.words("format", kFormatWords);
  options.views = given.words("views", kViewWords);
  options.safetensors_metadata = given.text("metadata");
  if (given.has("align")) options.align = given.number_as<std::uint64_t>("align");
  options.shard_bytes = given.size("shard-size");
  options.dcp_shards = given.number("dcp-shards").value_or(options.dcp_shards);
  options.dcp_release = given.word("dcp-release", kTorchReleaseWords);
  options.iteration_release = given.word("iteration-release", kIterationReleaseWords);
  options.rank_params = given.flag("params");
  options.casts = given.texts("cast");
  options.append_crc = given.flag("crc");
}

/// What --map-var states for a view, and not for a map.
void take_trainer_words(ConversionOptions& options) {
  const auto take = [&](const std::string& text) {
    for (const auto& [name, member] : kTrainerWords) {
      if (!text.starts_with(std::string(name) + "=")) continue;
      const std::int64_t value = modelmap::parse_map_variable(text).second;
      if (value < 0) {
        throw Error(ErrorKind::kUsage, "--map-var " + printable(text) + ": " + std::string(name) +
                                           " is a number of at least 0");
      }
      options.trainer.*member = value;
      return true;
    }
    return false;
  };
  std::erase_if(options.source.maps.variables, take);
}

}  // namespace

ConversionOptions conversion_options(const Given& given) {
  apply_storage(given);
  ConversionOptions options;
  options.source = source_request(given, absolute_source(given.argument("SOURCE")));
  take_trainer_words(options);
  set_target(given, options);
  set_choices(given, options);
  set_files(given, options);
  return options;
}

}  // namespace reshardfs
