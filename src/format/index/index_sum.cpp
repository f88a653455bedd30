// SPDX-License-Identifier: Apache-2.0
#include "format/index/index_sum.h"

#include <memory>
#include <new>
#include <string>
#include <type_traits>

#include <xxhash.h>

namespace reshardfs {
namespace {

struct FreeState {
  void operator()(XXH3_state_t* state) const noexcept { XXH3_freeState(state); }
};

class Sum {
 public:
  Sum() : state_(XXH3_createState()) {
    if (!state_) throw std::bad_alloc();
    XXH3_64bits_reset(state_.get());
  }

  void add(std::uint64_t number) { XXH3_64bits_update(state_.get(), &number, sizeof number); }
  /// With its length, so that two texts are not taken for one.
  void add(const std::string& text) {
    add(text.size());
    XXH3_64bits_update(state_.get(), text.data(), text.size());
  }
  std::uint64_t value() const { return XXH3_64bits_digest(state_.get()); }

 private:
  std::unique_ptr<XXH3_state_t, FreeState> state_;
};

template <typename Enum>
std::uint64_t number_of(Enum value) {
  return static_cast<std::uint64_t>(static_cast<std::underlying_type_t<Enum>>(value));
}

}  // namespace

std::uint64_t index_sum(const FileIndex& index) {
  Sum sum;
  sum.add(index.entries().size());
  for (const TensorEntry& entry : index.entries()) {
    sum.add(entry.name);
    sum.add(number_of(entry.dtype));
    sum.add(number_of(entry.encoding));
    sum.add(entry.content_bytes);
    sum.add(entry.shape.size());
    for (const auto extent : entry.shape) sum.add(static_cast<std::uint64_t>(extent));
    sum.add(entry.extents.size());
    for (const ByteRange& extent : entry.extents) {
      sum.add(extent.offset());
      sum.add(extent.length());
    }
    if (const auto offsets = index.box_offsets(entry)) {
      sum.add(offsets->size());
      for (const auto offset : *offsets) sum.add(static_cast<std::uint64_t>(offset));
    }
  }
  return sum.value();
}

}  // namespace reshardfs
