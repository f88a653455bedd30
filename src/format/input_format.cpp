// SPDX-License-Identifier: Apache-2.0
#include "format/input_format.h"

#include <array>

#include "format/ckpt.h"
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

}  // namespace reshardfs
