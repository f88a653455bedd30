// SPDX-License-Identifier: Apache-2.0
#include "format/torch/dcp_join.h"
#include "format/torch/dcp_table.h"
#include "format/torch/pickle_globals.h"
#include "format/torch/pickle_tree.h"
#include "fuzz/fuzzing.h"

using namespace reshardfs;

namespace {

/// @return the elements of all boxes of a tensor, which are in it, and in a file.
std::int64_t boxed(const DcpTable& table, const DcpTensor& tensor) {
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
    const auto run = table.runs.find(tensor.first_box + i);
    fuzz::require(run == table.runs.end() || (run->second.first >= 0 &&
                                              elements <= run->second.elements - run->second.first),
                  "a box leaves its item");
    fuzz::require(table.places[tensor.first_box + i].file < table.files.size(),
                  "a box is in no file");
  }
  return covered;
}

void check_files(const DcpTable& table) {
  for (const std::string& file : table.files) {
    fuzz::require(!file.empty() && file.front() != '/' && file != "..", "a file is elsewhere");
  }
}

}  // namespace

/// The input is a .metadata; what is read of it keeps what DcpTable promises, also as that of each
/// of two ranks, which have replicas of each other.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string bytes(reinterpret_cast<const char*>(data), size);
  fuzz::may_refuse([&] { PickleTree(bytes, pickle::kArchiveRules); });
  fuzz::may_refuse([&] {
    const DcpTable table = read_dcp_table(bytes);
    for (const DcpTensor& tensor : table.tensors) {
      fuzz::require(boxed(table, tensor) == element_count(tensor.shape),
                    "boxes are not all of a tensor");
    }
    check_files(table);
  });
  fuzz::may_refuse([&] {
    DcpJoin join;
    for (int rank = 0; rank < 2; ++rank) {
      join.add(read_dcp_table(bytes, DcpTableKind::kOfOneRank));
    }
    const DcpTable table = join.finish();
    for (const DcpTensor& tensor : table.tensors) {
      fuzz::require(boxed(table, tensor) >= 2 * element_count(tensor.shape),
                    "boxes of two ranks are not twice a tensor");
    }
    check_files(table);
  });
  return 0;
}
