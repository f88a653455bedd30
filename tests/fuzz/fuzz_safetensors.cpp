// SPDX-License-Identifier: Apache-2.0
#include "format/safetensors/safetensors.h"
#include "fuzz/fuzzing.h"
#include "support/sources.h"

using namespace reshardfs;

/// The input is a file, or (first byte odd) a header, whose length is put before it.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  std::string bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  if (data[0] % 2 == 1) {
    // As many bytes of tensors behind it as the first byte says.
    const std::size_t header = bytes.size();
    std::string length(8, '\0');
    for (std::size_t i = 0; i < 8; ++i) length[i] = static_cast<char>(header >> (8 * i) & 0xff);
    bytes = length + bytes + std::string(data[0] / 2, 'x');
  }
  const test::MemorySource source(bytes, "memory.safetensors");
  fuzz::may_refuse([&] { fuzz::check_index(safetensors::read_index(source), bytes.size()); });
  // What has parts of tensors by its name.
  const test::MemorySource part(bytes, "shard-00001-model-00001-of-00001.safetensors");
  fuzz::may_refuse([&] { fuzz::check_index(safetensors::read_index(part), bytes.size()); });
  fuzz::may_refuse([&] { safetensors::read_metadata(source); });
  fuzz::may_refuse([&] { safetensors::check_crc(source); });
  return 0;
}
