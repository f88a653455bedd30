// SPDX-License-Identifier: Apache-2.0
#include "random_set.h"

#include <algorithm>
#include <array>
#include <fstream>
#include <numeric>
#include <stdexcept>
#include <utility>

#include "rules_file.h"

namespace property {
namespace {

constexpr std::int64_t kMaxRanks = 48;
constexpr std::int64_t kMaxElements = 6000;

struct ElementType {
  const char* name;
  std::size_t size;
};
constexpr std::array<ElementType, 14> kTypes = {{{"Bool", 1},
                                                 {"Int4", 1},
                                                 {"Int8", 1},
                                                 {"UInt8", 1},
                                                 {"Int16", 2},
                                                 {"UInt16", 2},
                                                 {"Int32", 4},
                                                 {"UInt32", 4},
                                                 {"Int64", 8},
                                                 {"UInt64", 8},
                                                 {"Float16", 2},
                                                 {"BFloat16", 2},
                                                 {"Float32", 4},
                                                 {"Float64", 8}}};

std::string random_bytes(Random& random, std::size_t count) {
  std::string out(count, '\0');
  for (char& byte : out) byte = static_cast<char>(pick(random, 0, 255));
  return out;
}

/// One to four axes of the sizes that occur.
std::int64_t random_devices(Random& random) {
  constexpr std::array<std::int64_t, 6> kSizes = {1, 2, 3, 5, 6, 7};
  std::int64_t devices = 1;
  for (std::int64_t axes = pick(random, 1, 4); axes > 0; --axes) {
    const std::int64_t size = kSizes[static_cast<std::size_t>(pick(random, 0, 5))];
    if (devices * size <= kMaxRanks) devices *= size;
  }
  return devices;
}

Side random_side(Random& random) {
  Side side;
  side.none = pick(random, 0, 9) == 0;
  side.rules = !side.none && one_in(random, 3);
  side.devices = side.none ? pick(random, 1, 2) : random_devices(random);
  if (side.rules) side.matrix = random_matrix(random, side.devices);
  std::int64_t stages = side.none ? 1 : pick(random, 1, 3);
  while (stages * side.devices > kMaxRanks) --stages;
  side.stages.resize(static_cast<std::size_t>(stages));
  return side;
}

/// The stages that have tensor `number`: mostly one, and each stage has some.
std::vector<std::size_t> random_stages(Random& random, std::size_t count, std::size_t number) {
  std::vector<std::size_t> out;
  for (std::size_t stage = 0; stage < count; ++stage) {
    if (stage == number % count || pick(random, 0, 4) == 0) out.push_back(stage);
  }
  return out;
}

ByStage random_layouts(Random& random, const Side& side, std::size_t number, std::size_t dims) {
  ByStage out;
  // Rules are for a parameter, whatever stages it is in.
  naive::Layout by_rule;
  if (side.rules) by_rule = random_rule_layout(random, side.matrix, dims);
  for (const std::size_t stage : random_stages(random, side.stages.size(), number)) {
    if (side.none) {
      out[stage] = {{side.devices}, std::vector<std::vector<int>>(dims)};
    } else {
      out[stage] = side.rules ? by_rule : random_layout(random, side.devices, dims);
    }
  }
  return out;
}

void choose_lengths(Random& random, const Side& side, const naive::Numbers& shape,
                    ByStage& layouts) {
  for (auto& [stage, layout] : layouts) {
    const bool is_first = stage == layouts.begin()->first;
    if (is_first || !side.rules) {
      fill_lengths(random, shape, layout);
    } else {
      layout = layouts.begin()->second;
    }
  }
}

std::string random_name(Random& random, std::size_t number) {
  constexpr std::array<const char*, 5> kStems = {"layers.%.weight", "adam_m.layers.%.weight",
                                                 "net.layer-norm.%", "层.%.gamma", "w%"};
  std::string name = kStems[static_cast<std::size_t>(pick(random, 0, 4))];
  return name.replace(name.find('%'), 1, std::to_string(number));
}

Tensor random_tensor(Random& random, std::string name, naive::Numbers shape) {
  const ElementType type = kTypes[static_cast<std::size_t>(pick(random, 0, 13))];
  const auto bytes = static_cast<std::size_t>(naive::product(shape)) * type.size;
  return {std::move(name), type.size, {type.name, std::move(shape), random_bytes(random, bytes)}};
}

void add_laid_tensor(Random& random, RandomSet& set, std::size_t number) {
  while (true) {
    const auto dimensions = static_cast<std::size_t>(pick(random, 1, 4));
    ByStage src = random_layouts(random, set.src, number, dimensions);
    ByStage dst = random_layouts(random, set.dst, number, dimensions);
    naive::Numbers shape = random_shape(random, src, dst, dimensions, kMaxElements);
    if (naive::product(shape) > kMaxElements) continue;
    choose_lengths(random, set.src, shape, src);
    choose_lengths(random, set.dst, shape, dst);
    const std::string name = random_name(random, number);
    for (const auto& [stage, layout] : src) set.src.stages[stage][name] = layout;
    for (const auto& [stage, layout] : dst) set.dst.stages[stage][name] = layout;
    set.laid.push_back(random_tensor(random, name, std::move(shape)));
    return;
  }
}

void write_file(const std::filesystem::path& path, const std::string& data) {
  std::filesystem::create_directories(path.parent_path());
  std::ofstream file(path, std::ios::binary);
  if (!(file << data).flush()) throw std::runtime_error("cannot write " + path.string());
}

}  // namespace

RandomSet make_random_set(Random& random, std::size_t tensors) {
  RandomSet set{random_side(random), random_side(random), {}, {}};
  for (std::size_t number = 0; number < tensors; ++number) add_laid_tensor(random, set, number);
  set.unlaid.push_back(random_tensor(random, "learning_rate", {}));
  set.unlaid.push_back(random_tensor(random, "global_step", {1}));
  set.unlaid.push_back(random_tensor(random, "table", {3, 5}));
  set.unlaid.push_back({"run_name", 1, {"str", {}, std::string("r\0\0\0\xb1\x03\0\0", 8)}});
  return set;
}

std::optional<naive::Held> held_on(const Tensor& tensor, const Side& side, std::int64_t rank) {
  const StageLayouts& layouts = side.stages[static_cast<std::size_t>(rank / side.devices)];
  const auto found = layouts.find(tensor.name);
  if (found == layouts.end()) return std::nullopt;
  return naive::held_by(tensor.full.shape, found->second, rank % side.devices);
}

Records rank_records(const RandomSet& set, const Side& side, std::int64_t rank) {
  Records out;
  for (const Tensor& tensor : set.laid) {
    const auto held = held_on(tensor, side, rank);
    if (!held) continue;
    out[tensor.name] = {
        tensor.full.type, naive::shape_of(*held),
        naive::slice(tensor.full.content, tensor.full.shape, tensor.element_size, *held)};
  }
  for (const Tensor& tensor : set.unlaid) out[tensor.name] = tensor.full;
  return out;
}

std::vector<std::int64_t> owners(const Tensor& tensor, const Side& side) {
  std::vector<std::int64_t> out(static_cast<std::size_t>(naive::product(tensor.full.shape)), -1);
  for (std::int64_t rank = side.rank_count(); rank-- > 0;) {
    const auto held = held_on(tensor, side, rank);
    if (!held) continue;
    for (const std::size_t element : naive::elements_of(tensor.full.shape, *held)) {
      out[element] = rank;
    }
  }
  return out;
}

void write_source(const RandomSet& set, const Side& side, const std::filesystem::path& directory,
                  Random& random) {
  for (std::int64_t rank = 0; rank < side.rank_count(); ++rank) {
    std::string file;
    for (const auto& [name, record] : rank_records(set, side, rank)) {
      RecordStyle style;
      style.packed_dims = pick(random, 0, 4) == 0;
      style.scalar_as_zero_dim = pick(random, 0, 1) == 0;
      // A cut is allowed at any byte, not only between elements; text is never cut.
      if (record.type != "str" && pick(random, 0, 3) == 0) {
        style.content_limit = static_cast<std::size_t>(pick(random, 1, 99));
      }
      file += encode(name, record, style);
    }
    write_file(directory / ("rank_" + std::to_string(rank)) / "model-1_7.ckpt", file);
  }
}

std::optional<std::filesystem::path> write_strategy(const Side& side,
                                                    const std::filesystem::path& stem,
                                                    Random& random) {
  if (side.none) return std::nullopt;
  if (side.rules) {
    std::filesystem::path path = stem;
    path += ".toml";
    write_file(path, strategy_rules(side, random));
    return path;
  }
  const bool json = pick(random, 0, 1) == 0;
  const std::string suffix = json ? ".json" : ".ckpt";
  const auto encoded = json ? strategy_json : strategy_protobuf;
  if (pick(random, 0, 1) == 0) {
    for (std::size_t stage = 0; stage < side.stages.size(); ++stage) {
      const std::string name = "strategy_" + std::to_string(stage) + suffix;
      write_file(stem / name, encoded(side.stages[stage], static_cast<std::int64_t>(stage)));
    }
    return stem;
  }
  StageLayouts merged;
  for (std::size_t stage = 0; stage < side.stages.size(); ++stage) {
    const std::string prefix = side.stages.size() > 1 ? std::to_string(stage) + "-" : "";
    for (const auto& [name, layout] : side.stages[stage]) merged[prefix + name] = layout;
  }
  std::filesystem::path path = stem;
  path += suffix;
  write_file(path, encoded(merged, 0));
  return path;
}

}  // namespace property
