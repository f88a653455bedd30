// SPDX-License-Identifier: Apache-2.0
#include "guess/guess_readings.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <utility>

#include "layout/device_grid.h"
#include "layout/normal_form.h"

namespace reshardfs {
namespace {

/// Bounds the time for device counts of many factors: devices of all layouts that are looked at.
constexpr std::size_t kMostLooks = 4'000'000;

using Numbers = std::vector<std::int64_t>;

Numbers prime_factors(std::int64_t number) {
  Numbers factors;
  for (std::int64_t p = 2; p * p <= number; ++p) {
    for (; number % p == 0; number /= p) factors.push_back(p);
  }
  if (number > 1) factors.push_back(number);
  return factors;
}

std::uint32_t part_number(const Numbers& place, const Numbers& splits) {
  std::int64_t number = 0;
  for (std::size_t d = 0; d < place.size(); ++d) number = number * splits[d] + place[d];
  return static_cast<std::uint32_t>(number);
}

bool is_balanced(const Numbers& lengths, std::int64_t total) {
  const auto parts = static_cast<std::int64_t>(lengths.size());
  for (std::int64_t part = 0; part < parts; ++part) {
    const std::int64_t balanced = total / parts + (part < total % parts ? 1 : 0);
    if (lengths[static_cast<std::size_t>(part)] != balanced) return false;
  }
  return true;
}

/// Meets the parts that a reading gives to devices with the shapes of their slices.
class LengthFitter {
 public:
  /// @param full_shape nullptr: any.
  LengthFitter(const DeviceSlices& slices, const Shape* full_shape)
      : slices_(slices), wanted_(full_shape) {}

  /// Sets the full shape, and the lengths of uneven cuts.
  /// @param optimizer into how many parts it cuts each part of dimension 0
  /// @return whether each part has one length, and they make up the whole.
  bool fit(Reading& reading, std::int64_t optimizer) const {
    reading.full_shape.resize(reading.splits.size());
    std::vector<DimensionSplit> uneven(reading.splits.size());
    for (std::size_t d = 0; d < reading.splits.size(); ++d) {
      const std::int64_t finer = d == 0 ? optimizer : 1;
      if (!fit_dimension(reading, d, finer, uneven[d])) return false;
    }
    const auto is_even = [](const DimensionSplit& split) { return split == DimensionSplit{}; };
    reading.layout.uneven.clear();
    if (!std::all_of(uneven.begin(), uneven.end(), is_even)) {
      reading.layout.uneven = std::move(uneven);
    }
    return true;
  }

 private:
  bool fit_dimension(Reading& reading, std::size_t d, std::int64_t finer,
                     DimensionSplit& split) const {
    const std::int64_t parts = reading.splits[d];
    if (slices_.has_one_shape()) {
      reading.full_shape[d] = slices_.shapes.front()[d] * parts;
    } else if (!fit_lengths(reading, d, finer, split)) {
      return false;
    }
    return wanted_ == nullptr || reading.full_shape[d] == (*wanted_)[d];
  }

  bool fit_lengths(Reading& reading, std::size_t d, std::int64_t finer,
                   DimensionSplit& split) const {
    Numbers lengths(static_cast<std::size_t>(reading.splits[d]), 0);
    std::int64_t behind = 1;
    for (std::size_t e = d + 1; e < reading.splits.size(); ++e) behind *= reading.splits[e];
    for (std::size_t device = 0; device < reading.parts.size(); ++device) {
      const std::int64_t part = (reading.parts[device] / behind) % reading.splits[d];
      std::int64_t& length = lengths[static_cast<std::size_t>(part)];
      const std::int64_t own = slices_.shape(device)[d];
      if (length != 0 && length != own) return false;
      length = own;
    }
    // The optimizer's parts of a part are equally long; the layout states the part.
    Numbers stated;
    for (std::size_t part = 0; part < lengths.size(); ++part) {
      const std::size_t first = part - part % static_cast<std::size_t>(finer);
      if (lengths[part] == 0 || lengths[part] != lengths[first]) return false;
      if (part == first) stated.push_back(lengths[part] * finer);
    }
    const std::int64_t total = std::accumulate(stated.begin(), stated.end(), std::int64_t{0});
    reading.full_shape[d] = total;
    const bool is_even = std::all_of(stated.begin(), stated.end(),
                                     [&](std::int64_t length) { return length == stated.front(); });
    if (is_even) return true;
    split.balanced = is_balanced(stated, total);
    if (!split.balanced) split.lengths = std::move(stated);
    return true;
  }

  const DeviceSlices& slices_;
  const Shape* wanted_;
};

/// A device matrix of prime axes, and the axes that cut each dimension, first axis major.
struct Assignment {
  Numbers axes{};
  std::vector<std::vector<std::size_t>> cut{};
};

/// Neighbours that cut the same dimension one after the other, or none, become one axis.
Layout layout_of(const Assignment& assignment, std::int64_t optimizer) {
  constexpr std::size_t kNone = ~std::size_t{0};
  const std::size_t count = assignment.axes.size();
  std::vector<std::size_t> dimension(count, kNone);
  std::vector<std::size_t> place(count, 0);
  for (std::size_t d = 0; d < assignment.cut.size(); ++d) {
    for (std::size_t i = 0; i < assignment.cut[d].size(); ++i) {
      dimension[assignment.cut[d][i]] = d;
      place[assignment.cut[d][i]] = i;
    }
  }
  Layout layout;
  std::vector<std::size_t> joined(count, 0);
  for (std::size_t axis = 0; axis < count; ++axis) {
    const bool joins = axis > 0 && dimension[axis] == dimension[axis - 1] &&
                       (dimension[axis] == kNone || place[axis] == place[axis - 1] + 1);
    if (joins) {
      layout.device_matrix.back() *= assignment.axes[axis];
    } else {
      layout.device_matrix.push_back(assignment.axes[axis]);
    }
    joined[axis] = layout.device_matrix.size() - 1;
  }
  if (count == 0) layout.device_matrix = {1};
  layout.tensor_map.resize(assignment.cut.size());
  for (std::size_t d = 0; d < assignment.cut.size(); ++d) {
    for (const std::size_t axis : assignment.cut[d]) {
      const auto from_right = static_cast<int>(layout.device_matrix.size() - 1 - joined[axis]);
      std::vector<int>& map = layout.tensor_map[d];
      if (map.empty() || map.back() != from_right) map.push_back(from_right);
    }
  }
  layout.optimizer_shard_size = optimizer == 1 ? 0 : optimizer;
  return layout;
}

class Search {
 public:
  /// @param full_shape nullptr: any.
  Search(std::int64_t devices, const DeviceSlices& slices, const Shape* full_shape)
      : devices_(devices), slices_(slices), full_shape_(full_shape), lengths_(slices, full_shape) {}

  Readings run() {
    if (!set_wanted()) return {};
    Numbers axes = prime_factors(devices_);
    do {
      assignment_ = {axes, std::vector<std::vector<std::size_t>>(wanted_.size())};
      parts_.assign(wanted_.size(), 1);
      set_digits();
      assign(0);
    } while (!found_.too_many && std::next_permutation(axes.begin(), axes.end()));
    return std::move(found_);
  }

 private:
  /// How many parts each dimension must have; 0: any number.
  /// @return whether the shapes can be those of slices at all.
  bool set_wanted() {
    const std::size_t dimensions = slices_.dimensions();
    if (full_shape_ != nullptr && full_shape_->size() != dimensions) return false;
    for (const Shape& shape : slices_.shapes) {
      if (shape.size() != dimensions) return false;
      if (std::any_of(shape.begin(), shape.end(), [](auto length) { return length < 1; })) {
        return false;
      }
    }
    wanted_.assign(dimensions, 0);
    if (full_shape_ == nullptr) return true;
    const Shape& slice = slices_.shapes.front();
    for (std::size_t d = 0; d < dimensions; ++d) {
      const bool is_even = std::all_of(slices_.shapes.begin(), slices_.shapes.end(),
                                       [&](const Shape& shape) { return shape[d] == slice[d]; });
      if (!is_even) continue;
      if ((*full_shape_)[d] % slice[d] != 0) return false;
      wanted_[d] = (*full_shape_)[d] / slice[d];
      if (wanted_[d] > devices_ || wanted_[d] == 0) return false;
    }
    return true;
  }

  /// The place of each device along each axis.
  void set_digits() {
    const Numbers& axes = assignment_.axes;
    digits_.assign(axes.size(), Numbers(static_cast<std::size_t>(devices_)));
    std::int64_t stride = devices_;
    for (std::size_t axis = 0; axis < axes.size(); ++axis) {
      stride /= axes[axis];
      for (std::int64_t device = 0; device < devices_; ++device) {
        digits_[axis][static_cast<std::size_t>(device)] = device / stride % axes[axis];
      }
    }
  }

  /// Lets an axis, and those after it, cut nothing or any dimension at any place in its order.
  void assign(std::size_t axis) {
    if (found_.too_many) return;
    if (axis == assignment_.axes.size()) return finish();
    assign(axis + 1);
    const std::int64_t size = assignment_.axes[axis];
    for (std::size_t d = 0; d < wanted_.size(); ++d) {
      const std::int64_t more = parts_[d] * size;
      if (wanted_[d] != 0 && wanted_[d] % more != 0) continue;
      parts_[d] = more;
      std::vector<std::size_t>& order = assignment_.cut[d];
      for (std::size_t place = 0; place <= order.size(); ++place) {
        order.insert(order.begin() + static_cast<std::ptrdiff_t>(place), axis);
        assign(axis + 1);
        order.erase(order.begin() + static_cast<std::ptrdiff_t>(place));
      }
      parts_[d] /= size;
    }
  }

  void finish() {
    for (std::size_t d = 1; d < wanted_.size(); ++d) {
      if (wanted_[d] != 0 && parts_[d] != wanted_[d]) return;
    }
    const std::int64_t holders = devices_ / product(parts_);
    if (wanted_.front() != 0) {
      const std::int64_t optimizer = wanted_.front() / parts_.front();
      if (optimizer <= holders) take(optimizer);
      return;
    }
    for (std::int64_t optimizer = 1; optimizer <= holders; ++optimizer) {
      // Rules state no other; a known shape decides it, and is not to exclude what files can state.
      if (full_shape_ != nullptr || holders % optimizer == 0) take(optimizer);
    }
  }

  void take(std::int64_t optimizer) {
    if (found_.too_many) return;
    looks_ += static_cast<std::size_t>(devices_);
    if (looks_ > kMostLooks) {
      found_.too_many = true;
      return;
    }
    Reading reading;
    set_parts(reading, optimizer);
    if (!lengths_.fit(reading, optimizer)) return;
    found_.fits = true;
    if (!explains(reading, slices_.contents)) return;
    std::vector<DimensionSplit> uneven = std::move(reading.layout.uneven);
    reading.layout = layout_of(assignment_, optimizer);
    reading.layout.uneven = std::move(uneven);
    keep(std::move(reading));
  }

  /// As reading_by(), without what costs time: most readings are thrown away again.
  void set_parts(Reading& reading, std::int64_t optimizer) const {
    reading.splits = parts_;
    reading.splits.front() *= optimizer;
    std::vector<bool> is_free(assignment_.axes.size(), true);
    for (const auto& order : assignment_.cut) {
      for (const std::size_t axis : order) is_free[axis] = false;
    }
    reading.parts.reserve(static_cast<std::size_t>(devices_));
    Numbers place(parts_.size());
    for (std::size_t device = 0; device < static_cast<std::size_t>(devices_); ++device) {
      for (std::size_t d = 0; d < place.size(); ++d) {
        place[d] = 0;
        for (const std::size_t axis : assignment_.cut[d]) {
          place[d] = place[d] * assignment_.axes[axis] + digits_[axis][device];
        }
      }
      if (optimizer > 1) {
        std::int64_t holder = 0;
        for (std::size_t axis = 0; axis < is_free.size(); ++axis) {
          if (is_free[axis]) holder = holder * assignment_.axes[axis] + digits_[axis][device];
        }
        place.front() = place.front() * optimizer + holder % optimizer;
      }
      reading.parts.push_back(part_number(place, reading.splits));
    }
  }

  /// Of layouts with the same boxes the one that does without an optimizer cut stays.
  void keep(Reading reading) {
    const auto [known, is_new] =
        known_.try_emplace(std::pair(reading.splits, reading.parts), found_.left.size());
    if (!is_new) {
      Reading& before = found_.left[known->second];
      const bool simpler = before.layout.optimizer_shard_size > reading.layout.optimizer_shard_size;
      if (simpler) before = std::move(reading);
      return;
    }
    found_.left.push_back(std::move(reading));
    if (found_.left.size() > kMostReadings) found_.too_many = true;
  }

  const std::int64_t devices_;
  const DeviceSlices& slices_;
  const Shape* full_shape_;
  LengthFitter lengths_;
  Numbers wanted_{};
  Assignment assignment_{};
  Numbers parts_{};  ///< of each dimension, by the axes assigned so far
  std::vector<Numbers> digits_{};
  /// The slices' lengths tell the full shape of the same parts.
  std::map<std::pair<Numbers, std::vector<std::uint32_t>>, std::size_t> known_{};
  std::size_t looks_ = 0;
  Readings found_{};
};

/// The reading, if the shapes fit.
std::optional<Reading> shaped_as(const Layout& layout, const DeviceSlices& slices,
                                 const Shape& full_shape) {
  const bool same_dimensions =
      std::all_of(slices.shapes.begin(), slices.shapes.end(), [&](const Shape& shape) {
        return shape.size() == full_shape.size() &&
               std::all_of(shape.begin(), shape.end(), [](auto length) { return length > 0; });
      });
  if (!same_dimensions || full_shape.size() != layout.tensor_map.size()) return std::nullopt;
  Reading reading = reading_by(layout, full_shape);
  const DeviceGrid grid(layout);
  if (!LengthFitter(slices, &full_shape).fit(reading, grid.optimizer_parts())) return std::nullopt;
  return reading;
}

}  // namespace

bool Reading::is_whole() const {
  return std::all_of(splits.begin(), splits.end(), [](std::int64_t count) { return count == 1; });
}

bool Reading::same_boxes(const Reading& other) const {
  return full_shape == other.full_shape && splits == other.splits && parts == other.parts;
}

void Readings::add(const Readings& more) {
  fits = fits || more.fits;
  too_many = too_many || more.too_many;
  left.insert(left.end(), more.left.begin(), more.left.end());
}

Reading reading_by(const Layout& layout, const Shape& full_shape) {
  const DeviceGrid grid(layout);
  Reading reading{layout, full_shape, grid.splits(), {}};
  reading.parts.reserve(static_cast<std::size_t>(grid.devices()));
  for (std::int64_t device = 0; device < grid.devices(); ++device) {
    reading.parts.push_back(part_number(grid.parts_of(device), reading.splits));
  }
  return reading;
}

std::optional<Reading> reading_as(const Layout& layout, const DeviceSlices& slices,
                                  const Shape& full_shape) {
  std::optional<Reading> reading = shaped_as(layout, slices, full_shape);
  if (reading && !explains(*reading, slices.contents)) return std::nullopt;
  return reading;
}

bool fits_shapes(const Layout& layout, const DeviceSlices& slices, const Shape& full_shape) {
  return shaped_as(layout, slices, full_shape).has_value();
}

bool DeviceSlices::is_constant() const {
  return !differ() && blank.front();
}

bool DeviceSlices::differ() const {
  return std::any_of(contents.begin(), contents.end(),
                     [&](std::uint32_t content) { return content != contents.front(); });
}

bool repeats(const Reading& reading, const DeviceSlices& slices) {
  std::map<std::uint32_t, std::uint32_t> part_of;
  for (std::size_t device = 0; device < reading.parts.size(); ++device) {
    if (slices.blank[device]) continue;
    const std::uint32_t part = reading.parts[device];
    if (part_of.try_emplace(slices.contents[device], part).first->second != part) return true;
  }
  return false;
}

bool explains(const Reading& reading, const std::vector<std::uint32_t>& contents) {
  constexpr std::uint32_t kNone = ~std::uint32_t{0};
  std::vector<std::uint32_t> content_of(static_cast<std::size_t>(product(reading.splits)), kNone);
  for (std::size_t device = 0; device < contents.size(); ++device) {
    std::uint32_t& content = content_of[reading.parts[device]];
    if (content == kNone) content = contents[device];
    if (content != contents[device]) return false;
  }
  return true;
}

Readings readings_of(std::int64_t devices, const DeviceSlices& slices, const Shape& full_shape) {
  if (slices.dimensions() == 0) return {};
  return Search(devices, slices, &full_shape).run();
}

Readings readings_of_any_shape(std::int64_t devices, const DeviceSlices& slices) {
  if (slices.dimensions() == 0) return {};
  return Search(devices, slices, nullptr).run();
}

}  // namespace reshardfs
