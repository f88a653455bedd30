// SPDX-License-Identifier: Apache-2.0
#include "plan/mapped/added_constant.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "base/cast.h"
#include "base/checked.h"
#include "checkpoint/computed_elements.h"
#include "plan/target/shown_tensor.h"

namespace reshardfs {
namespace {

constexpr std::uint64_t kElementsAtOnce = 16ULL << 10U;

std::size_t width_of(DType dtype) {
  return static_cast<std::size_t>(element_size(dtype));
}

/// Elements of one type as those of another.
std::vector<std::byte> converted(const std::vector<std::byte>& elements, DType from, DType to) {
  const std::size_t count = elements.size() / width_of(from);
  std::vector<std::byte> out(count * width_of(to));
  cast_elements(from, elements.data(), to, out.data(), count);
  return out;
}

template <typename Real>
void add(std::vector<std::byte>& elements, float constant) {
  for (std::size_t at = 0; at < elements.size(); at += sizeof(Real)) {
    Real value;
    std::memcpy(&value, elements.data() + at, sizeof value);
    value += static_cast<Real>(constant);
    std::memcpy(elements.data() + at, &value, sizeof value);
  }
}

/// Memory: a few hundred KiB for each read.
class AddedConstant final : public ComputedElements {
 public:
  /// @param dtype of the sum.
  AddedConstant(const CellGridPtr& grid, DType dtype, float constant)
      : ComputedElements(width_of(dtype)), view_(grid), dtype_(dtype), constant_(constant) {}

  std::uint64_t size() const override {
    return mul_or_throw(view_.size() / width_of(view_.grid().dtype()),
                        static_cast<std::uint64_t>(width()), "the content's size");
  }

 private:
  void make(std::uint64_t first, std::uint64_t count, bool foreseen,
            std::byte* out) const override {
    while (count > 0) {
      const std::uint64_t some = std::min(count, kElementsAtOnce);
      const std::vector<std::byte> made = elements(first, some, foreseen);
      std::memcpy(out, made.data(), made.size());
      first += some;
      count -= some;
      out += made.size();
    }
  }

  std::vector<std::byte> elements(std::uint64_t first, std::uint64_t count, bool foreseen) const {
    const DType stored = view_.grid().dtype();
    std::vector<std::byte> read(count * width_of(stored));
    read_checked([&](ReadBatch& batch) { view_.read(first * width_of(stored), read, batch); },
                 foreseen);
    // An earlier map may cast, which rounds before the sum does.
    if (stored != dtype_) read = converted(read, stored, dtype_);
    if (dtype_ == DType::kFloat64) {
      add<double>(read, constant_);
      return read;
    }
    std::vector<std::byte> sums = converted(read, dtype_, DType::kFloat32);
    add<float>(sums, constant_);
    return converted(sums, DType::kFloat32, dtype_);
  }

  ShownTensor view_;
  DType dtype_;
  float constant_;
};

}  // namespace

RankFile with_constant(const CellGridPtr& grid, const modelmap::TargetTensor& target,
                       const RankFile& beside) {
  auto content = std::make_unique<const AddedConstant>(grid, target.dtype, target.added);
  auto source = std::make_shared<AppendedSource>(beside.source);
  TensorEntry entry;
  entry.name = target.name;
  entry.dtype = target.dtype;
  entry.shape = target.shape();
  entry.content_bytes = content->size();
  entry.extents.push_back(source->append(std::move(content)));
  std::vector<TensorEntry> entries;
  entries.push_back(std::move(entry));
  RankFile file{beside.rank, beside.path, std::move(source),
                std::make_shared<const FileIndex>(std::move(entries))};
  file.part = beside.part;
  return file;
}

CellGridPtr grid_of_computed(const CellGrid& grid, const RankFile& computed) {
  const TensorEntry& entry = computed.index->entries().front();
  auto pattern = std::make_shared<CellPattern>(CellPattern::uncut(grid.full_shape()));
  pattern->files.push_back(grid.complete() ? &computed : nullptr);
  return std::make_shared<const CellGrid>(std::move(pattern), entry);
}

}  // namespace reshardfs
