// SPDX-License-Identifier: Apache-2.0
#include "view/tensor_set.h"

#include <cstddef>
#include <numeric>
#include <utility>

#include "reshardfs/error.h"

#include "base/content_size.h"
#include "base/text/near_name.h"
#include "base/text/text.h"

namespace reshardfs {

std::optional<std::uint64_t> place_of_box(const ShownElements& view, const Shape& begin,
                                          const Shape& sizes) {
  const Shape& shape = view.shape();
  std::int64_t first = 0;
  // Before the last dimension of several rows that is cut, each one has a single index.
  bool is_cut = false;
  std::int64_t elements = 1;
  for (std::size_t d = shape.size(); d-- > 0;) {
    if (is_cut && sizes[d] > 1) return std::nullopt;
    is_cut = is_cut || sizes[d] < shape[d];
    first += begin[d] * elements;
    elements *= shape[d];
  }
  if (first == 0) return 0;
  // Of packed elements, several are one byte, or several bytes.
  const std::uint64_t units = std::gcd(view.size(), static_cast<std::uint64_t>(elements));
  return static_cast<std::uint64_t>(first) / (static_cast<std::uint64_t>(elements) / units) *
         (view.size() / units);
}

struct Tensor::State {
  State(std::shared_ptr<const TensorElements> whole, Shape from, Shape to)
      : elements(std::move(whole)),
        begin(std::move(from)),
        shape(std::move(to)),
        place(place_of_box(elements->view, begin, shape)),
        bytes(bytes_to_hold(shape, elements->view.dtype())) {
    if (place && !is_packed(elements->view.dtype())) return;
    try {
      ShownElements cut = elements->view.box(begin, shape);
      if (!place) box = std::move(cut);
    } catch (Error& error) {
      throw error.for_parameter(elements->name);
    }
  }

  std::shared_ptr<const TensorElements> elements;
  Shape begin;  ///< in the elements
  Shape shape;
  std::optional<std::uint64_t> place;  ///< see place_of_box()
  std::uint64_t bytes;
  std::optional<ShownElements> box{};  ///< where it has no place
  ForeseenFile reads{};                ///< of the box
};

namespace {

void read_view(const ShownElements& view, const ForeseenFile& reads, std::uint64_t offset,
               std::span<std::byte> out) {
  read_foreseen(
      reads, view.size(), offset, out,
      [&](std::uint64_t from, std::span<std::byte> part, ReadBatch& batch) {
        view.read(from, part, batch);
      },
      [&](const ByteRange& range, SourceSink& sink) { view.for_each_use(range, sink); }, [] {});
}

}  // namespace

Tensor::Tensor(std::shared_ptr<const State> state) : state_(std::move(state)) {}

const std::string& Tensor::name() const noexcept {
  return state_->elements->name;
}
DType Tensor::dtype() const noexcept {
  return state_->elements->view.dtype();
}
const Shape& Tensor::shape() const noexcept {
  return state_->shape;
}
std::uint64_t Tensor::bytes() const noexcept {
  return state_->bytes;
}

void Tensor::read(std::uint64_t offset, std::span<std::byte> out) const {
  const State& box = *state_;
  if (offset > box.bytes || out.size() > box.bytes - offset) {
    throw Error(ErrorKind::kUsage,
                "bytes " + std::to_string(offset) + " to " + std::to_string(offset + out.size()) +
                    " are not all in the tensor, whose size is " + std::to_string(box.bytes))
        .for_parameter(name());
  }
  if (out.empty()) return;
  try {
    if (box.box) return read_view(*box.box, box.reads, offset, out);
    // As part of the whole: boxes that are read one after the other are one stream.
    read_view(box.elements->view, *box.elements->reads, *box.place + offset, out);
  } catch (const Error& error) {
    // A copy: threads that wait for one read get one and the same exception.
    throw Error(error).for_parameter(name());
  }
}

Tensor Tensor::box(const Shape& begin, const Shape& end) const {
  const Shape& whole = shape();
  if (begin.size() != whole.size() || end.size() != whole.size()) {
    throw Error(ErrorKind::kUsage, "a box of " + counted(begin.size(), "dimension") +
                                       " in a tensor of shape " + to_string(whole))
        .for_parameter(name());
  }
  Shape from = state_->begin;
  Shape lengths(whole.size());
  for (std::size_t d = 0; d < whole.size(); ++d) {
    if (begin[d] < 0 || end[d] < begin[d] || end[d] > whole[d]) {
      throw Error(ErrorKind::kUsage, "a box from " + to_string(begin) + " to " + to_string(end) +
                                         " is not inside the tensor, whose shape is " +
                                         to_string(whole))
          .for_parameter(name());
    }
    from[d] += begin[d];
    lengths[d] = end[d] - begin[d];
  }
  return Tensor(
      std::make_shared<const State>(state_->elements, std::move(from), std::move(lengths)));
}

Tensor TensorAccess::whole(std::shared_ptr<const TensorElements> elements) {
  Shape shape = elements->view.shape();
  return Tensor(std::make_shared<const Tensor::State>(std::move(elements), Shape(shape.size(), 0),
                                                      std::move(shape)));
}

void TensorAccess::for_each_use(const Tensor& tensor, const ByteRange& bytes, SourceSink& sink) {
  const Tensor::State& state = *tensor.state_;
  if (state.box) return state.box->for_each_use(bytes, sink);
  state.elements->view.for_each_use(ByteRange(*state.place + bytes.offset(), bytes.length()), sink);
}

ShownElements elements_of(const TargetTable& table, Rank rank, const TargetParameter& parameter) {
  return {table.view(parameter, rank), parameter.source->dtype, parameter.dtype};
}

TensorSet::State::State(std::shared_ptr<const TargetTable> of, Rank held_by)
    : table(std::move(of)), rank(held_by) {
  for (const TargetParameter& parameter : table->parameters()) {
    if (!table->has(parameter, rank)) continue;
    numbers.emplace(parameter.name, parameters.size());
    parameters.push_back(&parameter);
  }
}

TensorSet::TensorSet(std::shared_ptr<const State> state) : state_(std::move(state)) {}

std::size_t TensorSet::size() const noexcept {
  return state_->parameters.size();
}

namespace {

const TargetParameter& parameter_at(const std::vector<const TargetParameter*>& parameters,
                                    std::size_t index) {
  if (index < parameters.size()) return *parameters[index];
  throw Error(ErrorKind::kUsage, "there is no tensor " + std::to_string(index) + ": there are " +
                                     std::to_string(parameters.size()));
}

}  // namespace

TensorInfo TensorSet::info(std::size_t index) const {
  const TargetParameter& parameter = parameter_at(state_->parameters, index);
  TensorInfo info{parameter.name, parameter.dtype,
                  state_->table->slice_shape(parameter, state_->rank), 0};
  info.bytes =
      static_cast<std::uint64_t>(content_size(info.shape, info.dtype, "the size of a tensor"));
  return info;
}

std::optional<std::size_t> TensorSet::find(std::string_view name) const {
  const auto found = state_->numbers.find(name);
  if (found == state_->numbers.end()) return std::nullopt;
  return found->second;
}

Tensor TensorSet::at(std::size_t index) const {
  const TargetParameter& parameter = parameter_at(state_->parameters, index);
  return TensorAccess::whole(std::make_shared<const TensorElements>(
      parameter.name, elements_of(*state_->table, state_->rank, parameter), state_->table,
      std::make_shared<const ForeseenFile>()));
}

Tensor TensorSet::at(std::string_view name) const {
  if (const auto index = find(name)) return at(*index);
  std::vector<std::string> names;
  for (const TargetParameter* parameter : state_->parameters) names.push_back(parameter->name);
  throw Error(ErrorKind::kMissing, "the target has no parameter of this name")
      .for_parameter(std::string(name))
      .hint(did_you_mean(name, names));
}

}  // namespace reshardfs
