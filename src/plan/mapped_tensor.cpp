// SPDX-License-Identifier: Apache-2.0
#include "plan/mapped_tensor.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "reshardfs/error.h"

#include "base/checked.h"

namespace reshardfs {
namespace {

std::uint64_t unsigned_of(std::int64_t value) noexcept {
  return static_cast<std::uint64_t>(value);
}

/// Pieces of a full tensor, in elements: `count` of them, each of `length`.
struct Strided {
  std::int64_t first = 0;
  std::int64_t length = 1;
  std::int64_t count = 1;
  std::int64_t stride = 0;
  std::uint64_t destination = 0;  ///< bytes
};

}  // namespace

std::vector<std::int64_t> element_strides(const Shape& shape) {
  std::vector<std::int64_t> strides(shape.size(), 1);
  for (std::size_t d = shape.size(); d-- > 1;) strides[d - 1] = strides[d] * shape[d];
  return strides;
}

/// Turns pieces of a full source tensor into runs of its cells.
class MappedTensor::Splitter {
 public:
  Splitter(const MappedTensor& tensor, std::size_t source,
           const std::function<void(const StridedRun&)>& visit)
      : grid_(*tensor.sources_[source]),
        whole_(tensor.wholes_[source]),
        first_cell_(tensor.first_cells_[source]),
        element_(unsigned_of(element_size(tensor.entry_.dtype))),
        visit_(visit) {}

  void split(const Strided& pieces) const {
    // What is read again and again is read each time: a run's pieces do not overlap.
    const bool apart = pieces.count == 1 || pieces.stride >= pieces.length;
    if (apart && is_product() && grid_.cell_count() == 1) return in_one_cell(pieces);
    if (apart && pieces.length == 1 && pieces.count > 1 && along_a_dimension(pieces)) return;
    for (std::int64_t i = 0; i < pieces.count; ++i) {
      const std::uint64_t destination =
          pieces.destination + unsigned_of(i * pieces.length) * element_;
      one_piece(pieces.first + i * pieces.stride, pieces.length, destination);
    }
  }

 private:
  /// Whether its cells lie side by side: those of boxes do not, nor those that another map uses.
  bool is_product() const { return grid_.boxes() == nullptr && grid_.mapped() == nullptr; }

  void emit(StridedRun run) const {
    run.cell += first_cell_;
    visit_(run);
  }

  void in_one_cell(const Strided& pieces) const {
    StridedRun run;
    run.holding = grid_.cell(0);
    run.source_offset = unsigned_of(pieces.first) * element_;
    run.destination_offset = pieces.destination;
    run.length = unsigned_of(pieces.length) * element_;
    run.count = unsigned_of(pieces.count);
    run.source_stride = pieces.count == 1 ? run.length : unsigned_of(pieces.stride) * element_;
    run.destination_stride = run.length;
    emit(run);
  }

  void one_piece(std::int64_t first, std::int64_t length, std::uint64_t destination) const {
    const ByteRange bytes(unsigned_of(first) * element_, unsigned_of(length) * element_);
    whole_.for_each_run(bytes, [&](StridedRun run) {
      run.destination_offset = run.destination_offset - bytes.offset() + destination;
      emit(run);
    });
  }

  /// Single elements that lie along one dimension, as those of a transposed tensor do: they are as
  /// many runs as the cells that they cross. @return false if they do not.
  bool along_a_dimension(const Strided& pieces) const {
    if (!is_product()) return false;
    const Shape& shape = grid_.full_shape();
    const std::vector<std::int64_t> strides = element_strides(shape);
    std::size_t d = 0;
    while (d < shape.size() && strides[d] > pieces.stride) ++d;
    if (d == shape.size() || pieces.stride % strides[d] != 0) return false;
    const std::int64_t step = pieces.stride / strides[d];
    std::int64_t index = pieces.first / strides[d] % shape[d];
    if (index + (pieces.count - 1) * step >= shape[d]) return false;

    std::int64_t done = 0;
    while (done < pieces.count) {
      const AxisInterval interval = grid_.partitions()[d].locate(index);
      const std::int64_t count =
          std::min(pieces.count - done, (interval.end - index + step - 1) / step);
      in_cell(pieces, done, count, {d, step});
      done += count;
      index += count * step;
    }
    return true;
  }

  struct Along {
    std::size_t dimension = 0;
    std::int64_t step = 1;
  };

  /// Elements [done, done + count) of the pieces, which are in one cell.
  void in_cell(const Strided& pieces, std::int64_t done, std::int64_t count,
               const Along& along) const {
    const Shape& shape = grid_.full_shape();
    std::int64_t rest = pieces.first + done * pieces.stride;
    std::int64_t cell = 0;
    std::int64_t cell_stride = 1;
    std::int64_t offset = 0;  // elements in the cell
    std::int64_t inner = 1;   // of one index in the cell
    std::int64_t stride = 1;
    for (std::size_t d = shape.size(); d-- > 0;) {
      const AxisPartition& partition = grid_.partitions()[d];
      const std::int64_t at = rest % shape[d];
      rest /= shape[d];
      const AxisInterval interval = partition.locate(at);
      cell += interval.part * cell_stride;
      cell_stride *= partition.parts();
      offset += (interval.local_begin + at - interval.begin) * inner;
      if (d == along.dimension) stride = inner * along.step;
      inner *= partition.part_length(interval.part);
    }
    StridedRun run;
    run.cell = static_cast<std::size_t>(cell);
    run.holding = grid_.cell(run.cell);
    run.source_offset = unsigned_of(offset) * element_;
    run.destination_offset = pieces.destination + unsigned_of(done) * element_;
    run.length = element_;
    run.count = unsigned_of(count);
    run.source_stride = unsigned_of(stride) * element_;
    run.destination_stride = element_;
    emit(run);
  }

  const ShardGrid& grid_;
  const TensorView& whole_;
  std::size_t first_cell_;
  std::uint64_t element_;
  const std::function<void(const StridedRun&)>& visit_;
};

MappedTensor::MappedTensor(std::string name, DType dtype,
                           std::shared_ptr<const modelmap::RunTree> tree,
                           std::vector<ShardGridPtr> sources)
    : tree_(std::move(tree)), sources_(std::move(sources)) {
  entry_.name = std::move(name);
  entry_.dtype = dtype;
  entry_.shape = tree_->form().shape;
  entry_.content_bytes = unsigned_of(
      mul_or_throw(element_count(entry_.shape), element_size(dtype), "the tensor's size"));
  std::size_t cells = 0;
  for (const ShardGridPtr& source : sources_) {
    first_cells_.push_back(cells);
    cells += source->cell_count();
    wholes_.emplace_back(source);
  }
}

void MappedTensor::for_each_run(std::int64_t begin, std::int64_t end,
                                const std::function<void(const StridedRun&)>& visit) const {
  const auto element = unsigned_of(element_size(entry_.dtype));
  const auto visit_literal = [&](const modelmap::RunBlock& block) {
    const std::vector<std::byte> value =
        modelmap::Literal{block.source, block.first}.bytes(entry_.dtype);
    StridedRun run;
    run.literal = &value;
    run.destination_offset = unsigned_of(block.target - begin) * element;
    run.length = unsigned_of(block.count) * element;
    run.source_stride = run.length;
    run.destination_stride = run.length;
    visit(run);
  };
  tree_->for_each_block(begin, end, [&](const modelmap::RunBlock& block) {
    if (block.source < 0) return visit_literal(block);
    const Splitter splitter(*this, static_cast<std::size_t>(block.source), visit);
    // The innermost loops that make one piece, or pieces that are equally far apart.
    std::size_t outer = block.loop_count;
    Strided pieces;
    pieces.first = block.first;
    if (outer > 0 && block.loops.at(outer - 1).stride == 1) {
      pieces.length = block.loops.at(--outer).count;
    }
    if (outer > 0) {
      pieces.count = block.loops.at(outer - 1).count;
      pieces.stride = block.loops.at(--outer).stride;
    }
    const auto bytes = unsigned_of(pieces.length * pieces.count) * element;
    pieces.destination = unsigned_of(block.target - begin) * element;
    std::vector<std::int64_t> at(outer, 0);
    while (true) {
      splitter.split(pieces);
      pieces.destination += bytes;
      std::size_t loop = outer;
      while (loop > 0) {
        --loop;
        pieces.first += block.loops.at(loop).stride;
        if (++at[loop] < block.loops.at(loop).count) break;
        pieces.first -= block.loops.at(loop).stride * block.loops.at(loop).count;
        at[loop] = 0;
        if (loop == 0) return;
      }
      if (outer == 0) return;
    }
  });
}

ShardGridPtr mapped_grid(std::shared_ptr<const MappedTensor> tensor) {
  auto pattern = std::make_shared<ShardPattern>(ShardPattern::uncut(tensor->shape()));
  std::vector<const TensorEntry*> entries;
  std::vector<const TensorEntry*> of_replicas;
  for (const ShardGridPtr& source : tensor->sources()) {
    const std::size_t first = pattern->files.size();
    for (std::size_t cell = 0; cell < source->cell_count(); ++cell) {
      const Holding holding = source->cell(cell);
      pattern->files.push_back(holding.file);
      entries.push_back(holding.entry);
    }
    for (std::size_t i = 0; i < source->replica_count(); ++i) {
      const ShardGrid::Replica replica = source->replica_at(i);
      if (!replica.holding) continue;
      pattern->replicas.emplace_back(first + replica.cell, replica.holding.file);
      of_replicas.push_back(replica.holding.entry);
    }
  }
  entries.insert(entries.end(), of_replicas.begin(), of_replicas.end());
  const TensorEntry& like = tensor->entry();
  pattern->mapped = std::move(tensor);
  return std::make_shared<const ShardGrid>(std::move(pattern), std::move(entries), like);
}

}  // namespace reshardfs
