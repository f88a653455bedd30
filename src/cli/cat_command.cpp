// SPDX-License-Identifier: Apache-2.0
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "reshardfs/error.h"
#include "reshardfs/tensor.h"

#include "base/posix/read_write.h"
#include "base/process/signals.h"
#include "base/text/near_name.h"
#include "base/text/shell_text.h"
#include "cli/app.h"
#include "cli/command.h"
#include "cli/shown_file.h"
#include "cli/words/conversion_words.h"
#include "cli/words/shared_words.h"
#include "daemon/open_conversion.h"
#include "format/npy.h"

namespace reshardfs {
namespace {

/// @return false if nobody reads any more.
bool write_out(std::span<const std::byte> bytes) {
  const int failed =
      write_all(STDOUT_FILENO, {reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  if (failed != 0 && failed != EPIPE) throw io_error("write", "standard output", failed);
  return failed == 0;
}

void write_blocks_out(std::uint64_t size,
                      const std::function<void(std::uint64_t, std::span<std::byte>)>& read) {
  constexpr std::uint64_t kBlockBytes = std::uint64_t{1} << 20U;
  std::vector<std::byte> block(std::min(kBlockBytes, size));
  for (std::uint64_t offset = 0; offset < size;) {
    const auto part = std::span(block).first(std::min<std::uint64_t>(block.size(), size - offset));
    read(offset, part);
    if (!write_out(part)) return;
    offset += part.size();
  }
}

std::vector<std::string> names_of_arrays(const TensorSet& tensors) {
  std::vector<std::string> names;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    TensorInfo info = tensors.info(i);
    if (is_array(info.dtype)) names.push_back(std::move(info.name));
  }
  return names;
}

/// A whole parameter that is an array.
Tensor array_named(const Conversion& conversion, const std::string& name) {
  const TensorSet tensors = conversion.whole_tensors();
  const auto index = tensors.find(name);
  if (index && is_array(tensors.info(*index).dtype)) return tensors.at(*index);
  const std::vector<std::string> names = names_of_arrays(tensors);
  throw Error(ErrorKind::kMissing, "the conversion has no array with this name")
      .for_parameter(name)
      .hint(did_you_mean(name, names))
      .hint(
          "'reshardfs inspect' lists the names; "
          "merged/params.json has the values of texts");
}

/// "did you mean --param NAME?" if a file's name is that of an array; else empty.
std::string parameter_meant_by(const Conversion& conversion, const std::string& file) {
  try {
    const auto near = near_name(file, names_of_arrays(conversion.whole_tensors()));
    return near ? "did you mean '--param " + shell_word(*near) + "'?" : std::string();
  } catch (const Error&) {
    return {};
  }
}

const OutputFile& file_named(const Conversion& conversion, const std::string& path) {
  try {
    return shown_file(conversion, path);
  } catch (const Error& error) {
    if (path.find('/') != std::string::npos || error.kind() != ErrorKind::kMissing) throw;
    const std::string hint = parameter_meant_by(conversion, path);
    if (hint.empty()) throw;
    throw Error(error.kind(), error.message()).hint(hint);
  }
}

void write_parameter_out(const Tensor& array, bool npy) {
  if (npy && is_packed(array.dtype())) {
    throw Error(ErrorKind::kUnsupported,
                "has elements of " + std::string(mindspore_name(array.dtype())) +
                    ", which share bytes, and NumPy files cannot hold such elements")
        .for_parameter(array.name())
        .hint("leave out --npy to print the bytes");
  }
  if (npy) {
    const std::string header = npy::header(array.dtype(), array.shape());
    if (!write_out(std::as_bytes(std::span(header)))) return;
  }
  write_blocks_out(array.bytes(), [&](std::uint64_t offset, std::span<std::byte> block) {
    array.read(offset, block);
  });
}

void check_cat_words(const Given& given) {
  const bool has_parameter = !given.text("param").empty();
  if (given.argument("FILE").empty() != has_parameter) {
    throw Error(ErrorKind::kUsage, "cat needs either a FILE or --param NAME")
        .hint("run: " + command_line("inspect", {given.argument("SOURCE")}, {"--list"}))
        .hint("see 'reshardfs cat --help'");
  }
  if (given.flag("npy") && !has_parameter) {
    throw Error(ErrorKind::kUsage, "--npy needs --param NAME");
  }
  if (::isatty(STDOUT_FILENO) == 1) {
    throw Error(ErrorKind::kUsage, "standard output is a terminal, and the file is binary")
        .hint("add '> FILE' or '| COMMAND'");
  }
}

}  // namespace

int run_cat(const Given& given) {
  check_cat_words(given);
  log_settings(given).apply();
  ConversionOptions options = conversion_options(given);
  // Incomplete checkpoints are read, too.
  options.partial = true;
  const std::string parameter = given.text("param");
  if (!parameter.empty()) options.views = {ViewKind::kParams};
  const Conversion conversion = open_conversion(options);
  // 'cat | head' ends without a word.
  ignore_signal(SIGPIPE);
  if (!parameter.empty()) {
    write_parameter_out(array_named(conversion, parameter), given.flag("npy"));
    return kExitDone;
  }
  const std::shared_ptr<const VirtualFile> shown =
      file_named(conversion, given.argument("FILE")).file;
  const std::shared_ptr<const VirtualFile> live = shown->snapshot();
  const VirtualFile& file = live != nullptr ? *live : *shown;
  write_blocks_out(file.size(), [&](std::uint64_t offset, std::span<std::byte> block) {
    file.read_at(offset, block);
  });
  return kExitDone;
}

}  // namespace reshardfs
