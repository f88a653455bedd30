// SPDX-License-Identifier: Apache-2.0
#include "cli/conversion_arguments.h"

#include <filesystem>

#include <spdlog/spdlog.h>

#include "reshardfs/error.h"
#include "reshardfs/strategy_rules.h"

#include "base/rank_list.h"

namespace reshardfs {
namespace {

std::optional<std::filesystem::path> strategy_path(const std::string& text) {
  if (text.empty() || text == "none") return std::nullopt;
  return std::filesystem::absolute(text);
}

Unmatched parse_unmatched(const std::string& text) {
  if (text == "source") return Unmatched::kSource;
  if (text == "replicate") return Unmatched::kReplicate;
  if (text == "error") return Unmatched::kError;
  return Unmatched::kDrop;
}

}  // namespace

void ConversionArguments::add_to(CLI::App& command) {
  // The last one counts, so that the command line wins over a configuration file.
  const auto one = [&](const std::string& name, std::string& value, const std::string& text) {
    return command.add_option(name, value, text)->take_last();
  };
  one("--src-strategy", src_strategy,
      "Strategy that the checkpoint was saved with: a MindSpore .ckpt or .json file, or a "
      "directory "
      "with one file for each pipeline stage; none: every rank holds whole parameters")
      ->type_name("FILE|DIR|none");
  one("--dst-strategy", dst_strategy,
      "Strategy to show it under: as above, .toml rules, or sizes such as 'tp=8,dp=2' to derive it "
      "from the source's; none: one rank that has it all")
      ->type_name("FILE|DIR|SIZES|none")
      ->capture_default_str();
  command
      .add_option("--src-join", src_join,
                  "Without a source strategy: join the slices of parameters that match along "
                  "dimension 0, in rank order (repeatable)")
      ->type_name("GLOB")
      ->take_all()
      ->expected(1);
  one("--name-map", name_map, "Rename parameters: a JSON object of old name to new name")
      ->type_name("FILE.json");
  command
      .add_option(
          "--state-prefix", state_prefixes,
          "Optimizer states without a layout whose name is this and a weight's name are cut "
          "like the weight (repeatable; adam_m., adam_v., moments. and others are known)")
      ->type_name("TEXT")
      ->take_all()
      ->expected(1);
  one("--prefix", prefix, "Destination files are rank_N/<prefix>N.ckpt")
      ->type_name("NAME")
      ->capture_default_str();
  one("--src-pattern", src_pattern,
      "Where the source's files are, e.g. 'rank_{rank}/*-{step}.ckpt'; default: rank_N, nodeN and "
      "ckpt_N directories and *_rank_N* files are tried")
      ->type_name("PATTERN");
  one("--step", step, "Which saved step to take, as inspect prints it (e.g. 9_50)")
      ->type_name("STEP|latest")
      ->capture_default_str();
  one("--ranks", ranks, "Show only these destination ranks, e.g. 0-3,7")->type_name("LIST");
  one("--unmatched", unmatched,
      "Parameters in only one of the two strategies: drop them, copy the source rank's slice, "
      "replicate the full tensor, or refuse")
      ->type_name("drop|source|replicate|error")
      ->check(CLI::IsMember({"drop", "source", "replicate", "error"}))
      ->capture_default_str();
  command.add_option("--include", include, "Only parameters that match this glob (repeatable)")
      ->type_name("GLOB")
      ->take_all()
      ->expected(1);
  command.add_option("--exclude", exclude, "Leave out parameters that match (repeatable)")
      ->type_name("GLOB")
      ->take_all()
      ->expected(1);
  command.add_flag("--check-crc", check_crc, "Check the CRC trailers of the source files first");
  command
      .add_option("--config",
                  "Read options from a TOML file: each key is a long option; the command line wins")
      ->type_name("FILE.toml");
  log.add_to(command);
}

ConversionOptions ConversionArguments::options() const {
  ConversionOptions options;
  options.source = std::filesystem::absolute(source);
  options.src_strategy = strategy_path(src_strategy);
  // An existing file wins over a text that could be sizes.
  if (is_derivation(dst_strategy) && !std::filesystem::exists(dst_strategy)) {
    options.dst_sizes = dst_strategy;
  } else {
    options.dst_strategy = strategy_path(dst_strategy);
  }
  options.src_join = src_join;
  if (!name_map.empty()) options.name_map = std::filesystem::absolute(name_map);
  options.state_prefixes = state_prefixes;
  options.prefix = prefix;
  options.src_pattern = src_pattern;
  options.step = step;
  options.unmatched = parse_unmatched(unmatched);
  if (!ranks.empty()) options.ranks = parse_rank_list(ranks);
  options.include = include;
  options.exclude = exclude;
  options.check_crc = check_crc;
  return options;
}

Conversion open_conversion(const ConversionOptions& options) {
  Conversion conversion = Conversion::open(options);
  for (const std::string& warning : conversion.warnings()) spdlog::warn("{}", warning);
  for (const std::string& note : conversion.notes()) spdlog::info("{}", note);
  return conversion;
}

}  // namespace reshardfs
