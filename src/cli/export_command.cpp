// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <iostream>
#include <memory>
#include <optional>
#include <thread>

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include "reshardfs/error.h"

#include "base/process/stop_signals.h"
#include "base/text/url_path.h"
#include "cli/app.h"
#include "cli/command.h"
#include "cli/progress_display.h"
#include "cli/words/conversion_arguments.h"
#include "cli/words/share_argument.h"
#include "daemon/open_conversion.h"
#include "export/checksums.h"
#include "export/exporter.h"
#include "export/planned_files.h"
#include "report/text/text.h"
#include "storage/location.h"

namespace reshardfs {
namespace {

struct ExportArguments {
  ConversionArguments conversion;
  std::string directory;
  std::size_t jobs = 0;  ///< 0: as many as suit the target
  std::uint64_t memory = std::uint64_t{256} << 20U;
  bool force = false;
  bool checksum = false;
  std::string share;
};

void print_result(const ExportResult& result, const std::string& directory, double seconds,
                  const std::optional<Share>& share) {
  std::string text = share ? fmt::format("share {}: ", to_string(*share)) : "";
  text += fmt::format("{} of {} written to {} in {:.1f} s", human_bytes(result.written_bytes),
                      counted(result.written_files, "file"), printable(directory), seconds);
  if (result.written_files > 0 && seconds > 0) {
    const double rate = static_cast<double>(result.written_bytes) / seconds;
    text += fmt::format(" ({}/s)", human_bytes(static_cast<std::uint64_t>(rate)));
  }
  if (result.resumed_bytes > 0) {
    text += fmt::format("; {} of unfinished files was there already, checked",
                        human_bytes(result.resumed_bytes));
  }
  if (result.kept_files > 0) {
    text += fmt::format("; {} of {} {} there already, checked", human_bytes(result.kept_bytes),
                        result.kept_files, result.kept_files == 1 ? "file was" : "files were");
  }
  if (result.incomplete) {
    text += fmt::format("; share {} is not complete yet", to_string(*result.incomplete));
  } else if (share) {
    text += fmt::format("; all shares are complete, see {}", kChecksumFile);
  }
  std::cout << text << "\n";
}

void print_share(const ChosenShare& share, const Conversion& conversion) {
  std::cout << fmt::format("share {}{}: {}\n", to_string(share.share),
                           share.from.empty() ? "" : " (" + share.from + ")",
                           share_words(files_of_share(exported_files(conversion), share.share)))
            << std::flush;
}

/// Threads that send wait for the store most of the time.
constexpr std::size_t kSenders = 16;

std::size_t workers_of(const ExportArguments& arguments) {
  if (arguments.jobs > 0) return arguments.jobs;
  const std::size_t processors = std::max(1U, std::thread::hardware_concurrency());
  return is_url(arguments.directory) ? std::max(processors, kSenders) : processors;
}

int run_export(const ExportArguments& arguments) {
  using Clock = std::chrono::steady_clock;
  const LogArguments& log = arguments.conversion.log;
  log.apply();
  // A file size limit is an error like a full disk.
  ignore_signal(SIGXFSZ);
  const auto begun = Clock::now();
  std::optional<ChosenShare> share;
  if (!arguments.share.empty()) {
    share = choose_share(arguments.share, [](const char* name) { return std::getenv(name); });
  }
  ConversionOptions source = arguments.conversion.options();
  if (source.views.empty()) source.views = {ViewKind::kRanks};
  const Conversion conversion = open_conversion(source);

  const StopSignals signals;
  ExportProgress progress;
  const std::size_t workers = workers_of(arguments);
  ExportOptions options{arguments.directory, arguments.force, arguments.checksum,
                        block_engine_options(workers, arguments.memory), arguments.memory};
  if (is_url(arguments.directory)) {
    options.directory = absolute_location(arguments.directory);
    options.engine.workers = workers;
  }
  if (share) {
    options.share = share->share;
    if (!log.quiet) print_share(*share, conversion);
  }
  options.engine.stop = &signals.flag();
  options.engine.progress = &progress;
  ExportResult result;
  try {
    const ProgressDisplay display(progress, log.quiet);
    result = export_conversion(conversion, source, options);
  } catch (const Interrupted& stop) {
    std::cerr << "reshardfs: interrupted; repeat the command to resume"
              << (stop.left().empty() ? "" : "; ") << stop.left() << "\n";
    return signals.exit_code();
  }
  for (const std::string& warning : result.warnings) spdlog::warn("{}", warning);
  const double seconds = std::chrono::duration<double>(Clock::now() - begun).count();
  if (!log.quiet) print_result(result, arguments.directory, seconds, options.share);
  return kExitDone;
}

}  // namespace

void add_export_command(CLI::App& app, CommandAction& action) {
  auto arguments = std::make_shared<ExportArguments>();
  CLI::App* command =
      app.add_subcommand("export", "Write the files of a mount to disk or to an object store");
  command->add_option("SOURCE", arguments->conversion.source, "A checkpoint, as for mount")
      ->required();
  command
      ->add_option(
          "OUTDIR", arguments->directory,
          "Target directory, created if missing, or s3://BUCKET/PREFIX; an interrupted export "
          "resumes")
      ->required();
  command
      ->add_option("-j,--jobs", arguments->jobs,
                   "Number of threads; by default, one per processor, or at least 16 for s3://")
      ->check(CLI::Range(1, 1024).description(""))
      ->take_last();
  command->add_option("--memory", arguments->memory, "Memory for all read buffers together")
      ->transform(CLI::AsSizeValue(/*kb_is_1000=*/false))
      ->transform(not_negative())
      ->type_name("SIZE")
      ->default_str("256MiB")
      ->take_last();
  command
      ->add_option(
          "--share", arguments->share,
          "Write only part I of N, counted from 0, while other processes write the others; "
          "auto reads I and N from the variables of Slurm or MPI")
      ->type_name("I/N|auto")
      ->take_last();
  command->add_flag("--checksum", arguments->checksum,
                    "Also write SHA256SUMS, for 'sha256sum -c'; with --share, always");
  command->add_flag("--force", arguments->force,
                    "Replace files that differ, and an export of another conversion");
  arguments->conversion.add_to(*command);
  command->get_option("--views")->description(
      "Views to write, separated by commas; by default, ranks. merged stands for merged-ckpt, "
      "merged-safetensors and hub, or with --format for the single files of these formats; hub is "
      "model-*.safetensors; params is NumPy files; hf is for transformers and vLLM; unified is for "
      "MindSpore's load_distributed_checkpoint; iteration is Checkpoint 2.0");
  command->footer(
      "Example: write a checkpoint for 4-way tensor parallelism, and check it\n  reshardfs export "
      "ckpt out --src-strategy train.ckpt --dst-strategy tp=4 --checksum\n  cd out && sha256sum -c "
      "SHA256SUMS\n\nExample: let the tasks that srun or mpirun starts write it together\n  "
      "reshardfs export ckpt out --src-strategy train.ckpt --dst-strategy tp=4 --share auto");
  command->callback(
      [&action, arguments] { action = [arguments] { return run_export(*arguments); }; });
}

}  // namespace reshardfs
