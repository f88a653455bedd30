// SPDX-License-Identifier: Apache-2.0
#include "view/files/scalar_value.h"

#include <array>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <span>

#include "plan/reading/content.h"

namespace reshardfs {
namespace {

using ScalarValue = std::optional<std::variant<std::int64_t, double>>;

template <typename Value>
Value value_in(std::span<const std::byte> bytes) {
  Value value{};
  std::memcpy(&value, bytes.data(), sizeof value);
  return value;
}

ScalarValue finite(double number) {
  return std::isfinite(number) ? ScalarValue(number) : std::nullopt;
}

}  // namespace

ScalarValue scalar_value(const Holding& holding) {
  const DType dtype = holding.entry->dtype;
  std::array<std::byte, 8> space{};
  const auto length = static_cast<std::uint64_t>(element_size(dtype));
  if (!is_array(dtype) || holding.entry->content_bytes != length || length > space.size()) {
    return std::nullopt;
  }
  const std::span<std::byte> bytes(space.data(), static_cast<std::size_t>(length));
  ReadBatch batch;
  read_content(holding, 0, bytes, batch);
  batch.check();
  switch (dtype) {
    case DType::kInt32:
      return value_in<std::int32_t>(bytes);
    case DType::kInt64:
      return value_in<std::int64_t>(bytes);
    case DType::kFloat32:
      return finite(value_in<float>(bytes));
    case DType::kFloat64:
      return finite(value_in<double>(bytes));
    default:
      return std::nullopt;
  }
}

}  // namespace reshardfs
