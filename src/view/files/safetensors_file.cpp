// SPDX-License-Identifier: Apache-2.0
#include "view/files/safetensors_file.h"

#include <cstring>
#include <utility>

#include "plan/target/slice_shapes.h"
#include "view/files/recent_texts.h"

namespace reshardfs {

SafetensorsFile::SafetensorsFile(std::shared_ptr<const TargetTable> table, Rank own_rank,
                                 std::vector<const TargetParameter*> parameters,
                                 std::shared_ptr<const Common> common)
    : PartedFile(std::move(table), own_rank),
      parameters_(std::move(parameters)),
      common_(std::move(common)) {
  set_size(safetensors::file_bytes(slices(), common_->metadata, common_->align,
                                   target().order_by_name(parameters_)));
}

SafetensorsFile::SafetensorsFile(std::shared_ptr<const TargetTable> table, Rank own_rank,
                                 std::shared_ptr<const Common> common)
    : PartedFile(std::move(table), own_rank), common_(std::move(common)) {}

SafetensorsFile::~SafetensorsFile() {
  recent_texts().forget(this);
}

std::vector<safetensors::HeaderTensor> SafetensorsFile::slices() const {
  std::vector<safetensors::HeaderTensor> tensors;
  tensors.reserve(parameters_.size());
  SliceShapes shapes(target(), rank());
  for (const TargetParameter* parameter : parameters_) {
    tensors.push_back({parameter->name, parameter->dtype, shapes.of(*parameter)});
  }
  return tensors;
}

/// Made when it is read: those of all ranks would take much memory.
safetensors::Header SafetensorsFile::header() const {
  // The order is empty if a derived class has tensors of its own.
  return safetensors::make_header(tensors(), metadata(), common_->align,
                                  target().order_by_name(parameters_));
}

std::vector<PartedFile::Stretch> SafetensorsFile::stretches() const {
  const safetensors::Header head = header();
  // Whoever reads data has read the header, or will.
  recent_texts().get(this, [&] { return head.bytes; });
  std::vector<Stretch> stretches;
  stretches.reserve(head.order.size() + 1);
  stretches.push_back({0, kFrame});
  for (const std::size_t number : head.order) {
    const std::uint64_t begin = head.bytes.size() + head.data_offsets[number];
    // What has no bytes begins where the next one does.
    if (begin == stretches.back().begin) stretches.pop_back();
    stretches.push_back({begin, number});
  }
  if (stretches.back().begin == size()) stretches.pop_back();
  return stretches;
}

void SafetensorsFile::append_to(FileImage& image, std::size_t number) const {
  const TargetParameter& parameter = *parameters_[number];
  image.append({target().view(parameter, rank()), parameter.source->dtype, parameter.dtype});
}

void SafetensorsFile::read_frame(std::uint64_t offset, std::span<std::byte> out) const {
  const auto bytes = recent_texts().get(this, [this] { return header().bytes; });
  std::memcpy(out.data(), bytes->data() + offset, out.size());
}

std::vector<const TargetParameter*> arrays_of(const TargetTable& target, Rank rank) {
  std::vector<const TargetParameter*> arrays;
  for (const TargetParameter& parameter : target.parameters()) {
    if (is_array(parameter.dtype) && target.has(parameter, rank)) arrays.push_back(&parameter);
  }
  return arrays;
}

}  // namespace reshardfs
