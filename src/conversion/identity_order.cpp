// SPDX-License-Identifier: Apache-2.0
#include "conversion/identity_order.h"

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "reshardfs/dtype.h"
#include "reshardfs/error.h"

#include "plan/reading/content.h"
#include "plan/target/shown_tensor.h"

namespace reshardfs {
namespace {

constexpr std::uint64_t kMostOrderBytes = std::uint64_t{1} << 20U;  // far more than any order has

[[noreturn]] void refuse(const SourceParameter& parameter, const std::string& why) {
  Error error(ErrorKind::kBadInput, why);
  error.for_parameter(parameter.name);
  throw error.hint(
      "the map puts experts in the order 0, 1, 2 and so on: save the checkpoint in that order, "
      "without the relocation of experts");
}

template <typename Number>
void require_order(const SourceParameter& parameter, const std::vector<std::byte>& bytes) {
  for (std::size_t i = 0; i * sizeof(Number) < bytes.size(); ++i) {
    Number number = 0;
    std::memcpy(&number, bytes.data() + i * sizeof(Number), sizeof(Number));
    if (number == static_cast<Number>(i)) continue;
    refuse(parameter, "its element " + std::to_string(i) + " is " + std::to_string(number) +
                          ": the experts of this layer are in another order");
  }
}

void require_identity(const SourceParameter& parameter) {
  if (!parameter.grid || !parameter.grid->complete()) {
    refuse(parameter, "it is not complete, so that the order of the experts is unknown");
  }
  const bool is_wide = parameter.dtype == DType::kInt64;
  const ShownTensor whole(parameter.grid);
  const bool is_order = (is_wide || parameter.dtype == DType::kInt32) &&
                        whole.shape().size() == 1 && whole.size() <= kMostOrderBytes;
  if (!is_order) refuse(parameter, "it is no list of integers that states an order of experts");
  std::vector<std::byte> bytes(static_cast<std::size_t>(whole.size()));
  ReadBatch batch;
  whole.read(0, bytes, batch);
  batch.check();
  if (is_wide) {
    require_order<std::int64_t>(parameter, bytes);
  } else {
    require_order<std::int32_t>(parameter, bytes);
  }
}

}  // namespace

void require_identities(const modelmap::Mapping& mapping, const SourceTable& source) {
  for (const std::uint32_t number : mapping.identities) {
    require_identity(source.parameters()[number]);
  }
}

}  // namespace reshardfs
