// SPDX-License-Identifier: Apache-2.0
#include "format/torch/torch_zip_tensors.h"
#include "fuzz/fuzzing.h"
#include "support/sources.h"

using namespace reshardfs;

/// The input is an archive behind one other byte.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const test::MemorySource source("x" + std::string(reinterpret_cast<const char*>(data), size),
                                  "memory.distcp");
  const ByteRange place(1, size);
  const auto check = [&](const TorchTensor& tensor) {
    fuzz::require(place.contains(tensor.storage), "a storage leaves the archive");
    const auto width = static_cast<std::uint64_t>(element_size(tensor.dtype));
    std::uint64_t last = static_cast<std::uint64_t>(tensor.first);
    bool empty = false;
    for (std::size_t d = 0; d < tensor.shape.size(); ++d) {
      if (tensor.shape[d] == 0) empty = true;
      if (tensor.shape[d] < 1) continue;
      last += static_cast<std::uint64_t>((tensor.shape[d] - 1) * tensor.strides[d]);
    }
    fuzz::require(empty || (last + 1) * width <= tensor.storage.length(),
                  "an element leaves its storage");
  };
  fuzz::may_refuse([&] { check(read_torch_tensor(source, place)); });
  fuzz::may_refuse([&] {
    for (const TorchTensor& tensor : read_torch_tensors(source, place)) check(tensor);
  });
  return 0;
}
