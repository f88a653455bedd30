// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/items/item_copies.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>

#include "reshardfs/error.h"

#include "checkpoint/strided_read.h"
#include "format/torch/torch_tensor.h"

namespace reshardfs {
namespace {

constexpr std::uint64_t kBeginning = 4096;
/// Bytes compared of all tensors together: some tenths of a second.
constexpr std::uint64_t kMostCompared = 64ULL << 20U;

struct Copy {
  const ByteSource* source = nullptr;
  const TorchTensor* tensor = nullptr;
};

bool same_bytes(const Copy& a, const Copy& b, std::uint64_t limit) {
  constexpr std::size_t kBlock = 64U << 10U;
  const std::uint64_t end = std::min(content_bytes(a.tensor->shape, a.tensor->dtype), limit);
  std::vector<std::byte> left(static_cast<std::size_t>(std::min<std::uint64_t>(end, kBlock)));
  std::vector<std::byte> right(left.size());
  for (std::uint64_t at = 0; at < end; at += kBlock) {
    const auto count = static_cast<std::size_t>(std::min<std::uint64_t>(end - at, kBlock));
    const auto one = std::span(left).first(count);
    const auto other = std::span(right).first(count);
    read_strided(*a.source, *a.tensor, {at, one});
    read_strided(*b.source, *b.tensor, {at, other});
    if (!std::equal(one.begin(), one.end(), other.begin())) return false;
  }
  return true;
}

bool same_kind(const TorchTensor& a, const TorchTensor& b) {
  return a.dtype == b.dtype && a.shape == b.shape;
}

/// The first place of a name.
struct FirstCopy {
  Copy copy{};
  std::int64_t rank = 0;
  bool is_part = false;
};

}  // namespace

bool begin_equally(const OpenSave& one, const OpenSave& other) {
  const auto& left = one.saved.tensors;
  const auto& right = other.saved.tensors;
  const auto equal = [&](const TorchTensor& a, const TorchTensor& b) {
    return a.name == b.name && same_kind(a, b) &&
           same_bytes({&one.source, &a}, {&other.source, &b}, kBeginning);
  };
  return std::equal(left.begin(), left.end(), right.begin(), right.end(), equal);
}

void refuse_differing_copies(const ItemFiles& files, TorchRanks& ranks) {
  std::unordered_map<std::string_view, FirstCopy> known;
  std::uint64_t compared = 0;
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    const auto item = static_cast<std::size_t>(ranks.file(i).part);
    if (item < files.stated) continue;
    const std::int64_t rank = ranks.file(i).rank.number();
    const TorchSave& saved = ranks.saved(i);
    for (std::size_t t = 0; t < saved.tensors.size(); ++t) {
      const TorchTensor& tensor = saved.tensors[t];
      const bool is_part = saved.places.contains(t);
      const Copy copy{ranks.source(i).get(), &tensor};
      const auto [first, is_new] = known.emplace(tensor.name, FirstCopy{copy, rank, is_part});
      if (is_new || (is_part && first->second.is_part)) continue;
      const Copy& before = first->second.copy;
      const std::uint64_t limit =
          std::max(kBeginning, kMostCompared - std::min(kMostCompared, compared));
      const bool is_equal = is_part == first->second.is_part && same_kind(*before.tensor, tensor) &&
                            same_bytes(before, copy, limit);
      compared += std::min(limit, tensor.storage.length());
      if (is_equal) continue;
      ranks.refuse(tensor.name, "item '" + printable(files.items[item].name) +
                                    "' was saved without a resharder: no table states how rank " +
                                    std::to_string(first->second.rank) + "'s and rank " +
                                    std::to_string(rank) + "'s part belong together");
    }
  }
}

}  // namespace reshardfs
