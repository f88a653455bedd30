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

constexpr std::array kFormats{
    InputFormat{"ckpt", ".ckpt", true, ckpt::read_index, ckpt::check_crc},
    InputFormat{"safetensors", ".safetensors", false, safetensors::read_index,
                safetensors::check_crc},
};

}  // namespace

std::span<const InputFormat> input_formats() {
  return kFormats;
}

const InputFormat& input_format_of(const std::filesystem::path& path) {
  const std::string extension = path.extension().string();
  for (const InputFormat& format : kFormats) {
    if (format.extension == extension) return format;
  }
  return kFormats.front();
}

FileIndex read_index(const InputFormat& format, const ByteSource& source, const NameOrders* known) {
  try {
    return format.read_index(source, known);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kBadInput) throw;
    const auto content = foreign_content(source);
    if (!content) throw;
    throw Error(ErrorKind::kBadInput, "is " + std::string(content->what))
        .in_file(source.name())
        .hint(std::string(content->advice));
  }
}

}  // namespace reshardfs
