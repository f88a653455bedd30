// SPDX-License-Identifier: Apache-2.0
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "reshardfs/error.h"

#include "base/file_name.h"
#include "base/near_name.h"
#include "cli/app.h"
#include "cli/command.h"
#include "cli/conversion_arguments.h"
#include "cli/shown_file.h"
#include "cli/stop_signals.h"

namespace reshardfs {
namespace {

struct CatArguments {
  ConversionArguments conversion;
  std::string file;
  std::string parameter;
  bool npy = false;
};

/// @return false if nobody reads any more.
bool write_out(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(STDOUT_FILENO, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0 && errno == EPIPE) return false;
    if (written < 0) throw io_error("write", "standard output", errno);
    bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
  return true;
}

void write_file_out(const VirtualFile& file, std::uint64_t offset) {
  constexpr std::uint64_t kBlockBytes = std::uint64_t{1} << 20U;
  std::vector<std::byte> block(std::min<std::uint64_t>(kBlockBytes, file.size()));
  while (offset < file.size()) {
    const auto part =
        std::span(block).first(std::min<std::uint64_t>(block.size(), file.size() - offset));
    file.read_at(offset, part);
    if (!write_out(part)) return;
    offset += part.size();
  }
}

/// Where the elements begin: behind the magic, the version, and a text whose length stands before
/// it in two bytes (version 1) or four.
std::uint64_t npy_data_offset(const VirtualFile& file) {
  constexpr std::size_t kLengthAt = 8;
  std::array<std::byte, 12> begin{};
  file.read_at(0, begin);
  const std::size_t length_bytes = std::to_integer<unsigned>(begin[6]) == 1 ? 2 : 4;
  std::uint64_t length = 0;
  for (std::size_t i = 0; i < length_bytes; ++i) {
    length |= std::to_integer<std::uint64_t>(begin.at(kLengthAt + i)) << (8 * i);
  }
  return kLengthAt + length_bytes + length;
}

/// The name of the array that a file of merged/params has.
std::optional<std::string> parameter_of(std::string_view path) {
  constexpr std::string_view kDirectory = "merged/params/";
  if (!path.starts_with(kDirectory) || !path.ends_with(kParameterFileExtension)) return {};
  path.remove_prefix(kDirectory.size());
  path.remove_suffix(kParameterFileExtension.size());
  return from_file_path(path);
}

const OutputFile& parameter_file(const Conversion& conversion, const std::string& name) {
  const std::string path =
      "merged/params/" + to_file_path(name) + std::string(kParameterFileExtension);
  for (const OutputFile& file : conversion.files()) {
    if (file.path == path) return file;
  }
  std::vector<std::string> names;
  for (const OutputFile& file : conversion.files()) {
    if (const auto known = parameter_of(file.path)) names.push_back(*known);
  }
  throw Error(ErrorKind::kMissing, "the conversion has no array with this name")
      .for_parameter(name)
      .hint(did_you_mean(name, names))
      .hint(
          "'reshardfs inspect' lists the names; "
          "merged/params.json has the values of texts");
}

void check_arguments(const CatArguments& arguments) {
  if (arguments.file.empty() == arguments.parameter.empty()) {
    throw Error(ErrorKind::kUsage, "cat needs either a FILE or --param NAME")
        .hint("see 'reshardfs cat --help'");
  }
  if (arguments.npy && arguments.parameter.empty()) {
    throw Error(ErrorKind::kUsage, "--npy needs --param NAME");
  }
  if (::isatty(STDOUT_FILENO) == 1) {
    throw Error(ErrorKind::kUsage, "standard output is a terminal, and the file is binary")
        .hint("add '> FILE' or '| COMMAND'");
  }
}

int run_cat(const CatArguments& arguments) {
  check_arguments(arguments);
  arguments.conversion.log.apply();
  ConversionOptions options = arguments.conversion.options();
  if (!arguments.parameter.empty()) options.views = {ViewKind::kParams};
  const Conversion conversion = open_conversion(options);
  // 'cat | head' ends without a word.
  ignore_signal(SIGPIPE);
  if (!arguments.parameter.empty()) {
    const VirtualFile& file = *parameter_file(conversion, arguments.parameter).file;
    write_file_out(file, arguments.npy ? 0 : npy_data_offset(file));
    return kExitDone;
  }
  const std::shared_ptr<const VirtualFile> file = shown_file(conversion, arguments.file).file;
  const std::shared_ptr<const VirtualFile> live = file->snapshot();
  write_file_out(live != nullptr ? *live : *file, 0);
  return kExitDone;
}

}  // namespace

void add_cat_command(CLI::App& app, CommandAction& action) {
  auto arguments = std::make_shared<CatArguments>();
  CLI::App* command = app.add_subcommand("cat", "Print one file of a mount, or one parameter");
  command->add_option("SOURCE", arguments->conversion.source, "A checkpoint, as for mount")
      ->required();
  command->add_option("FILE", arguments->file, "A path in the mount");
  command
      ->add_option("--param", arguments->parameter,
                   "Print the raw bytes of a whole parameter instead of FILE")
      ->type_name("NAME")
      ->take_last();
  command->add_flag("--npy", arguments->npy, "With --param: print a NumPy file");
  arguments->conversion.add_to(*command);
  command->footer(
      "Example: save one parameter for NumPy\n  reshardfs cat ckpt --src-strategy train.ckpt "
      "--param lm_head.weight --npy > head.npy");
  command->callback([&action, arguments] { action = [arguments] { return run_cat(*arguments); }; });
}

}  // namespace reshardfs
