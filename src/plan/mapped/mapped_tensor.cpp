// SPDX-License-Identifier: Apache-2.0
#include "plan/mapped/mapped_tensor.h"

#include <utility>

#include "base/checked.h"

namespace reshardfs {

MappedTensor::MappedTensor(std::string name, DType dtype, std::shared_ptr<const FormWalk> walk,
                           const std::vector<CellGridPtr>& sources)
    : walk_(std::move(walk)), sources_(sources.begin(), sources.end()) {
  entry_.name = std::move(name);
  entry_.dtype = dtype;
  entry_.shape = walk_->form().shape;
  entry_.content_bytes = static_cast<std::uint64_t>(
      mul_or_throw(element_count(entry_.shape), element_size(dtype), "the tensor's size"));
  std::size_t cells = 0;
  for (const CellGridPtr& source : sources) {
    first_cells_.push_back(cells);
    cells += source->cell_count();
  }
}

void MappedTensor::for_each_source(const Region& region, std::size_t first_cell,
                                   VisitSource visit) const {
  walk_->visit(region, [&](std::int64_t source, const Nest& nest) {
    if (source < 0) {
      const std::vector<std::byte> bytes = Literal{source, nest.from}.bytes(entry_.dtype);
      return visit({.nest = nest, .literal = &bytes});
    }
    const auto number = static_cast<std::size_t>(source);
    sources_[number].for_each_source(nest, first_cell + first_cells_[number], visit);
  });
}

CellGridPtr mapped_grid(std::shared_ptr<const MappedTensor> tensor) {
  auto pattern = std::make_shared<CellPattern>(CellPattern::uncut(tensor->shape()));
  std::vector<const TensorEntry*> entries;
  std::vector<const TensorEntry*> of_replicas;
  for (const ShownTensor& view : tensor->sources()) {
    const CellGrid& source = view.grid();
    const std::size_t first = pattern->files.size();
    for (std::size_t cell = 0; cell < source.cell_count(); ++cell) {
      const Holding holding = source.cell(cell);
      pattern->files.push_back(holding.file);
      entries.push_back(holding.entry);
    }
    for (std::size_t i = 0; i < source.replica_count(); ++i) {
      const CellGrid::Replica replica = source.replica_at(i);
      if (!replica.holding) continue;
      pattern->replicas.emplace_back(first + replica.cell, replica.holding.file);
      of_replicas.push_back(replica.holding.entry);
    }
  }
  entries.insert(entries.end(), of_replicas.begin(), of_replicas.end());
  const TensorEntry& like = tensor->entry();
  pattern->mapped = std::move(tensor);
  return std::make_shared<const CellGrid>(std::move(pattern), std::move(entries), like);
}

}  // namespace reshardfs
