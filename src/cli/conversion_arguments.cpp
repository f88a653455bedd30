// SPDX-License-Identifier: Apache-2.0
#include "cli/conversion_arguments.h"

#include <filesystem>

#include <spdlog/spdlog.h>

#include "reshardfs/strategy_rules.h"

#include "base/rank_list.h"
#include "cli/check_arguments.h"
#include "report/option_words.h"

namespace reshardfs {

CLI::Validator not_negative() {
  return {[](const std::string& text) {
            return text.starts_with('-') ? text + " is not a size" : std::string();
          },
          "", "not negative"};
}

void ConversionArguments::add_to(CLI::App& command) {
  add_strategy_options(command);
  add_source_options(command);
  add_choice_options(command);
  add_output_options(command);
  command
      .add_option("--config",
                  "Read options from a TOML file: each key is a long option; the command line wins")
      ->type_name("FILE.toml");
  log.add_to(command);
}

void ConversionArguments::add_strategy_options(CLI::App& command) {
  add_text(command, "--src-strategy", src_strategy,
           "Strategy that the checkpoint was saved with: a MindSpore .ckpt or .json file, a "
           "directory with one file for each pipeline stage, or .toml rules; none: every rank "
           "holds whole parameters")
      ->type_name("FILE|DIR|none");
  add_text(command, "--dst-strategy", dst_strategy,
           "Strategy to show it under: as above, .toml rules, or sizes such as 'tp=8,dp=2' to "
           "derive it "
           "from the source's; none: one rank that has it all")
      ->type_name("FILE|DIR|SIZES|none")
      ->capture_default_str();
  add_texts(command, "--src-join", src_join,
            "Without a source strategy: join the slices of parameters that match along "
            "dimension 0, in rank order (repeatable)")
      ->type_name("GLOB");
  map.add_to(command);
  add_text(command, "--name-map", name_map,
           "Rename parameters: a JSON object of old name to new name")
      ->type_name("FILE.json");
  add_texts(command, "--state-prefix", state_prefixes,
            "Optimizer states without a layout whose name is this and a weight's name are cut "
            "like the weight (repeatable; adam_m., adam_v., moments. and others are known)")
      ->type_name("TEXT");
  add_word_option(command, "--unmatched", unmatched, kUnmatchedWords,
                  "Parameters in only one of the two strategies: drop them, copy the source rank's "
                  "slice, replicate the full tensor, or refuse");
  add_replicas_option(command, "--replicas", replicas,
                      "Source ranks that should hold the same and do not: refuse them, take the "
                      "lowest rank's, or give each destination rank that of its own source rank");
}

void ConversionArguments::add_source_options(CLI::App& command) {
  add_text(
      command, "--src-pattern", src_pattern,
      "Where the source's files are, e.g. 'rank_{rank}/*-{step}.ckpt'; default: rank_N, nodeN and "
      "ckpt_N directories and *_rank_N* files are tried")
      ->type_name("PATTERN");
  add_text(command, "--step", step, "Which saved step to take, as inspect prints it (e.g. 9_50)")
      ->type_name("STEP|latest")
      ->capture_default_str();
  command.add_flag("--check-crc", check_crc, "Check the CRCs of the source files first");
  command.add_flag("--no-symlinks", no_symlinks,
                   "Refuse symbolic links below the source, which may lead anywhere");
  add_text(command, "--dec-key-file", dec_key_file,
           "The key of encrypted .ckpt files: a file with its bytes, or with hexadecimal digits")
      ->type_name("FILE");
  add_decryption_mode(command, "--dec-mode", dec_mode);
}

void ConversionArguments::add_choice_options(CLI::App& command) {
  add_text(command, "--prefix", prefix, "Destination files are rank_N/<prefix>N.ckpt")
      ->type_name("NAME")
      ->capture_default_str();
  add_text(command, "--ranks", ranks, "Show only these destination ranks, e.g. 0-3,7")
      ->type_name("LIST");
  add_texts(command, "--include", include, "Only parameters that match this glob (repeatable)")
      ->type_name("GLOB");
  add_texts(command, "--exclude", exclude, "Leave out parameters that match (repeatable)")
      ->type_name("GLOB");
}

void ConversionArguments::add_output_options(CLI::App& command) {
  const auto list = [&](const std::string& name, std::vector<std::string>& values,
                        const std::string& text) {
    return command.add_option(name, values, text)->delimiter(',')->take_all()->expected(1);
  };
  list("--format", formats,
       "The files of each rank directory: ckpt, safetensors or both with a comma between; default: "
       "that of the source")
      ->type_name("LIST")
      ->check(CLI::IsMember(all_words(kFormatWords)));
  list(
      "--views", views,
      "What to show: ranks, merged, params (NumPy files), hf (for transformers and vLLM), unified "
      "(for MindSpore's "
      "load_distributed_checkpoint), iteration (MindSpore Transformers' Checkpoint 2.0), strategy; "
      "default: all but iteration, and hf only if a map shows that side")
      ->type_name("LIST")
      ->check(CLI::IsMember(all_words(kViewWords)));
  command.add_flag("--params", rank_params,
                   "Show a NumPy file for each array in rank_N/params too");
  command
      .add_option("--metadata", safetensors_metadata,
                  "Whose safetensors files they claim to be: MindSpore's or PyTorch's")
      ->take_last()
      ->type_name("ms|pt")
      ->check(CLI::IsMember({"ms", "pt"}))
      ->capture_default_str();
  command
      .add_option("--align", align,
                  "Tensor data of safetensors files begins at a multiple of this many bytes")
      ->take_last()
      ->type_name("BYTES")
      ->check(CLI::IsMember({8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096}))
      ->capture_default_str();
  command
      .add_option("--shard-size", shard_bytes,
                  "Largest size of merged/model-*.safetensors, e.g. 500MB, 2GB or 5GiB")
      ->take_last()
      ->type_name("SIZE")
      ->transform(CLI::AsSizeValue(/*kb_is_1000=*/true))
      ->transform(not_negative())
      ->default_str("5GB");
  add_texts(command, "--cast", casts,
            "Convert element types: [GLOB:]FROM->TO, e.g. 'fp32->bf16' or "
            "'*.weight:fp32->fp16' (repeatable; "
            "the first that fits counts)")
      ->type_name("RULE");
  command.add_flag("--crc", append_crc, "End .ckpt files with MindSpore's CRC trailer");
}

ConversionOptions ConversionArguments::options() const {
  ConversionOptions options;
  options.source = std::filesystem::absolute(source);
  options.src_strategy =
      existing_path(src_strategy, "--src-strategy", "a strategy file or a directory of them");
  // An existing file wins over a text that could be sizes.
  if (is_derivation(dst_strategy) && !std::filesystem::exists(dst_strategy)) {
    options.dst_sizes = dst_strategy;
  } else {
    options.dst_strategy =
        existing_path(dst_strategy, "--dst-strategy",
                      "a strategy file, a directory of them, or sizes such as 'tp=8,dp=2'");
  }
  options.src_join = src_join;
  options.maps = map.options();
  if (!name_map.empty()) {
    options.name_map = existing_path(name_map, "--name-map", "a JSON file")
                           .value_or(std::filesystem::absolute(name_map));
  }
  options.state_prefixes = state_prefixes;
  options.prefix = prefix;
  options.src_pattern = src_pattern;
  options.step = step;
  options.unmatched = unmatched;
  options.replicas = replicas;
  if (!ranks.empty()) options.ranks = parse_rank_list(ranks);
  options.include = include;
  options.exclude = exclude;
  options.check_crc = check_crc;
  options.no_symlinks = no_symlinks;
  if (!dec_key_file.empty()) options.dec_key_file = std::filesystem::absolute(dec_key_file);
  options.dec_mode = dec_mode;
  options.formats = values_of(kFormatWords, formats);
  options.views = values_of(kViewWords, views);
  options.safetensors_metadata = safetensors_metadata;
  options.align = align;
  options.shard_bytes = shard_bytes;
  options.rank_params = rank_params;
  options.casts = casts;
  options.append_crc = append_crc;
  return options;
}

Conversion open_conversion(const ConversionOptions& options) {
  Conversion conversion = Conversion::open(options);
  for (const std::string& warning : conversion.warnings()) spdlog::warn("{}", warning);
  for (const std::string& note : conversion.notes()) spdlog::info("{}", note);
  return conversion;
}

}  // namespace reshardfs
