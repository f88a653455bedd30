// SPDX-License-Identifier: Apache-2.0
#include "strategy/guess_readings.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>
#include <set>

#include "layout/device_grid.h"

namespace reshardfs {
namespace {

/// Bounds the time for device counts of many factors.
constexpr std::size_t kMostLooks = 20'000;

constexpr int kFree = -1;  ///< an axis that cuts no dimension

std::vector<std::int64_t> prime_factors(std::int64_t number) {
  std::vector<std::int64_t> factors;
  for (std::int64_t p = 2; p * p <= number; ++p) {
    for (; number % p == 0; number /= p) factors.push_back(p);
  }
  if (number > 1) factors.push_back(number);
  return factors;
}

std::int64_t product(const std::vector<std::int64_t>& numbers) {
  return std::accumulate(numbers.begin(), numbers.end(), std::int64_t{1}, std::multiplies<>());
}

/// A device matrix of prime axes, and the dimension that each of them cuts.
struct Assignment {
  std::vector<std::int64_t> axes{};
  std::vector<int> dimension{};
  std::int64_t optimizer = 1;  ///< parts
};

/// Neighbours that cut the same dimension, or none, become one axis.
Layout layout_of(const Assignment& assignment, std::size_t dimensions) {
  Layout layout;
  std::vector<int> owners;
  for (std::size_t axis = 0; axis < assignment.axes.size(); ++axis) {
    if (!owners.empty() && owners.back() == assignment.dimension[axis]) {
      layout.device_matrix.back() *= assignment.axes[axis];
    } else {
      owners.push_back(assignment.dimension[axis]);
      layout.device_matrix.push_back(assignment.axes[axis]);
    }
  }
  if (owners.empty()) layout.device_matrix = {1};
  layout.tensor_map.resize(dimensions);
  for (std::size_t axis = 0; axis < owners.size(); ++axis) {
    if (owners[axis] == kFree) continue;
    const auto from_right = static_cast<int>(owners.size() - 1 - axis);
    layout.tensor_map[static_cast<std::size_t>(owners[axis])].push_back(from_right);
  }
  layout.optimizer_shard_size = assignment.optimizer == 1 ? 0 : assignment.optimizer;
  return layout;
}

/// The only dimension in which slices have different lengths; nothing if there are several.
std::optional<std::size_t> uneven_dimension(const DeviceSlices& slices) {
  std::optional<std::size_t> found;
  for (const Shape& shape : slices.shapes) {
    if (shape.size() != slices.dimensions()) return std::nullopt;
    for (std::size_t d = 0; d < shape.size(); ++d) {
      if (shape[d] == slices.shapes.front()[d]) continue;
      if (found && *found != d) return std::nullopt;
      found = d;
    }
  }
  return found;
}

class Search {
 public:
  Search(std::int64_t devices, const DeviceSlices& slices, const Shape& full_shape)
      : devices_(devices), slices_(slices), full_shape_(full_shape) {}

  Readings run() {
    const Shape& slice = slices_.shapes.front();
    if (slice.size() != full_shape_.size()) return {};
    if (!slices_.has_one_shape()) {
      uneven_ = uneven_dimension(slices_);
      if (!uneven_) return {};
    }
    std::vector<std::int64_t> splits;
    for (std::size_t d = 0; d < slice.size(); ++d) {
      if (d == uneven_) {
        splits.push_back(1);
        continue;
      }
      if (slice[d] <= 0 || full_shape_[d] % slice[d] != 0) return {};
      splits.push_back(full_shape_[d] / slice[d]);
      if (devices_ % splits.back() != 0) return {};
    }
    if (product(splits) > devices_) return {};
    for_each_order([&](const std::vector<std::int64_t>& axes) { look_at(axes, splits); });
    if (found_.too_many) found_.left.clear();
    return std::move(found_);
  }

 private:
  template <typename Use>
  void for_each_order(const Use& use) {
    std::vector<std::int64_t> axes = prime_factors(devices_);
    do {
      use(axes);
    } while (!found_.too_many && std::next_permutation(axes.begin(), axes.end()));
  }

  void look_at(const std::vector<std::int64_t>& axes, const std::vector<std::int64_t>& splits) {
    assignment_ = {axes, std::vector<int>(axes.size(), kFree), 1};
    if (uneven_) {
      for (std::int64_t parts = 2; parts <= devices_; ++parts) {
        std::vector<std::int64_t> with = splits;
        with[*uneven_] = parts;
        if (devices_ % product(with) == 0) assign(0, with);
      }
      return;
    }
    // Without an optimizer cut first: of equal readings the first one stays.
    for (std::int64_t parts = 1; parts <= splits.front(); ++parts) {
      if (splits.front() % parts != 0) continue;
      std::vector<std::int64_t> with = splits;
      with.front() /= parts;
      const std::int64_t mapped = product(with);
      if (devices_ % mapped != 0 || (devices_ / mapped) % parts != 0) continue;
      assignment_.optimizer = parts;
      assign(0, with);
    }
  }

  /// @param rest parts that each dimension still is to be cut into, by this axis and those after
  /// it.
  void assign(std::size_t axis, std::vector<std::int64_t>& rest) {
    if (found_.too_many) return;
    if (axis == assignment_.axes.size()) {
      if (product(rest) == 1) take();
      return;
    }
    const std::int64_t size = assignment_.axes[axis];
    assignment_.dimension[axis] = kFree;
    assign(axis + 1, rest);
    for (std::size_t d = 0; d < rest.size(); ++d) {
      if (rest[d] % size != 0) continue;
      rest[d] /= size;
      assignment_.dimension[axis] = static_cast<int>(d);
      assign(axis + 1, rest);
      rest[d] *= size;
    }
    assignment_.dimension[axis] = kFree;
  }

  void take() {
    if (++looks_ > kMostLooks) {
      found_.too_many = true;
      return;
    }
    Reading reading;
    reading.full_shape = full_shape_;
    reading.optimizer = assignment_.optimizer > 1;
    set_parts(reading);
    if (uneven_ && !set_lengths(reading)) return;
    const bool is_new = known_.insert(reading.parts).second;
    if (!is_new && reading.optimizer) return;
    found_.fitting += is_new ? 1 : 0;
    if (!explains(reading, slices_.contents)) return;
    std::vector<DimensionSplit> uneven = std::move(reading.layout.uneven);
    reading.layout = layout_of(assignment_, full_shape_.size());
    reading.layout.uneven = std::move(uneven);
    if (!is_new) return forget_optimizer(reading);
    found_.left.push_back(std::move(reading));
  }

  /// As reading_by(), without what costs time: most readings are thrown away again.
  void set_parts(Reading& reading) const {
    const std::vector<std::int64_t>& axes = assignment_.axes;
    reading.splits.assign(full_shape_.size(), 1);
    for (std::size_t axis = 0; axis < axes.size(); ++axis) {
      const int d = assignment_.dimension[axis];
      if (d != kFree) reading.splits[static_cast<std::size_t>(d)] *= axes[axis];
    }
    reading.splits.front() *= assignment_.optimizer;
    std::vector<std::int64_t> place(full_shape_.size());
    reading.parts.reserve(static_cast<std::size_t>(devices_));
    for (std::int64_t device = 0; device < devices_; ++device) {
      std::fill(place.begin(), place.end(), 0);
      std::int64_t free_place = 0;
      std::int64_t rest = device;
      std::int64_t stride = devices_;
      for (std::size_t axis = 0; axis < axes.size(); ++axis) {
        stride /= axes[axis];
        const int d = assignment_.dimension[axis];
        std::int64_t& own = d == kFree ? free_place : place[static_cast<std::size_t>(d)];
        own = own * axes[axis] + rest / stride;
        rest %= stride;
      }
      place.front() = place.front() * assignment_.optimizer + free_place % assignment_.optimizer;
      std::int64_t number = 0;
      for (std::size_t d = 0; d < place.size(); ++d) number = number * reading.splits[d] + place[d];
      reading.parts.push_back(static_cast<std::uint32_t>(number));
    }
  }

  /// Another order of the axes may do without the optimizer's cut.
  void forget_optimizer(const Reading& reading) {
    for (Reading& known : found_.left) {
      if (known.optimizer && known.parts == reading.parts) known = reading;
    }
  }

  /// Lengths of the parts of the uneven dimension, if each has one and they make up the whole.
  bool set_lengths(Reading& reading) const {
    const std::size_t d = *uneven_;
    std::vector<std::int64_t> lengths(static_cast<std::size_t>(reading.splits[d]), 0);
    std::int64_t behind = 1;
    for (std::size_t e = d + 1; e < reading.splits.size(); ++e) behind *= reading.splits[e];
    for (std::size_t device = 0; device < reading.parts.size(); ++device) {
      const std::int64_t part = (reading.parts[device] / behind) % reading.splits[d];
      std::int64_t& length = lengths[static_cast<std::size_t>(part)];
      const std::int64_t own = slices_.shape(device)[d];
      if (own < 1 || (length != 0 && length != own)) return false;
      length = own;
    }
    const std::int64_t total = std::accumulate(lengths.begin(), lengths.end(), std::int64_t{0});
    if (total != full_shape_[d]) return false;
    DimensionSplit split;
    const auto parts = static_cast<std::int64_t>(lengths.size());
    split.balanced = true;
    for (std::int64_t part = 0; part < parts; ++part) {
      const std::int64_t balanced = total / parts + (part < total % parts ? 1 : 0);
      if (lengths[static_cast<std::size_t>(part)] != balanced) split.balanced = false;
    }
    if (!split.balanced) split.lengths = lengths;
    reading.layout.uneven.resize(reading.splits.size());
    reading.layout.uneven[d] = split;
    return true;
  }

  const std::int64_t devices_;
  const DeviceSlices& slices_;
  const Shape& full_shape_;
  std::optional<std::size_t> uneven_{};
  Assignment assignment_{};
  std::set<std::vector<std::uint32_t>> known_{};
  std::size_t looks_ = 0;
  Readings found_{};
};

}  // namespace

bool Reading::is_whole() const {
  return std::all_of(splits.begin(), splits.end(), [](std::int64_t count) { return count == 1; });
}

Reading reading_by(const Layout& layout, const Shape& full_shape) {
  const DeviceGrid grid(layout);
  Reading reading{layout, full_shape, grid.splits(), {}, false};
  reading.parts.reserve(static_cast<std::size_t>(grid.devices()));
  for (std::int64_t device = 0; device < grid.devices(); ++device) {
    const std::vector<std::int64_t> parts = grid.parts_of(device);
    std::int64_t number = 0;
    for (std::size_t d = 0; d < parts.size(); ++d) number = number * reading.splits[d] + parts[d];
    reading.parts.push_back(static_cast<std::uint32_t>(number));
  }
  return reading;
}

bool DeviceSlices::is_constant() const {
  const auto differs = [&](std::uint32_t content) { return content != contents.front(); };
  return std::none_of(contents.begin(), contents.end(), differs) && blank.front();
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
  std::vector<std::uint32_t> content_of(reading.parts.size(), kNone);
  for (std::size_t device = 0; device < contents.size(); ++device) {
    std::uint32_t& content = content_of[reading.parts[device]];
    if (content == kNone) content = contents[device];
    if (content != contents[device]) return false;
  }
  return true;
}

Readings readings_of(std::int64_t devices, const DeviceSlices& slices, const Shape& full_shape) {
  if (slices.dimensions() == 0) return {};
  return Search(devices, slices, full_shape).run();
}

}  // namespace reshardfs
