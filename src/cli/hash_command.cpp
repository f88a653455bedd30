// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <iostream>
#include <memory>
#include <thread>

#include "base/process/signals.h"
#include "cli/app.h"
#include "cli/command.h"
#include "cli/progress_display.h"
#include "cli/shown_file.h"
#include "cli/words/conversion_words.h"
#include "cli/words/shared_words.h"
#include "daemon/open_conversion.h"
#include "export/checksums.h"
#include "export/hashing.h"
#include "export/planned_files.h"

namespace reshardfs {
int run_hash(const Given& given) {
  const LogSettings log = log_settings(given);
  log.apply();
  ConversionOptions options = conversion_options(given);
  const std::vector<std::string> paths = given.arguments_of("FILE");
  if (options.views.empty() && paths.empty()) options.views = {ViewKind::kRanks};
  const Conversion conversion = open_conversion(options);
  std::vector<const OutputFile*> files;
  for (const std::string& path : paths) files.push_back(&shown_file(conversion, path));
  if (files.empty()) files = exported_files(conversion);

  const StopSignals signals;
  const std::size_t workers = given.has("jobs") ? given.number_as<std::size_t>("jobs")
                                                : std::max(1U, std::thread::hardware_concurrency());
  constexpr std::uint64_t kMemory = std::uint64_t{256} << 20U;
  BlockEngineOptions engine = block_engine_options(workers, kMemory);
  engine.stop = &signals.flag();
  Progress progress;
  engine.progress = &progress;
  std::uint64_t bytes = 0;
  for (const OutputFile* file : files) bytes += file->file->size();
  progress.start("hashing", bytes, files.size());
  try {
    ProgressDisplay display(progress, log.quiet);
    display.sum_up_at_end();
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

}  // namespace reshardfs
