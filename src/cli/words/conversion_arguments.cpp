// SPDX-License-Identifier: Apache-2.0
#include "cli/words/conversion_arguments.h"

#include <filesystem>

#include <spdlog/spdlog.h>

#include "reshardfs/strategy_rules.h"

#include "base/rank_list.h"
#include "cli/words/arguments.h"
#include "cli/words/check_arguments.h"
#include "cli/words/value_checks.h"
#include "conversion/option_words.h"
#include "storage/location.h"

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
      .add_option(
          "--config",
          "Read options from a TOML file, one key per long option; the command line overrides it")
      ->type_name("FILE.toml");
  storage.add_to(command);
  log.add_to(command);
}

void ConversionArguments::add_strategy_options(CLI::App& command) {
  add_text(command, "--src-strategy", src_strategy,
           "Strategy the checkpoint was saved with: a MindSpore .ckpt or .json file, a directory "
           "with one such file per pipeline stage, or rules in a .toml file; none if every rank "
           "holds whole parameters")
      ->type_name("FILE|DIR|none");
  add_text(command, "--dst-strategy", dst_strategy,
           "Strategy to show the checkpoint under: a file or directory as for --src-strategy, or "
           "sizes such as 'tp=8,dp=2' to derive one from the source strategy; none for one rank "
           "that holds everything")
      ->type_name("FILE|DIR|SIZES|none")
      ->capture_default_str();
  add_texts(command, "--src-join", src_join,
            "Without a source strategy: join the slices of matching parameters along dimension 0, "
            "in rank order (repeatable)")
      ->type_name("GLOB");
  map.add_to(command);
  add_text(command, "--name-map", name_map,
           "Rename parameters, by a JSON object of old to new names; to rename by pattern, write a "
           "map: see reshardfs-map(5)")
      ->type_name("FILE.json");
  add_texts(
      command, "--state-prefix", state_prefixes,
      "Prefix of optimizer states: PREFIX plus a weight's name is cut like that weight unless the "
      "strategy lists it (repeatable; adam_m., adam_v., moments. and others are built in)")
      ->type_name("PREFIX");
  add_word_option(command, "--unmatched", unmatched, kUnmatchedWords,
                  "Parameters that only one of the two strategies lists: drop them, copy the "
                  "source rank's slice, replicate the full tensor on every rank, or fail");
  add_replicas_option(
      command, "--replicas", replicas,
      "Where source ranks that should hold the same data differ: fail, take the lowest rank's "
      "copy, or give each target rank the copy of the source rank with its number");
}

void ConversionArguments::add_source_options(CLI::App& command) {
  add_text(command, "--src-pattern", src_pattern,
           "Where the source files are, e.g. 'rank_{rank}/*-{step}.ckpt'; by default, directories "
           "rank_N, nodeN and ckpt_N and files *_rank_N* are found")
      ->type_name("PATTERN");
  add_text(command, "--src-prefix", src_prefix, kPrefixHelp)->type_name("PREFIX");
  add_text(command, "--step", step, "The step to read, as inspect lists it (e.g. 9_50)")
      ->type_name("STEP|latest")
      ->capture_default_str();
  command.add_flag("--check-crc", check_crc,
                   "Check the CRCs of the source files before anything else");
  command.add_flag("--no-symlinks", no_symlinks, "Refuse symbolic links below the source");
  add_text(command, "--dec-key-file", dec_key_file,
           "File with the key of encrypted .ckpt files, in raw bytes or hexadecimal digits")
      ->type_name("FILE");
  add_decryption_mode(command, "--dec-mode", dec_mode);
}

void ConversionArguments::add_choice_options(CLI::App& command) {
  add_text(command, "--prefix", prefix, "Prefix of the rank files' names: rank_N/PREFIXN.ckpt")
      ->type_name("NAME")
      ->capture_default_str();
  add_text(command, "--ranks", ranks, "Show only these target ranks, e.g. 0-3,7")
      ->type_name("LIST");
  add_texts(command, "--include", include,
            "Keep only parameters that match this pattern (repeatable)")
      ->type_name("GLOB");
  add_texts(command, "--exclude", exclude,
            "Leave out parameters that match this pattern (repeatable)")
      ->type_name("GLOB");
  add_weights_option(command, weights_only);
  add_unmatched_option(command, allow_unmatched);
}

void ConversionArguments::add_output_options(CLI::App& command) {
  const auto list = [&](const std::string& name, std::vector<std::string>& values,
                        const std::string& text) {
    return command.add_option(name, values, text)->delimiter(',')->take_all()->expected(1);
  };
  list("--format", formats,
       "Formats of the rank files, separated by commas; by default, the source's format")
      ->type_name("LIST")
      ->check(CLI::IsMember(all_words(kFormatWords)));
  list("--views", views,
       "Views to show, separated by commas; by default, all but iteration, dcp and dcp-hf, and hf "
       "only where a map shows Hugging Face's names. merged stands for merged-ckpt, "
       "merged-safetensors and hub, or "
       "with --format for the single files of these formats; hub is model-*.safetensors; params is "
       "NumPy files; hf is for transformers and vLLM; unified is for MindSpore's "
       "load_distributed_checkpoint; iteration is Checkpoint 2.0; dcp is for PyTorch's "
       "torch.distributed.checkpoint, dcp-hf for its Hugging Face reader")
      ->type_name("LIST")
      ->check(CLI::IsMember(all_words(kViewWords)));
  command.add_flag("--params", rank_params,
                   "Also show each parameter of a rank as a NumPy file, in rank_N/params");
  command
      .add_option("--metadata", safetensors_metadata,
                  "Framework recorded in the safetensors metadata: MindSpore or PyTorch")
      ->take_last()
      ->type_name("ms|pt")
      ->check(CLI::IsMember({"ms", "pt"}))
      ->capture_default_str();
  command.add_option("--align", align, "Alignment of the tensor data in safetensors files")
      ->take_last()
      ->type_name("BYTES")
      ->check(CLI::IsMember({8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096}))
      ->capture_default_str();
  command
      .add_option("--shard-size", shard_bytes,
                  "Maximum size of each model-*.safetensors shard, e.g. 500MB, 2GB or 5GiB")
      ->take_last()
      ->type_name("SIZE")
      ->transform(CLI::AsSizeValue(/*kb_is_1000=*/true))
      ->transform(not_negative())
      ->transform(size_with_unit("--shard-size").description(""))
      ->default_str("5GB");
  command
      .add_option("--dcp-shards", dcp_shards,
                  "Spread the whole model evenly over N files in dcp and dcp-hf; by default, they "
                  "have a file for each target rank")
      ->take_last()
      ->type_name("N")
      ->check(CLI::Range(std::int64_t{1}, kMostDcpShards).description(""));
  add_word_option(command, "--dcp-release", dcp_release, kTorchReleaseWords,
                  "Release of PyTorch that loads dcp: 2 stands for 2.0 and later");
  add_texts(command, "--cast", casts,
            "Convert element types: [GLOB:]FROM->TO, in quotes, e.g. 'fp32->bf16' or "
            "'*.weight:fp32->fp16' (repeatable; the first match applies)")
      ->type_name("RULE")
      ->check(cast_with_quotes().description(""));
  command.add_flag("--crc", append_crc, "Append MindSpore's CRC trailer to .ckpt files");
}

ConversionOptions ConversionArguments::options() const {
  storage.apply();
  ConversionOptions options;
  options.source = absolute_source(source);
  options.src_strategy =
      existing_path(src_strategy, "--src-strategy", "a strategy file or a directory of them");
  // An existing file wins over a text that could be sizes.
  if (!is_url(dst_strategy) && is_derivation(dst_strategy) &&
      !std::filesystem::exists(dst_strategy)) {
    options.dst_sizes = dst_strategy;
  } else {
    if (!is_url(dst_strategy) && !std::filesystem::exists(dst_strategy))
      refuse_sizes_without_equals(dst_strategy);
    options.dst_strategy =
        existing_path(dst_strategy, "--dst-strategy",
                      "a strategy file, a directory of them, or sizes such as 'tp=8,dp=2'");
  }
  options.src_join = src_join;
  options.maps = map.options();
  if (!name_map.empty()) {
    options.name_map =
        existing_path(name_map, "--name-map", "a JSON file").value_or(absolute_location(name_map));
  }
  options.state_prefixes = state_prefixes;
  options.prefix = prefix;
  options.src_pattern = src_pattern;
  options.src_prefix = src_prefix;
  options.step = step;
  options.unmatched = unmatched;
  options.replicas = replicas;
  if (!ranks.empty()) options.ranks = parse_rank_list(ranks);
  options.include = include;
  options.exclude = exclude;
  options.weights_only = weights_only;
  options.allow_unmatched = allow_unmatched;
  options.allow_idle_view_options = has_options_file();
  options.check_crc = check_crc;
  options.no_symlinks = no_symlinks;
  if (!dec_key_file.empty()) options.dec_key_file = absolute_location(dec_key_file);
  options.dec_mode = dec_mode;
  options.formats = values_of(kFormatWords, formats);
  options.views = values_of(kViewWords, views);
  options.safetensors_metadata = safetensors_metadata;
  options.align = align;
  options.shard_bytes = shard_bytes;
  options.dcp_shards = dcp_shards;
  options.dcp_release = dcp_release;
  options.rank_params = rank_params;
  options.casts = casts;
  options.append_crc = append_crc;
  return options;
}

}  // namespace reshardfs
