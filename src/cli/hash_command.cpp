// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <iostream>
#include <memory>
#include <thread>

#include "base/process/stop_signals.h"
#include "cli/app.h"
#include "cli/command.h"
#include "cli/progress_display.h"
#include "cli/shown_file.h"
#include "cli/words/conversion_arguments.h"
#include "daemon/open_conversion.h"
#include "export/checksums.h"
#include "export/hashing.h"
#include "export/planned_files.h"

namespace reshardfs {
namespace {

struct HashArguments {
  ConversionArguments conversion;
  std::vector<std::string> files;
  std::size_t jobs = std::max(1U, std::thread::hardware_concurrency());
};

int run_hash(const HashArguments& arguments) {
  arguments.conversion.log.apply();
  ConversionOptions options = arguments.conversion.options();
  if (options.views.empty() && arguments.files.empty()) options.views = {ViewKind::kRanks};
  const Conversion conversion = open_conversion(options);
  std::vector<const OutputFile*> files;
  for (const std::string& path : arguments.files) files.push_back(&shown_file(conversion, path));
  if (files.empty()) files = exported_files(conversion);

  const StopSignals signals;
  constexpr std::uint64_t kMemory = std::uint64_t{256} << 20U;
  BlockEngineOptions engine = block_engine_options(arguments.jobs, kMemory);
  engine.stop = &signals.flag();
  ExportProgress progress;
  engine.progress = &progress;
  std::uint64_t bytes = 0;
  for (const OutputFile* file : files) bytes += file->file->size();
  progress.start("hashing", bytes, files.size());
  try {
    ProgressDisplay display(progress, arguments.conversion.log.quiet);
    hash_files(files, engine, [&](const OutputFile& file, const std::string& sha256) {
      display.clear();
      std::cout << checksum_line(sha256, file.path) << std::flush;
    });
  } catch (const Interrupted&) {
    std::cerr << "reshardfs: interrupted\n";
    return signals.exit_code();
  }
  return kExitDone;
}

}  // namespace

void add_hash_command(CLI::App& app, CommandAction& action) {
  auto arguments = std::make_shared<HashArguments>();
  CLI::App* command =
      app.add_subcommand("hash", "Print SHA-256 sums of a mount's files, without mounting");
  command->add_option("SOURCE", arguments->conversion.source, "A checkpoint, as for mount")
      ->required();
  command->add_option("FILE", arguments->files,
                      "Paths in the mount; by default, every file of the rank directories");
  command
      ->add_option("-j,--jobs", arguments->jobs, "Number of threads; by default, one per processor")
      ->check(CLI::Range(1, 1024).description(""))
      ->take_last();
  arguments->conversion.add_to(*command);
  command->get_option("--views")->description(
      "Without FILE: views to hash, as for mount; by default, ranks");
  command->footer(
      "Example: check an existing conversion\n  reshardfs hash ckpt --src-strategy train.ckpt "
      "--dst-strategy serve.ckpt > sums\n  cd converted && sha256sum -c ../sums");
  command->callback(
      [&action, arguments] { action = [arguments] { return run_hash(*arguments); }; });
}

}  // namespace reshardfs
