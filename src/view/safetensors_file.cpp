// SPDX-License-Identifier: Apache-2.0
#include "view/safetensors_file.h"

#include <utility>

namespace reshardfs {

SafetensorsFile::SafetensorsFile(std::shared_ptr<const TargetTable> table, std::int64_t own_rank,
                                 std::vector<const TargetParameter*> parameters,
                                 std::shared_ptr<const Common> common)
    : TensorFile(std::move(table), own_rank),
      parameters_(std::move(parameters)),
      common_(std::move(common)) {
  set_size(header().file_bytes());
}

/// Made twice, for the size and for the first reader: those of all ranks would take much memory.
safetensors::Header SafetensorsFile::header() const {
  std::vector<safetensors::HeaderTensor> tensors;
  tensors.reserve(parameters_.size());
  for (const TargetParameter* parameter : parameters_) {
    tensors.push_back(
        {parameter->name, parameter->dtype, target().slice_shape(*parameter, rank())});
  }
  return safetensors::make_header(tensors, common_->metadata, common_->align);
}

std::unique_ptr<FileImage> SafetensorsFile::build() const {
  const safetensors::Header head = header();
  auto image = std::make_unique<FileImage>(target().source().checkpoint_ptr());
  image->append_literal(head.bytes);
  for (const std::size_t number : head.order) {
    const TargetParameter& parameter = *parameters_[number];
    image->append({target().view(parameter, rank()), parameter.dtype});
  }
  return image;
}

std::vector<const TargetParameter*> arrays_of(const TargetTable& target, std::int64_t rank) {
  std::vector<const TargetParameter*> arrays;
  for (const TargetParameter& parameter : target.parameters()) {
    if (is_array(parameter.dtype) && target.has(parameter, rank)) arrays.push_back(&parameter);
  }
  return arrays;
}

}  // namespace reshardfs
