// SPDX-License-Identifier: Apache-2.0
#include "reshardfs/layout.h"

#include <optional>

#include "base/checked.h"

namespace reshardfs {
namespace {

constexpr std::int64_t kMaxDevices = std::int64_t{1} << 20;
/// Far above what exists (tensors have at most 8 dimensions); bounds what a hostile file can cost.
constexpr std::size_t kMaxLayoutDimensions = 32;

std::string dimension_text(const std::vector<int>& axes) {
  if (axes.empty()) return "-1";
  if (axes.size() == 1) return std::to_string(axes.front());
  std::string out = "[";
  for (const int axis : axes) {
    if (out.size() > 1) out += ", ";
    out += std::to_string(axis);
  }
  return out + "]";
}

/// A list of any length as messages can bear it.
std::string short_list(const std::vector<std::int64_t>& lengths) {
  constexpr std::ptrdiff_t kShown = 8;
  if (std::ssize(lengths) <= kShown) return to_string(lengths);
  std::string out = to_string({lengths.begin(), lengths.begin() + kShown});
  out.pop_back();
  return out + ", ... of " + std::to_string(lengths.size()) + "]";
}

void check_tensor_map(const Layout& layout) {
  const std::size_t axis_count = layout.device_matrix.size();
  std::vector<bool> used(axis_count, false);
  for (const std::vector<int>& axes : layout.tensor_map) {
    for (const int axis : axes) {
      if (axis < 0 || static_cast<std::size_t>(axis) >= axis_count) {
        throw Error(ErrorKind::kBadInput,
                    "the tensor map names axis " + std::to_string(axis) +
                        ", but the device matrix " + to_string(layout.device_matrix) + " has " +
                        std::to_string(axis_count) + " axes, counted from 0 at its end");
      }
      if (used[static_cast<std::size_t>(axis)]) {
        throw Error(ErrorKind::kBadInput,
                    "the tensor map uses axis " + std::to_string(axis) + " twice");
      }
      used[static_cast<std::size_t>(axis)] = true;
    }
  }
}

}  // namespace

std::int64_t device_count(const Layout& layout) {
  std::int64_t devices = 1;
  for (const std::int64_t size : layout.device_matrix) {
    if (size < 1) {
      throw Error(ErrorKind::kBadInput, "the device matrix has an axis of size " +
                                            std::to_string(size) + ", expected at least 1");
    }
    const std::optional<std::int64_t> product = checked_mul(devices, size);
    if (!product || *product > kMaxDevices) {
      throw Error(ErrorKind::kBadInput,
                  "the device matrix has more than " + std::to_string(kMaxDevices) + " devices");
    }
    devices = *product;
  }
  return devices;
}

void check_layout(const Layout& layout) {
  if (layout.device_matrix.size() > kMaxLayoutDimensions) {
    throw Error(ErrorKind::kBadInput,
                "the device matrix has " + std::to_string(layout.device_matrix.size()) +
                    " axes, expected at most " + std::to_string(kMaxLayoutDimensions));
  }
  if (layout.tensor_map.size() > kMaxLayoutDimensions) {
    throw Error(ErrorKind::kBadInput,
                "the tensor map has " + std::to_string(layout.tensor_map.size()) +
                    " dimensions, expected at most " + std::to_string(kMaxLayoutDimensions));
  }
  device_count(layout);
  check_tensor_map(layout);
  if (layout.optimizer_shard_size < -1) {
    throw Error(ErrorKind::kBadInput, "the optimizer shard size is " +
                                          std::to_string(layout.optimizer_shard_size) +
                                          ", expected -1, 0 or a number of parts");
  }
}

std::string to_string(const Layout& layout) {
  std::string out = "device matrix " + to_string(layout.device_matrix) + ", tensor map [";
  bool first = true;
  for (const std::vector<int>& axes : layout.tensor_map) {
    if (!first) out += ", ";
    first = false;
    out += dimension_text(axes);
  }
  out += "]";
  if (layout.optimizer_shard_size != 0) {
    out += ", optimizer shard " + std::to_string(layout.optimizer_shard_size);
  }
  for (std::size_t d = 0; d < layout.uneven.size(); ++d) {
    const DimensionSplit& split = layout.uneven[d];
    if (split.balanced) out += ", dimension " + std::to_string(d) + " balanced";
    if (!split.lengths.empty()) {
      out += ", dimension " + std::to_string(d) + " in lengths " + short_list(split.lengths);
    }
  }
  for (const auto& lengths : layout.param_split_shape) {
    if (!lengths.empty()) out += ", param_split_shape " + short_list(lengths);
  }
  if (layout.field > 1) out += ", " + std::to_string(layout.field) + " fields";
  return out;
}

}  // namespace reshardfs
