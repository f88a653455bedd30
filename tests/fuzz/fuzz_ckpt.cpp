// SPDX-License-Identifier: Apache-2.0
#include "format/ckpt/ckpt.h"
#include "fuzz/fuzzing.h"
#include "support/sources.h"

using namespace reshardfs;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const test::MemorySource source(std::string(reinterpret_cast<const char*>(data), size));
  fuzz::may_refuse([&] { fuzz::check_index(ckpt::read_index(source), size); });
  fuzz::may_refuse([&] { ckpt::read_trailer(source); });
  fuzz::may_refuse([&] { ckpt::check_crc(source); });
  return 0;
}
