// SPDX-License-Identifier: Apache-2.0
#include "format/dcp_table.h"
#include "format/pickle_globals.h"
#include "format/pickle_tree.h"
#include "fuzz/fuzzing.h"

using namespace reshardfs;

/// The input is a .metadata; what is read of it keeps what DcpTable promises.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string bytes(reinterpret_cast<const char*>(data), size);
  fuzz::may_refuse([&] { PickleTree(bytes, pickle::kArchiveRules); });
  fuzz::may_refuse([&] {
    const DcpTable table = read_dcp_table(bytes);
    for (const DcpTensor& tensor : table.tensors) {
      std::int64_t covered = 0;
      for (std::size_t i = 0; i < tensor.boxes; ++i) {
        const auto bounds = table.box_bounds(tensor, i);
        std::int64_t elements = 1;
        for (std::size_t d = 0; d < tensor.shape.size(); ++d) {
          const std::int64_t begin = bounds[d];
          const std::int64_t length = bounds[tensor.shape.size() + d];
          fuzz::require(begin >= 0 && length > 0 && begin + length <= tensor.shape[d],
                        "a box leaves its tensor");
          elements *= length;
        }
        covered += elements;
        fuzz::require(table.places[tensor.first_box + i].file < table.files.size(),
                      "a box is in no file");
      }
      fuzz::require(covered == element_count(tensor.shape), "boxes are not all of a tensor");
    }
    for (const std::string& file : table.files) {
      fuzz::require(!file.empty() && file.front() != '/' && file != "..", "a file is elsewhere");
    }
  });
  return 0;
}
