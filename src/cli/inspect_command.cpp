// SPDX-License-Identifier: Apache-2.0
#include <iostream>
#include <memory>

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <spdlog/spdlog.h>

#include "reshardfs/checkpoint.h"
#include "reshardfs/error.h"

#include "base/rank_list.h"
#include "cli/app.h"
#include "cli/command.h"
#include "cli/log.h"
#include "cli/text.h"

namespace reshardfs {
namespace {

struct InspectArguments {
  std::string path;
  CheckpointQuery query;
  bool json = false;
  LogArguments log;
};

std::uint64_t total_bytes(const CheckpointContents& contents) {
  std::uint64_t total = 0;
  for (const CheckpointFile& file : contents.files) total += file.bytes;
  return total;
}

nlohmann::ordered_json as_json(const CheckpointContents& contents) {
  nlohmann::ordered_json json;
  json["step"] = contents.step;
  json["steps"] = contents.steps;
  json["files"] = nlohmann::ordered_json::array();
  for (const CheckpointFile& file : contents.files) {
    json["files"].push_back({{"rank", file.rank},
                             {"path", file.path.string()},
                             {"bytes", file.bytes},
                             {"parameters", file.parameters}});
  }
  json["parameters"] = nlohmann::ordered_json::array();
  for (const CheckpointParameter& parameter : contents.parameters) {
    json["parameters"].push_back({{"name", parameter.name},
                                  {"dtype", mindspore_name(parameter.dtype)},
                                  {"shape", parameter.shape},
                                  {"bytes", parameter.bytes},
                                  {"ranks", parameter.ranks}});
  }
  return json;
}

void print_text(const std::string& path, const CheckpointContents& contents) {
  std::cout << fmt::format("{}: {} in {} {}, {} parameters\n", printable(path),
                           human_bytes(total_bytes(contents)), contents.files.size(),
                           contents.files.size() == 1 ? "file" : "files",
                           contents.parameters.size());
  if (!contents.step.empty()) {
    std::cout << fmt::format("step {} (steps found: {})\n", contents.step,
                             fmt::join(contents.steps, ", "));
  }
  std::cout << "\n";
  TextTable table({"PARAMETER", "DTYPE", "SLICE SHAPE", "BYTES", "RANKS"}, {3});
  for (const CheckpointParameter& parameter : contents.parameters) {
    table.add_row({printable(parameter.name), std::string(mindspore_name(parameter.dtype)),
                   to_string(parameter.shape), std::to_string(parameter.bytes),
                   format_rank_list(parameter.ranks)});
  }
  std::cout << table.str();
}

int run_inspect(const InspectArguments& arguments) {
  arguments.log.apply();
  const CheckpointContents contents = read_contents(arguments.path, arguments.query);
  for (const std::string& note : contents.notes) spdlog::info("{}", note);
  if (arguments.json) {
    std::cout << as_json(contents).dump(2) << "\n";
  } else {
    print_text(arguments.path, contents);
  }
  return kExitDone;
}

}  // namespace

void add_inspect_command(CLI::App& app, CommandAction& action) {
  auto arguments = std::make_shared<InspectArguments>();
  CLI::App* command = app.add_subcommand(
      "inspect", "List the parameters of a checkpoint file or set, without reading their data");
  command->add_option("PATH", arguments->path, "A .ckpt file, or a directory with the ranks' files")
      ->required();
  command->add_option("--src-pattern", arguments->query.src_pattern, "Where the files are")
      ->type_name("PATTERN")
      ->take_last();
  command->add_option("--step", arguments->query.step, "Which saved step to take")
      ->type_name("STEP|latest")
      ->capture_default_str()
      ->take_last();
  command->add_flag("--check-crc", arguments->query.check_crc, "Check the CRCs too");
  command
      ->add_option("--dec-key-file", arguments->query.dec_key_file,
                   "The key of encrypted .ckpt files: a file with its bytes, or with hexadecimal "
                   "digits")
      ->type_name("FILE")
      ->take_last();
  command->add_option("--dec-mode", arguments->query.dec_mode, "How they are encrypted")
      ->type_name("AES-GCM|AES-CBC|SM4-CBC")
      ->check(CLI::IsMember({"AES-GCM", "AES-CBC", "SM4-CBC"}))
      ->capture_default_str()
      ->take_last();
  command->add_flag("--json", arguments->json, "Print JSON");
  command->add_option("--config", "Read options from a TOML file")->type_name("FILE.toml");
  arguments->log.add_to(*command);
  command->footer("Example:\n  reshardfs inspect ckpt/rank_0/llama-3_100.ckpt");
  command->callback(
      [&action, arguments] { action = [arguments] { return run_inspect(*arguments); }; });
}

}  // namespace reshardfs
