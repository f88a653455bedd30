// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/deepspeed/affine_map.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>

#include "reshardfs/error.h"

#include "base/text/text.h"
#include "layout/box_set.h"

namespace reshardfs {
namespace {

constexpr std::int64_t kAffineVersion = 1;

[[noreturn]] void refuse_map(const std::string& what, ErrorKind kind = ErrorKind::kBadInput) {
  throw Error(kind, "the affine_map " + what);
}

/// "a.b" for "^a\.b$".
std::string name_of_pattern(std::string_view pattern) {
  constexpr std::string_view kSpecial = ".^$*+?{}[]()|";
  const auto refused = [&] {
    refuse_map("has '" + printable(std::string(pattern)) + "', which is not one parameter's name",
               ErrorKind::kUnsupported);
  };
  std::string_view left = pattern;
  if (!left.starts_with('^') || !left.ends_with('$') || left.size() < 2) refused();
  left = left.substr(1, left.size() - 2);
  std::string name;
  while (!left.empty()) {
    if (left.front() == '\\') {
      left.remove_prefix(1);
      const bool is_class = left.empty() || (left.front() >= '0' && left.front() <= '9') ||
                            ((left.front() | 0x20) >= 'a' && (left.front() | 0x20) <= 'z');
      if (is_class) refused();
    } else if (kSpecial.find(left.front()) != std::string_view::npos) {
      refused();
    }
    name += left.front();
    left.remove_prefix(1);
  }
  return name;
}

class MapReader {
 public:
  explicit MapReader(const PickleTree& tree) : tree_(tree) {}

  AffineMap read(PickleValue map) {
    const auto version = tree_.integer(tree_.find(map, "version"));
    if (version != kAffineVersion) {
      refuse_map(version ? "has version " + std::to_string(*version) : "has no version",
                 ErrorKind::kUnsupported);
    }
    AffineMap out;
    tree_.for_each_pair(tree_.find(map, "params"), [&](PickleValue key, PickleValue value) {
      const auto pattern = tree_.text(key);
      if (!pattern) refuse_map("has a parameter whose name is no text");
      std::string name = name_of_pattern(*pattern);
      try {
        out.insert_or_assign(name, read_tensor(value));
      } catch (Error& error) {
        throw error.for_parameter(name);
      }
      return true;
    });
    return out;
  }

 private:
  /// Lists may refer to one value as often as they like.
  void count_value() {
    if (++values_ > tree_.size()) refuse_map("refers to the same values again and again");
  }

  AffineTensor read_tensor(PickleValue value) {
    AffineTensor out;
    out.shape = numbers(tree_.find(value, "logical_shape"));
    element_count(out.shape);
    std::vector<std::vector<std::int64_t>> locations;
    std::map<std::int64_t, PickleValue> ranks;
    tree_.for_each_pair(tree_.find(value, "ranks"), [&](PickleValue key, PickleValue rank) {
      count_value();
      const auto number = tree_.integer(key);
      if (!number) refuse_map("has a rank that is no number");
      ranks.emplace(*number, rank);
      return true;
    });
    for (const auto& [number, rank] : ranks) {
      if (number != static_cast<std::int64_t>(out.shards.size())) {
        refuse_map("has no rank " + std::to_string(out.shards.size()));
      }
      out.shards.push_back(read_shard(rank, out, locations));
    }
    require_locations(out, locations);
    return out;
  }

  AffineShard read_shard(PickleValue rank, AffineTensor& tensor,
                         std::vector<std::vector<std::int64_t>>& locations) {
    AffineShard out;
    out.shape = numbers(tree_.find(rank, "shard_shape"));
    std::vector<Box> boxes;
    tree_.for_each(tree_.find(rank, "pieces"), [&](PickleValue value) {
      AffinePiece piece;
      piece.shape = numbers(tree_.find(value, "shape"));
      const std::int64_t elements = element_count(piece.shape);
      const PickleValue scale = tree_.find(value, "scale");
      if (!scale.is(PickleKind::kUnset) && tree_.integer(scale) != 1) {
        tensor.refused = "DeepSpeed's AutoTP has scaled it";
      }
      piece.in_whole = place(tree_.find(value, "source"), piece.shape, tensor.shape);
      piece.in_shard = place(tree_.find(value, "dest"), piece.shape, out.shape);
      std::vector<std::int64_t> holders = numbers(tree_.find(value, "locations"));
      // An empty piece has no place.
      if (elements == 0) return true;
      locations.push_back(std::move(holders));
      boxes.push_back({piece.in_shard, piece.shape});
      out.pieces.push_back(std::move(piece));
      return true;
    });
    const BoxSet in_shard(out.shape, boxes);
    if (in_shard.overlap()) refuse_map("has pieces of one shard that overlap");
    if (in_shard.uncovered() > 0) refuse_map("leaves out elements of a shard");
    return out;
  }

  /// [offset, [strides]] of elements that are a box of a tensor in C order. @return its offsets.
  Shape place(PickleValue value, const Shape& piece, const Shape& tensor) {
    std::vector<PickleValue> parts;
    tree_.for_each(value, [&](PickleValue part) {
      count_value();
      parts.push_back(part);
      return true;
    });
    const auto offset = parts.size() == 2 ? tree_.integer(parts[0]) : std::nullopt;
    if (!offset || *offset < 0) refuse_map("does not state where a piece begins");
    const Shape strides = numbers(parts[1]);
    if (piece.size() != tensor.size() || strides.size() != tensor.size()) {
      refuse_map("has a piece of " + to_string(piece) + " in a tensor of " + to_string(tensor));
    }
    Shape out(tensor.size(), 0);
    std::int64_t left = *offset;
    std::int64_t stride = element_count(tensor);
    for (std::size_t d = 0; d < tensor.size(); ++d) {
      if (element_count(piece) == 0) break;
      stride = tensor[d] == 0 ? 0 : stride / tensor[d];
      if (piece[d] > 1 && strides[d] != stride) {
        refuse_map("has a piece that is no box of its parameter", ErrorKind::kUnsupported);
      }
      out[d] = stride == 0 ? 0 : left / stride;
      left -= out[d] * stride;
      if (out[d] > tensor[d] - piece[d]) {
        refuse_map("has a piece of " + to_string(piece) + " that leaves a tensor of " +
                   to_string(tensor));
      }
    }
    return out;
  }

  /// Each rank that a piece is said to be on must have it.
  static void require_locations(const AffineTensor& tensor,
                                const std::vector<std::vector<std::int64_t>>& locations) {
    std::map<std::pair<Shape, Shape>, std::vector<std::int64_t>> ranks;
    for (std::size_t rank = 0; rank < tensor.shards.size(); ++rank) {
      for (const AffinePiece& piece : tensor.shards[rank].pieces) {
        ranks[{piece.in_whole, piece.shape}].push_back(static_cast<std::int64_t>(rank));
      }
    }
    std::size_t number = 0;
    for (const AffineShard& shard : tensor.shards) {
      for (const AffinePiece& piece : shard.pieces) {
        std::vector<std::int64_t> stated = locations[number++];
        std::sort(stated.begin(), stated.end());
        if (stated == ranks.at({piece.in_whole, piece.shape})) continue;
        refuse_map("says that a piece is on ranks that do not have it");
      }
    }
  }

  Shape numbers(PickleValue list) {
    Shape out;
    tree_.for_each(list, [&](PickleValue element) {
      count_value();
      const auto number = tree_.integer(element);
      if (!number || *number < 0) refuse_map("has a length that is no number");
      out.push_back(*number);
      return true;
    });
    return out;
  }

  const PickleTree& tree_;
  std::size_t values_ = 0;
};

}  // namespace

AffineMap read_affine_map(const PickleTree& tree, PickleValue info) {
  const PickleValue map = tree.find(info, "affine_map");
  if (!map.is(PickleKind::kDict)) return {};
  AffineMap out = MapReader(tree).read(map);
  tree.for_each_pair(tree.find(info, "autotp_unsupported_parameter_patterns"),
                     [&](PickleValue key, PickleValue reason) {
                       const auto pattern = tree.text(key);
                       if (!pattern) return true;
                       const auto text = tree.text(reason);
                       out[name_of_pattern(*pattern)].refused =
                           text ? std::string(*text) : "DeepSpeed's AutoTP does not support it";
                       return true;
                     });
  return out;
}

}  // namespace reshardfs
