// SPDX-License-Identifier: Apache-2.0
#include <memory>
#include <string>
#include <vector>

#include "fuzz/fuzzing.h"
#include "modelmap/form_operations.h"
#include "unit/modelmap/reference.h"

using namespace reshardfs;
using namespace reshardfs::modelmap;
using reshardfs::modelmap::testing::Elements;
using reshardfs::test::places_of;

namespace {

constexpr std::int64_t kMostElements = 4096;

struct Tensor {
  NormalForm form;
  Elements elements;
};

/// Takes numbers off the input; 0 behind its end.
class Input {
 public:
  Input(const std::uint8_t* data, std::size_t size) : data_(data), size_(size) {}
  bool empty() const { return at_ >= size_; }
  std::int64_t number(std::int64_t limit) {
    return empty() ? 0 : static_cast<std::int64_t>(data_[at_++]) % limit;
  }

 private:
  const std::uint8_t* data_;
  std::size_t size_;
  std::size_t at_ = 0;
};

void slice_elements(Elements& elements, std::size_t d, const StepRange& range) {
  Shape shape = elements.shape;
  shape[d] = (range.stop - range.start + range.step - 1) / range.step;
  elements = elements.moved(shape, [&](std::vector<std::int64_t> index) {
    index[d] = range.start + index[d] * range.step;
    return index;
  });
}

/// @return false if what is asked for is impossible.
bool reshape_elements(Elements& elements, const Shape& shape) {
  if (element_count(shape) != element_count(elements.shape)) return false;
  elements.shape = shape;
  return true;
}

Elements joined(const Elements& a, const Elements& b, std::size_t d) {
  Shape shape = a.shape;
  shape[d] += b.shape[d];
  Elements out{shape, {}};
  std::vector<std::int64_t> index(shape.size(), 0);
  for (std::int64_t i = 0; i < element_count(shape); ++i) {
    std::vector<std::int64_t> from = index;
    const bool second = from[d] >= a.shape[d];
    if (second) from[d] -= a.shape[d];
    out.places.push_back(second ? b.at(from) : a.at(from));
    for (std::size_t k = shape.size(); k-- > 0;) {
      if (++index[k] < shape[k]) break;
      index[k] = 0;
    }
  }
  return out;
}

/// One operation on both; a form that refuses leaves both as they are.
void step(Tensor& tensor, Input& input) {
  const auto dimensions = static_cast<std::int64_t>(tensor.elements.shape.size());
  const std::int64_t kind = input.number(8);
  if (dimensions == 0) return;
  const std::int64_t dimension = input.number(dimensions);
  const auto d = static_cast<std::size_t>(dimension);
  const std::int64_t length = tensor.elements.shape[d];
  NormalForm form = tensor.form;
  Elements elements = tensor.elements;
  bool is_possible = true;
  const auto attempt = [&](auto&& apply) {
    const bool done = fuzz::may_refuse([&] { form = apply(std::move(form)); });
    if (!done) return;
    fuzz::require(is_possible, "an operation that is not possible");
    tensor = {std::move(form), std::move(elements)};
  };
  switch (kind) {
    case 0: {
      Shape shape;
      for (std::int64_t i = input.number(4); i >= 0; --i) shape.push_back(1 + input.number(16));
      is_possible = reshape_elements(elements, shape);
      return attempt([&](NormalForm f) { return reshape(std::move(f), shape); });
    }
    case 1: {
      std::vector<std::int64_t> order;
      for (std::int64_t i = 0; i < dimensions; ++i) order.push_back((i + dimension) % dimensions);
      Shape shape;
      for (const std::int64_t from : order) {
        shape.push_back(elements.shape[static_cast<std::size_t>(from)]);
      }
      elements = elements.moved(shape, [&](const auto& index) {
        std::vector<std::int64_t> from(index.size());
        for (std::size_t i = 0; i < order.size(); ++i) {
          from[static_cast<std::size_t>(order[i])] = index[i];
        }
        return from;
      });
      return attempt([&](NormalForm f) { return permute(std::move(f), order); });
    }
    case 2: {
      const StepRange range{input.number(9), input.number(20), 1 + input.number(3)};
      is_possible = range.start <= range.stop && range.stop <= length;
      if (is_possible) slice_elements(elements, d, range);
      return attempt([&](NormalForm f) { return slice(std::move(f), dimension, range); });
    }
    case 3: {
      const std::int64_t index = input.number(9);
      is_possible = index < length;
      if (is_possible) {
        slice_elements(elements, d, {index, index + 1, 1});
        elements.shape.erase(elements.shape.begin() + dimension);
      }
      return attempt([&](NormalForm f) { return take(std::move(f), dimension, index); });
    }
    case 4: {
      const std::int64_t parts = 1 + input.number(5);
      const std::int64_t part = input.number(6);
      is_possible = length % parts == 0 && part < parts;
      if (is_possible) {
        slice_elements(elements, d, {part * (length / parts), (part + 1) * (length / parts), 1});
      }
      return attempt([&](NormalForm f) { return split(std::move(f), dimension, parts, part); });
    }
    case 5: {
      if (2 * element_count(elements.shape) > kMostElements) return;
      elements = joined(elements, elements, d);
      return attempt([&](const NormalForm& f) { return concat({f, f}, dimension); });
    }
    case 6: {
      const std::int64_t times = 1 + input.number(3);
      if (times * element_count(elements.shape) > kMostElements) return;
      Shape shape = elements.shape;
      shape[d] *= times;
      elements = elements.moved(shape, [&](std::vector<std::int64_t> index) {
        index[d] /= times;
        return index;
      });
      return attempt([&](NormalForm f) { return repeat(std::move(f), dimension, times); });
    }
    default: {
      const std::int64_t wanted = input.number(12);
      is_possible = wanted >= length;
      if (is_possible && wanted > 0 &&
          element_count(elements.shape) / std::max<std::int64_t>(1, length) * wanted >
              kMostElements) {
        return;
      }
      if (is_possible) {
        Elements behind{elements.shape, {}};
        behind.shape[d] = wanted - length;
        behind.places.assign(static_cast<std::size_t>(element_count(behind.shape)),
                             {FormTerm::kInteger, 7});
        elements = joined(elements, behind, d);
      }
      return attempt(
          [&](NormalForm f) { return pad(std::move(f), dimension, wanted, Literal::integer(7)); });
    }
  }
}

}  // namespace

/// Operations on normal forms do to boxes what they do to a list of elements.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size > 256) return 0;
  Input input(data, size);
  Shape shape;
  for (std::int64_t i = input.number(3); i >= 0; --i) shape.push_back(1 + input.number(9));
  Tensor tensor{NormalForm::of_source(shape, 0), Elements::of_source(shape, 0)};
  while (!input.empty()) step(tensor, input);
  fuzz::require(tensor.form.shape == tensor.elements.shape, "another shape");
  fuzz::require(places_of(tensor.form) == tensor.elements.places, "other elements");
  return 0;
}
