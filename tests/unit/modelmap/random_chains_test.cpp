// SPDX-License-Identifier: Apache-2.0
/// Random chains of operations, on normal forms and on lists of elements.
#include <algorithm>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "modelmap/form_inverse.h"
#include "modelmap/form_operations.h"
#include "reference.h"

namespace reshardfs::modelmap::testing::random_chains_tests {
namespace {

/// Tensors do not grow beyond a few times that.
constexpr std::size_t kMostElements = 600;

struct Pair {
  NormalForm form;
  Elements elements;
};

class Chain {
 public:
  explicit Chain(std::uint32_t seed) : random_(seed) {}

  Pair run() {
    Pair pair = fresh(random_shape());
    const std::int64_t count = number(1, 7);
    for (std::int64_t i = 0; i < count; ++i) step(pair);
    return pair;
  }
  std::string log() const { return log_.str(); }
  std::int64_t sources() const { return static_cast<std::int64_t>(shapes_.size()); }
  const Shape& shape_of(std::int64_t source) const {
    return shapes_[static_cast<std::size_t>(source)];
  }
  bool has_repeated() const { return repeated_; }
  std::int64_t number(std::int64_t lowest, std::int64_t highest) {
    return std::uniform_int_distribution<std::int64_t>(lowest, highest)(random_);
  }

 private:
  Shape random_shape() {
    Shape shape(static_cast<std::size_t>(number(1, 3)));
    for (std::int64_t& d : shape) d = number(1, 8);
    return shape;
  }
  Pair fresh(const Shape& shape) {
    log_ << " source" << to_string(shape);
    shapes_.push_back(shape);
    return {NormalForm::of_source(shape, sources() - 1), Elements::of_source(shape, sources() - 1)};
  }
  std::int64_t dimension(const Pair& pair) {
    return number(0, static_cast<std::int64_t>(pair.elements.shape.size()) - 1);
  }

  void step(Pair& pair) {
    if (pair.elements.shape.empty() || pair.elements.places.size() > kMostElements) return;
    switch (number(0, 7)) {
      case 0:
      case 1:
        return do_reshape(pair);
      case 2:
        return do_permute(pair);
      case 3:
        return do_slice(pair);
      case 4:
        return do_take_or_split(pair);
      case 5:
        return do_concat(pair);
      case 6:
        return do_stack(pair);
      default:
        return do_repeat_or_pad(pair);
    }
  }

  void do_reshape(Pair& pair) {
    std::int64_t rest = element_count(pair.elements.shape);
    Shape shape;
    while (rest > 1 && shape.size() < 4) {
      std::vector<std::int64_t> divisors;
      for (std::int64_t d = 1; d <= rest; ++d) {
        if (rest % d == 0) divisors.push_back(d);
      }
      shape.push_back(divisors[static_cast<std::size_t>(
          number(0, static_cast<std::int64_t>(divisors.size()) - 1))]);
      rest /= shape.back();
    }
    shape.push_back(rest);
    log_ << " reshape" << to_string(shape);
    pair.form = reshape(std::move(pair.form), shape);
    pair.elements.shape = shape;
  }

  void do_permute(Pair& pair) {
    std::vector<std::int64_t> order(pair.elements.shape.size());
    std::iota(order.begin(), order.end(), 0);
    std::shuffle(order.begin(), order.end(), random_);
    log_ << " permute" << to_string(order);
    pair.form = permute(std::move(pair.form), order);
    Shape shape;
    for (const std::int64_t d : order) shape.push_back(pair.elements.shape[std::size_t(d)]);
    pair.elements = pair.elements.moved(shape, [&](const auto& index) {
      std::vector<std::int64_t> from(index.size());
      for (std::size_t i = 0; i < order.size(); ++i) from[std::size_t(order[i])] = index[i];
      return from;
    });
  }

  void slice_elements(Pair& pair, std::int64_t dimension, const StepRange& range) {
    const auto d = static_cast<std::size_t>(dimension);
    Shape shape = pair.elements.shape;
    shape[d] = (range.stop - range.start + range.step - 1) / range.step;
    pair.elements = pair.elements.moved(shape, [&](std::vector<std::int64_t> index) {
      index[d] = range.start + index[d] * range.step;
      return index;
    });
  }

  void do_slice(Pair& pair) {
    const std::int64_t d = dimension(pair);
    StepRange range;
    const std::int64_t length = pair.elements.shape[static_cast<std::size_t>(d)];
    range.start = number(0, length);
    range.stop = number(range.start, length);
    if (range.start == range.stop && number(0, 20) > 0) range = {0, length, 1};
    range.step = number(0, 1) == 0 ? 1 : number(1, 4);
    log_ << " slice " << d << ' ' << range.start << ':' << range.stop << ':' << range.step;
    pair.form = slice(std::move(pair.form), d, range);
    slice_elements(pair, d, range);
  }

  void do_take_or_split(Pair& pair) {
    const std::int64_t d = dimension(pair);
    const std::int64_t length = pair.elements.shape[static_cast<std::size_t>(d)];
    if (length == 0) return;
    if (number(0, 1) == 0) {
      const std::int64_t index = number(0, length - 1);
      log_ << " take " << d << ' ' << index;
      pair.form = take(std::move(pair.form), d, index);
      slice_elements(pair, d, {index, index + 1, 1});
      pair.elements.shape.erase(pair.elements.shape.begin() + d);
      return;
    }
    std::int64_t parts = number(1, length);
    while (length % parts != 0) --parts;
    const std::int64_t part = number(0, parts - 1);
    log_ << " split " << d << ' ' << parts << ' ' << part;
    pair.form = split(std::move(pair.form), d, parts, part);
    slice_elements(pair, d, {part * (length / parts), (part + 1) * (length / parts), 1});
  }

  /// Another tensor of a shape, perhaps with other factors.
  Pair other(const Shape& shape) {
    if (number(0, 2) == 0) return fresh(shape);
    std::vector<std::int64_t> order(shape.size());
    std::iota(order.begin(), order.end(), 0);
    std::shuffle(order.begin(), order.end(), random_);
    Shape turned(shape.size());
    for (std::size_t i = 0; i < order.size(); ++i) turned[std::size_t(order[i])] = shape[i];
    const Shape back(order.begin(), order.end());
    Pair pair = fresh(turned);
    log_ << " (permute" << to_string(back) << ")";
    pair.form = permute(std::move(pair.form), back);
    pair.elements = pair.elements.moved(shape, [&](const auto& index) {
      std::vector<std::int64_t> from(index.size());
      for (std::size_t i = 0; i < order.size(); ++i) from[std::size_t(order[i])] = index[i];
      return from;
    });
    return pair;
  }

  void do_concat(Pair& pair) {
    const auto d = static_cast<std::size_t>(dimension(pair));
    std::vector<NormalForm> forms;
    std::vector<Elements> parts = {pair.elements};
    forms.push_back(std::move(pair.form));
    Shape joined = pair.elements.shape;
    for (std::int64_t i = number(0, 2); i >= 0; --i) {
      Shape shape = pair.elements.shape;
      shape[d] = number(number(0, 10) == 0 ? 0 : 1, 5);
      Pair next = other(shape);
      joined[d] += shape[d];
      forms.push_back(std::move(next.form));
      parts.push_back(std::move(next.elements));
    }
    log_ << " concat " << d;
    pair.form = concat(std::move(forms), static_cast<std::int64_t>(d));
    join_elements(pair, parts, joined, [&](std::vector<std::int64_t>& index) {
      std::size_t part = 0;
      while (index[d] >= parts[part].shape[d]) index[d] -= parts[part++].shape[d];
      return part;
    });
  }

  void do_stack(Pair& pair) {
    if (pair.elements.shape.size() == NormalForm::kMaxDimensions) return;
    const auto d = number(0, static_cast<std::int64_t>(pair.elements.shape.size()));
    std::vector<NormalForm> forms;
    std::vector<Elements> parts = {pair.elements};
    forms.push_back(std::move(pair.form));
    for (std::int64_t i = number(0, 2); i > 0; --i) {
      Pair next = other(pair.elements.shape);
      forms.push_back(std::move(next.form));
      parts.push_back(std::move(next.elements));
    }
    log_ << " stack " << d;
    Shape joined = pair.elements.shape;
    joined.insert(joined.begin() + d, static_cast<std::int64_t>(forms.size()));
    pair.form = stack(std::move(forms), d);
    join_elements(pair, parts, joined, [&](std::vector<std::int64_t>& index) {
      const auto part = static_cast<std::size_t>(index[static_cast<std::size_t>(d)]);
      index.erase(index.begin() + d);
      return part;
    });
  }

  template <typename PartOf>
  void join_elements(Pair& pair, const std::vector<Elements>& parts, const Shape& joined,
                     PartOf part_of) {
    // The element's number in its part is kept; which part it is, is told by the place.
    Elements out{joined, {}};
    std::vector<std::int64_t> index(joined.size(), 0);
    for (std::int64_t i = 0; i < element_count(joined); ++i) {
      std::vector<std::int64_t> inner = index;
      const std::size_t part = part_of(inner);
      out.places.push_back(parts[part].at(inner));
      for (std::size_t d = joined.size(); d-- > 0;) {
        if (++index[d] < joined[d]) break;
        index[d] = 0;
      }
    }
    pair.elements = std::move(out);
  }

  void do_repeat_or_pad(Pair& pair) {
    const std::int64_t d = dimension(pair);
    const auto at = static_cast<std::size_t>(d);
    const std::int64_t length = pair.elements.shape[at];
    Shape shape = pair.elements.shape;
    if (number(0, 1) == 0) {
      const std::int64_t times = number(1, 3);
      repeated_ = repeated_ || times > 1;
      log_ << " repeat " << d << ' ' << times;
      pair.form = repeat(std::move(pair.form), d, times);
      shape[at] *= times;
      pair.elements = pair.elements.moved(shape, [&](std::vector<std::int64_t> index) {
        index[at] /= times;
        return index;
      });
      return;
    }
    log_ << " pad " << d;
    shape[at] += number(0, 4);
    pair.form = pad(std::move(pair.form), d, shape[at], Literal::integer(7));
    const Elements before = pair.elements;
    std::vector<Elements> parts = {before, {shape, {}}};
    parts[1].places.assign(static_cast<std::size_t>(element_count(shape)), {FormTerm::kInteger, 7});
    join_elements(pair, parts, shape, [&](const std::vector<std::int64_t>& index) {
      return index[at] < length ? 0U : 1U;
    });
  }

  std::mt19937 random_;
  std::ostringstream log_;
  std::vector<Shape> shapes_{};
  bool repeated_ = false;
};

/// Where the elements of a source went: the first place of each, -1 for nowhere.
std::vector<std::int64_t> inverse_of(const Elements& target, std::int64_t source,
                                     std::int64_t elements, bool& twice) {
  std::vector<std::int64_t> places(static_cast<std::size_t>(elements), -1);
  for (std::size_t i = 0; i < target.places.size(); ++i) {
    if (target.places[i].first != source) continue;
    std::int64_t& place = places[static_cast<std::size_t>(target.places[i].second)];
    twice = twice || place != -1;
    if (place == -1) place = static_cast<std::int64_t>(i);
  }
  return places;
}

void check_inverse(const IndexedForm& form, const Elements& elements, std::int64_t source,
                   const Shape& shape) {
  bool twice = false;
  const auto places = inverse_of(elements, source, element_count(shape), twice);
  const Reading strict{&form, source, false};
  EXPECT_EQ(invert(shape, {&strict, 1}).overlap.has_value(), twice);
  const Reading reading{&form, source, true};
  const Inverse inverse = invert(shape, {&reading, 1});
  ASSERT_FALSE(inverse.overlap);
  EXPECT_EQ(inverse.undefined, std::count(places.begin(), places.end(), -1));
  if (inverse.undefined > 0) return;
  std::vector<Place> expected;
  for (const std::int64_t place : places) expected.emplace_back(0, place);
  EXPECT_EQ(inverse.form.shape, shape);
  EXPECT_EQ(places_of(inverse.form), expected);
}

void check_ranges(const Pair& pair, Chain& chain) {
  const FormWalk walk(std::make_shared<const NormalForm>(pair.form));
  const auto elements = static_cast<std::int64_t>(pair.elements.places.size());
  for (int i = 0; i < 3; ++i) {
    const std::int64_t begin = chain.number(0, elements);
    const std::int64_t end = chain.number(begin, elements);
    const std::vector<Place> expected(pair.elements.places.begin() + begin,
                                      pair.elements.places.begin() + end);
    EXPECT_EQ(places_of(walk, begin, end), expected) << begin << ".." << end;
  }
}

TEST(RandomChains, MoveElementsAsIndexVectorsDo) {
  const std::uint32_t first_seed = std::random_device()();
  for (std::uint32_t i = 0; i < 10'000; ++i) {
    Chain chain(first_seed + i);
    const Pair pair = chain.run();
    SCOPED_TRACE("seed " + std::to_string(first_seed + i) + ":" + chain.log());
    ASSERT_EQ(pair.form.shape, pair.elements.shape);
    ASSERT_EQ(places_of(pair.form), pair.elements.places);
    check_ranges(pair, chain);
    const IndexedForm indexed(pair.form);
    for (std::int64_t source = 0; source < chain.sources(); ++source) {
      check_inverse(indexed, pair.elements, source, chain.shape_of(source));
    }
    if (HasFailure()) break;
  }
}

}  // namespace
}  // namespace reshardfs::modelmap::testing::random_chains_tests
