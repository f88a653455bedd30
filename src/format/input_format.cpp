// SPDX-License-Identifier: Apache-2.0
#include "format/input_format.h"

#include <array>
#include <string>

#include "reshardfs/error.h"

#include "format/ckpt.h"
#include "format/foreign_content.h"
#include "format/safetensors.h"

namespace reshardfs {
namespace {

/// What it has is told by the table beside it alone.
FileIndex refuse_part(const ByteSource& source, const NameOrders* /*known*/) {
  throw Error(ErrorKind::kUnsupported, "is one file of a distributed checkpoint of PyTorch")
      .in_file(source.name())
      .hint("name the directory, which has a .metadata, as the source");
}

CrcCheck no_trailer(const ByteSource& /*source*/) {
  return CrcCheck::kNoTrailer;
}

constexpr std::array kFormats{
    InputFormat{"ckpt", ".ckpt", true, ckpt::read_index, ckpt::check_crc},
    InputFormat{"safetensors", ".safetensors", false, safetensors::read_index,
                safetensors::check_crc},
};

/// Not among the others: no pattern finds such files.
constexpr InputFormat kDcp{"dcp", ".distcp", false, refuse_part, no_trailer};

bool tells_what_it_is_not(const Error& error) {
  return error.message().starts_with("is not a");
}

/// Says so first; what a reader stumbled over comes behind it.
Error not_a_checkpoint(const Error& error, const ByteSource& source) {
  if (tells_what_it_is_not(error)) {
    return Error(ErrorKind::kBadInput, error.message()).in_file(source.name());
  }
  const std::string text = error.what();
  const std::string file = error.file().empty() ? "" : printable(error.file()) + ": ";
  return Error(ErrorKind::kBadInput, "is not a checkpoint: " + text.substr(file.size()))
      .in_file(source.name());
}

}  // namespace

std::span<const InputFormat> input_formats() {
  return kFormats;
}

const InputFormat& input_format_of(const std::filesystem::path& path) {
  const std::string extension = path.extension().string();
  for (const InputFormat& format : kFormats) {
    if (format.extension == extension) return format;
  }
  return extension == kDcp.extension ? kDcp : kFormats.front();
}

FileIndex read_index(const InputFormat& format, const ByteSource& source, const NameOrders* known) {
  try {
    return format.read_index(source, known);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kBadInput) throw;
    const auto content = foreign_content(source);
    if (!content && is_checkpoint_content(source) && !tells_what_it_is_not(error)) throw;
    if (!content) throw not_a_checkpoint(error, source);
    throw Error(ErrorKind::kBadInput, "is " + std::string(content->what))
        .in_file(source.name())
        .hint(std::string(content->advice));
  }
}

}  // namespace reshardfs
