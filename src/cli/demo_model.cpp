// SPDX-License-Identifier: Apache-2.0
#include "cli/demo_model.h"

#include <array>
#include <bit>
#include <cerrno>
#include <cstring>
#include <fstream>

#include "reshardfs/error.h"
#include "reshardfs/strategy.h"

#include "cli/write_file.h"
#include "format/ckpt/ckpt.h"

namespace reshardfs {
namespace {

constexpr std::int64_t kLayers = 4;
constexpr std::int64_t kHidden = 512;
constexpr std::int64_t kFeedForward = 1408;
constexpr std::int64_t kVocabulary = 7680;

/// A float32 in (-0.05, 0.05) that depends on every bit of `key` (the finaliser of splitmix64).
std::uint32_t value_bits(std::uint64_t key) {
  key ^= key >> 30;
  key *= 0xbf58476d1ce4e5b9ULL;
  key ^= key >> 27;
  key *= 0x94d049bb133111ebULL;
  key ^= key >> 31;
  const auto unit = static_cast<float>(key >> 40) * 0x1p-24F;
  return std::bit_cast<std::uint32_t>((unit - 0.5F) * 0.1F);
}

std::int64_t rows_of(const Shape& shape) {
  return shape.empty() ? 1 : shape[0];
}
std::int64_t columns_of(const Shape& shape) {
  return shape.size() < 2 ? 1 : shape[1];
}

/// The strategy's words for the sample's cuts, with or without optimizer parallelism.
Strategy demo_strategy(const DemoModel& model, bool optimizer_parallel) {
  StageLayouts layouts;
  for (const DemoParameter& parameter : model.parameters()) {
    if (!parameter.laid_out) continue;
    Layout layout;
    layout.device_matrix = {DemoModel::kModelParallel};
    layout.tensor_map.resize(parameter.shape.size());
    if (parameter.cut >= 0) layout.tensor_map[static_cast<std::size_t>(parameter.cut)] = {0};
    if (optimizer_parallel) {
      layout.device_matrix.insert(layout.device_matrix.begin(), DemoModel::kDataParallel);
      layout.optimizer_shard_size = -1;
      layout.optimizer_shard_step = DemoModel::kModelParallel;
    }
    layouts.try_emplace(parameter.name, layout);
  }
  return Strategy({layouts}, 0, false, {{"MatMul-op0", 0, {{1, 1}}}});
}

}  // namespace

DemoModel::DemoModel() {
  std::vector<DemoParameter> weights;
  const auto add = [&](const std::string& name, Shape shape, int cut) {
    weights.push_back({name, DType::kBFloat16, std::move(shape), cut, true});
  };
  add("model.tok_embeddings.embedding_weight", {kVocabulary, kHidden}, 0);
  for (std::int64_t layer = 0; layer < kLayers; ++layer) {
    const std::string prefix = "model.layers." + std::to_string(layer) + ".";
    for (const char* name : {"wq", "wk", "wv"}) {
      add(prefix + "attention." + name + ".weight", {kHidden, kHidden}, 0);
    }
    add(prefix + "attention.wo.weight", {kHidden, kHidden}, 1);
    add(prefix + "attention_norm.weight", {kHidden}, -1);
    add(prefix + "feed_forward.w1.weight", {kFeedForward, kHidden}, 0);
    add(prefix + "feed_forward.w3.weight", {kFeedForward, kHidden}, 0);
    add(prefix + "feed_forward.w2.weight", {kHidden, kFeedForward}, 1);
    add(prefix + "ffn_norm.weight", {kHidden}, -1);
  }
  add("model.norm_out.weight", {kHidden}, -1);
  add("lm_head.weight", {kVocabulary, kHidden}, 0);

  parameters_ = weights;
  for (const char* moment : {"adam_m.", "adam_v."}) {
    for (DemoParameter state : weights) {
      state.name.insert(0, moment);
      state.dtype = DType::kFloat32;
      parameters_.push_back(std::move(state));
    }
  }
  parameters_.push_back({"learning_rate", DType::kFloat32, {}, -1, false});
  parameters_.push_back({"global_step", DType::kFloat32, {1}, -1, false});
}

DemoSlice DemoModel::whole(const DemoParameter& parameter) const {
  return {0, rows_of(parameter.shape), 0, columns_of(parameter.shape)};
}

DemoSlice DemoModel::slice(const DemoParameter& parameter, std::int64_t model_part,
                           std::int64_t optimizer_part, std::int64_t optimizer_parts) const {
  DemoSlice slice = whole(parameter);
  if (!parameter.laid_out) return slice;
  if (parameter.cut == 0) {
    const std::int64_t rows = slice.row_end / kModelParallel;
    slice.row_begin = model_part * rows;
    slice.row_end = slice.row_begin + rows;
  } else if (parameter.cut == 1) {
    const std::int64_t columns = slice.column_end / kModelParallel;
    slice.column_begin = model_part * columns;
    slice.column_end = slice.column_begin + columns;
  }
  const std::int64_t rows = (slice.row_end - slice.row_begin) / optimizer_parts;
  slice.row_begin += optimizer_part * rows;
  slice.row_end = slice.row_begin + rows;
  return slice;
}

void DemoModel::write_content(std::size_t number, const DemoSlice& slice, const Sink& sink) const {
  const DemoParameter& parameter = parameters_[number];
  const std::int64_t columns = columns_of(parameter.shape);
  const auto element = static_cast<std::size_t>(element_size(parameter.dtype));
  std::vector<std::byte> row(static_cast<std::size_t>(slice.column_end - slice.column_begin) *
                             element);
  for (std::int64_t r = slice.row_begin; r < slice.row_end; ++r) {
    std::byte* out = row.data();
    for (std::int64_t c = slice.column_begin; c < slice.column_end; ++c, out += element) {
      const auto index = static_cast<std::uint64_t>(r * columns + c);
      std::uint32_t bits = value_bits((static_cast<std::uint64_t>(number) << 40) + index + 1);
      if (element == 2) bits >>= 16;  // bfloat16 is the upper half
      std::memcpy(out, &bits, element);
    }
    sink(row);
  }
}

void DemoModel::write(const Slicer& slicer, const Sink& sink) const {
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    const DemoParameter& parameter = parameters_[i];
    const DemoSlice slice = slicer(parameter);
    Shape shape = parameter.shape;
    if (!shape.empty()) shape[0] = slice.row_end - slice.row_begin;
    if (shape.size() == 2) shape[1] = slice.column_end - slice.column_begin;
    const auto bytes =
        static_cast<std::uint64_t>(element_count(shape) * element_size(parameter.dtype));
    const std::string header = ckpt::record_header(parameter.name, parameter.dtype, shape, bytes);
    sink(std::as_bytes(std::span(header)));
    write_content(i, slice, sink);
  }
}

std::uint64_t DemoModel::write_source(const std::filesystem::path& directory) const {
  std::uint64_t total = 0;
  for (const Rank rank : RankRange(Rank(), kModelParallel * kDataParallel)) {
    const std::int64_t model_part = rank.number() % kModelParallel;
    const std::int64_t data_part = rank.number() / kModelParallel;
    const std::filesystem::path folder = directory / ("rank_" + to_string(rank));
    std::filesystem::create_directories(folder);
    const std::filesystem::path path = folder / "llama-3_100.ckpt";
    std::ofstream file(path, std::ios::binary);
    write(
        [&](const DemoParameter& p) {
          // All 8 ranks hold a parameter that model parallelism does not cut, and share it out;
          // of the others, 2 ranks hold each part.
          return p.cut < 0 ? slice(p, 0, rank.number(), kModelParallel * kDataParallel)
                           : slice(p, model_part, data_part, kDataParallel);
        },
        [&](std::span<const std::byte> bytes) {
          file.write(reinterpret_cast<const char*>(bytes.data()),
                     static_cast<std::streamsize>(bytes.size()));
          total += bytes.size();
        });
    file.close();
    if (!file) throw io_error("write", path, errno);
  }
  write_file(directory / "src_strategy.ckpt", to_protobuf(demo_strategy(*this, true)), true);
  write_file(directory / "dst_strategy.ckpt", to_protobuf(demo_strategy(*this, false)), true);
  return total;
}

}  // namespace reshardfs
