// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <memory>
#include <optional>
#include <string_view>
#include <system_error>
#include <thread>
#include <vector>

#include <fmt/format.h>

#include "reshardfs/error.h"

#include "base/process/signals.h"
#include "base/text/url_path.h"
#include "cli/app.h"
#include "cli/command.h"
#include "cli/json_answer.h"
#include "cli/progress_display.h"
#include "cli/shown_words.h"
#include "cli/words/conversion_words.h"
#include "cli/words/share_argument.h"
#include "cli/words/shared_words.h"
#include "conversion/identity.h"
#include "daemon/open_conversion.h"
#include "export/checksums.h"
#include "export/exporter.h"
#include "export/folder_target.h"
#include "export/planned_files.h"
#include "export/single_file.h"
#include "fuse/event_log.h"
#include "report/text/json_output.h"
#include "report/text/text.h"
#include "storage/location.h"
#include "view/view.h"

namespace reshardfs {
namespace {

void print_result(const ExportResult& result, const std::string& directory, double seconds,
                  const std::optional<Share>& share) {
  std::string text = share ? fmt::format("share {}: ", to_string(*share)) : "";
  text += fmt::format("{} of {} written to {} in {}", human_bytes(result.written_bytes),
                      counted(result.written_files, "file"), printable(directory),
                      pace_text(result.written_bytes, seconds));
  if (result.shared_bytes > 0) {
    text += fmt::format("; {} of them shared with the source", human_bytes(result.shared_bytes));
  }
  if (result.resumed_bytes > 0) {
    text += fmt::format("; {} of unfinished files were there already, checked",
                        human_bytes(result.resumed_bytes));
  }
  if (result.kept_files > 0) {
    text += fmt::format("; {} of {} {} there already, checked", human_bytes(result.kept_bytes),
                        result.kept_files, result.kept_files == 1 ? "file was" : "files were");
  }
  if (result.removed_files > 0) {
    text += fmt::format("; {} of an earlier export removed", counted(result.removed_files, "file"));
  }
  if (result.incomplete) {
    text += fmt::format("; share {} is not complete yet", to_string(*result.incomplete));
  } else if (share) {
    text += fmt::format("; all shares are complete, see {}", kChecksumFile);
  }
  std::cout << text << "\n";
}

using Clock = std::chrono::steady_clock;

int tell_of_interruption(const Interrupted& stop, const StopSignals& signals) {
  std::cerr << "reshardfs: interrupted; repeat the command to resume"
            << (stop.left().empty() ? "" : "; ") << stop.left() << "\n";
  return signals.exit_code();
}

void print_share(const ChosenShare& share, const Conversion& conversion) {
  std::cout << fmt::format("share {}{}: {}\n", to_string(share.share),
                           share.from.empty() ? "" : " (" + share.from + ")",
                           share_words(files_of_share(exported_files(conversion), share.share)))
            << std::flush;
}

/// Threads that send wait for the store most of the time.
constexpr std::size_t kSenders = 16;

/// Files that other programs would write.
bool is_other_file(const std::string& extension) {
  constexpr std::array<std::string_view, 9> kOthers{".pkl",  ".npz", ".npy", ".h5",        ".gguf",
                                                    ".onnx", ".tar", ".zip", ".safetensor"};
  return std::find(kOthers.begin(), kOthers.end(), extension) != kOthers.end();
}

/// What a target that is a file is to have; nothing: it is a directory.
std::optional<OutputFormat> file_format_of(const std::string& target) {
  std::error_code failed;
  if (is_url(target) || std::filesystem::is_directory(target, failed)) return std::nullopt;
  const std::filesystem::path extension = std::filesystem::path(target).extension();
  if (extension == ".safetensors") return OutputFormat::kSafetensors;
  if (extension == ".ckpt") return OutputFormat::kCkpt;
  if (extension == ".pt" || extension == ".pth" || extension == ".bin") return OutputFormat::kTorch;
  if (is_other_file(extension.string())) {
    throw Error(ErrorKind::kUsage, "export writes no " + extension.string() +
                                       " files, and a directory has no such name")
        .in_file(target)
        .hint(
            "name model.safetensors, model.ckpt or model.pt for one file with the whole model, or "
            "'" +
            printable(target) + "/' for a directory");
  }
  return std::nullopt;
}

void refuse_for_file(const Given& given, const std::string& target) {
  for (const char* option :
       {"dst-strategy", "ranks", "views", "format", "share", "checksum", "reflink"}) {
    if (!given.has(option)) continue;
    throw Error(ErrorKind::kUsage, "--" + std::string(option) + " is for a directory, and '" +
                                       printable(target) + "' is to be a file with the whole model")
        .hint("name a directory, or leave the option out");
  }
}

/// The only file that the view has.
std::shared_ptr<const VirtualFile> whole_model(const Conversion& conversion) {
  std::shared_ptr<const VirtualFile> found;
  for (const OutputFile& output : conversion.files()) {
    if (output.hidden) continue;
    if (found != nullptr) throw Error(ErrorKind::kInternal, "the whole model has several files");
    found = output.file;
  }
  if (found == nullptr) throw Error(ErrorKind::kInternal, "the whole model has no file");
  return found;
}

std::size_t workers_of(const Given& given) {
  if (given.has("jobs")) return given.number_as<std::size_t>("jobs");
  const std::size_t processors = std::max(1U, std::thread::hardware_concurrency());
  return is_url(given.argument("OUTDIR")) ? std::max(processors, kSenders) : processors;
}

/// MindSpore reads no sizes and no rules: the strategy of its files goes beside them in its own
/// form.
std::vector<ViewKind> default_views(const ConversionOptions& options) {
  const auto& formats = options.formats;
  const bool writes_ckpt =
      std::find(formats.begin(), formats.end(), OutputFormat::kCkpt) != formats.end();
  const bool is_made = !options.dst_sizes.empty() ||
                       (options.dst_strategy && options.dst_strategy->extension() == ".toml");
  if (writes_ckpt && is_made) return {ViewKind::kRanks, ViewKind::kStrategy};
  return {ViewKind::kRanks};
}

/// An export that is ready to begin.
struct Prepared {
  ConversionOptions source;
  Conversion conversion;
  std::string target;                ///< as it was given
  std::optional<OutputFormat> file;  ///< of a target that is a file
  std::optional<ChosenShare> share{};
  ExportOptions options{};
};

/// The whole model in one file.
Prepared prepare_file(const Given& given, OutputFormat format) {
  const std::string target = given.argument("OUTDIR");
  refuse_for_file(given, target);
  ConversionOptions source = conversion_options(given);
  require_outside(target, source.source.path);
  source.views = {ViewKind::kMerged};
  source.formats = {format};
  return {source, open_conversion(source), target, format};
}

Prepared prepare_directory(const Given& given) {
  std::optional<ChosenShare> share;
  const std::string share_text = given.text("share");
  if (!share_text.empty()) {
    share = choose_share(share_text, [](const char* name) { return std::getenv(name); });
  }
  ConversionOptions source = conversion_options(given);
  if (source.views.empty()) source.views = default_views(source);
  source.as_in_source = given.flag("reflink");
  return {source, open_conversion(source), given.argument("OUTDIR"), std::nullopt, share};
}

Prepared prepare(const Given& given) {
  const auto format = file_format_of(given.argument("OUTDIR"));
  Prepared prepared = format ? prepare_file(given, *format) : prepare_directory(given);
  ExportOptions& options = prepared.options;
  const std::size_t workers = workers_of(given);
  options.directory = prepared.target;
  options.force = given.flag("force");
  options.checksums = given.flag("checksum");
  options.reflink = given.flag("reflink");
  options.memory = given.size("memory");
  options.engine = block_engine_options(workers, options.memory);
  if (prepared.share) options.share = prepared.share->share;
  if (!prepared.file && is_url(prepared.target)) {
    if (options.reflink) {
      throw Error(ErrorKind::kUsage, "--reflink is for a directory: a store shares no blocks");
    }
    options.directory = absolute_location(prepared.target);
    options.engine.workers = workers;
  }
  return prepared;
}

/// @throws Interrupted.
ExportResult write(Prepared& prepared, Progress& progress, const std::atomic<bool>& stop) {
  ExportOptions& options = prepared.options;
  const Conversion& conversion = prepared.conversion;
  options.engine.stop = &stop;
  options.engine.progress = &progress;
  if (prepared.file) {
    const std::string identity = conversion_identity(prepared.source, conversion.source_files(),
                                                     ConversionAccess::inputs(conversion));
    return export_file(whole_model(conversion), prepared.target, prepared.source.source.path,
                       identity, options.force, options.engine);
  }
  ExportResult result = export_conversion(conversion, prepared.source, options);
  if (options.reflink && result.written_files > 0 && result.shared_bytes == 0) {
    result.warnings.emplace_back(
        "--reflink has shared nothing: no 64 KiB of a file lie in its blocks as they lie in the "
        "source's");
  }
  return result;
}

void tell_warnings(const ExportResult& result) {
  for (const std::string& warning : result.warnings) {
    log_warning(LogEvent::kConversionWarning, "{}", warning);
  }
}

}  // namespace

std::string export_json(const Given& given, Progress& progress) {
  Prepared prepared = prepare(given);
  const ExportResult result = write(prepared, progress, progress.stopped());
  tell_warnings(result);
  const auto share_text = [](const std::optional<Share>& share) {
    return share ? to_string(*share) : std::string();
  };
  return json_text([&](JsonWriter& json) {
    json.member("written_files", result.written_files);
    json.member("written_bytes", result.written_bytes);
    json.member("kept_files", result.kept_files);
    json.member("kept_bytes", result.kept_bytes);
    json.member("resumed_bytes", result.resumed_bytes);
    json.member("shared_bytes", result.shared_bytes);
    json.member("removed_files", result.removed_files);
    json.member_or_null("share", share_text(prepared.options.share));
    json.member_or_null("incomplete", share_text(result.incomplete));
    json.texts("warnings", result.warnings);
    json.member_or_null("unstated", prepared.conversion.unstated());
  });
}

int run_export(const Given& given) {
  const LogSettings log = log_settings(given);
  log.apply();
  // A file size limit is an error like a full disk.
  ignore_signal(SIGXFSZ);
  const auto begun = Clock::now();
  Prepared prepared = prepare(given);
  if (prepared.share && !log.quiet) print_share(*prepared.share, prepared.conversion);
  const StopSignals signals;
  Progress progress;
  ExportResult result;
  try {
    const ProgressDisplay display(progress, log.quiet);
    result = write(prepared, progress, signals.flag());
  } catch (const Interrupted& stop) {
    return tell_of_interruption(stop, signals);
  }
  tell_warnings(result);
  const double seconds = std::chrono::duration<double>(Clock::now() - begun).count();
  if (!log.quiet) {
    print_result(result, prepared.target, seconds, prepared.options.share);
    const std::string cast = cast_words(prepared.conversion, prepared.source);
    if (!cast.empty()) std::cout << cast << "\n";
    const std::string& unstated = prepared.conversion.unstated();
    if (!unstated.empty()) std::cout << "unknown " << unstated << "\n";
  }
  return kExitDone;
}

}  // namespace reshardfs
