// SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <limits>
#include <string>
#include <unordered_map>

#include <google/protobuf/io/coded_stream.h>

#include "reshardfs/error.h"
#include "reshardfs/strategy.h"

#include "strategy.pb.h"
#include "strategy/files/layout_fields.h"
#include "strategy/files/stage_prefix.h"

namespace reshardfs {
namespace {

void fill(proto::Numbers& message, const Numbers& numbers) {
  for (const std::int64_t number : numbers) message.add_dim(number);
}

void add_tensor_map(proto::ParallelLayouts& message, const TensorMap& map) {
  if (is_flat(map)) {
    proto::Numbers& entries = *message.add_tensor_map();
    for (const auto& axes : map) entries.add_dim(axes.empty() ? -1 : axes.front());
    return;
  }
  for (const auto& axes : map) fill(*message.add_tensor_map(), dimension_numbers(axes));
  // Several messages are what tells a nested map from a flat one.
  if (map.size() == 1) message.add_tensor_map();
}

/// MindSpore writes an empty message where there is nothing to write.
template <typename Add>
void add_lists(const std::vector<Numbers>& lists, Add add) {
  for (const Numbers& numbers : lists) fill(*add(), numbers);
  if (lists.empty()) add();
}

void fill_layout(proto::ParallelLayouts& message, const Layout& layout) {
  // Without a matrix there is one device; a file without one would be taken for a strategy that
  // does not lay out parameters at all.
  fill(*message.add_dev_matrix(), layout.device_matrix.empty() ? Numbers{1} : layout.device_matrix);
  add_tensor_map(message, layout.tensor_map);
  add_lists(layout.param_split_shape, [&] { return message.add_param_split_shape(); });
  add_lists(layout.indices_offset, [&] { return message.add_indices_offset(); });
  message.set_field(layout.field);
  message.set_opt_weight_shard_step(optimizer_step_to_write(layout));
  message.set_opt_weight_shard_size(layout.optimizer_shard_size);
}

/// All but the layouts.
proto::ParallelStrategyMap head_of(const Strategy& strategy) {
  proto::ParallelStrategyMap map;
  map.set_current_stage(1);
  for (const OperatorStrategy& op : operators_to_write(strategy)) {
    proto::ParallelStrategyItem& item = *map.add_parallel_strategy_item();
    item.set_node_name(op.node_name);
    item.mutable_parallel_strategys()->set_stage(op.stage);
    for (const Numbers& cut : op.cuts) {
      fill(*item.mutable_parallel_strategys()->add_parallel_strategy(), cut);
    }
  }
  return map;
}

[[noreturn]] void refuse_size() {
  throw Error(ErrorKind::kUnsupported, "the strategy is too large for a protobuf file");
}

/// A field of so many bytes, of a number that takes one byte.
std::uint64_t field_bytes(std::uint64_t bytes) {
  using google::protobuf::io::CodedOutputStream;
  return 1 + CodedOutputStream::VarintSize64(bytes) + bytes;
}

}  // namespace

std::string to_protobuf(const Strategy& strategy) {
  proto::ParallelStrategyMap map = head_of(strategy);
  for (std::int64_t index = 0; index < strategy.stage_count(); ++index) {
    for (const auto& [name, layout] : strategy.stage(index)) {
      proto::ParallelLayoutItem& item = *map.add_parallel_layout_item();
      item.set_param_name(name_to_write(strategy, index, name));
      fill_layout(*item.mutable_parallel_layouts(), mindspore_layout(layout, name));
    }
  }
  std::string bytes;
  if (!map.SerializeToString(&bytes)) refuse_size();
  return bytes;
}

std::uint64_t protobuf_bytes(const Strategy& strategy) {
  std::uint64_t total = head_of(strategy).ByteSizeLong();
  std::unordered_map<const Layout*, std::uint64_t> sizes;  // parameters share them
  for (std::int64_t index = 0; index < strategy.stage_count(); ++index) {
    for (const auto& [name, layout] : strategy.stage(index)) {
      const auto [size, is_new] = sizes.emplace(&layout, 0);
      if (is_new) {
        proto::ParallelLayouts message;
        fill_layout(message, mindspore_layout(layout, name));
        size->second = field_bytes(message.ByteSizeLong());
      }
      const std::uint64_t name_bytes = name_to_write(strategy, index, name).size();
      total += field_bytes(field_bytes(name_bytes) + size->second);
    }
  }
  if (total > std::numeric_limits<std::int32_t>::max()) refuse_size();
  return total;
}

}  // namespace reshardfs
