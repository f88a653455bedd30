// SPDX-License-Identifier: Apache-2.0
#include "mindspore_files.h"

#include <algorithm>
#include <stdexcept>
#include <string_view>

namespace property {
namespace {

std::string varint(std::uint64_t value) {
  std::string out;
  for (; value >= 0x80; value >>= 7) out += static_cast<char>((value & 0x7F) | 0x80);
  return out + static_cast<char>(value);
}

std::string number_field(unsigned number, std::int64_t value) {
  return varint(number << 3U) + varint(static_cast<std::uint64_t>(value));
}

std::string bytes_field(unsigned number, const std::string& value) {
  return varint((number << 3U) | 2U) + varint(value.size()) + value;
}

std::string numbers_message(const naive::Numbers& numbers) {
  std::string out;
  for (const std::int64_t number : numbers) out += number_field(1, number);
  return out;
}

/// Takes fields off the front of a message.
class Fields {
 public:
  explicit Fields(std::string_view data) : data_(data) {}

  bool at_end() const { return data_.empty(); }
  std::uint64_t take_varint() {
    std::uint64_t value = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
      if (data_.empty()) throw std::runtime_error("a number leaves its message");
      const auto byte = static_cast<unsigned char>(data_.front());
      data_.remove_prefix(1);
      value |= static_cast<std::uint64_t>(byte & 0x7FU) << shift;
      if (byte < 0x80) return value;
    }
    throw std::runtime_error("a number of more than 64 bits");
  }
  std::string_view take_bytes(unsigned field) {
    if (take_varint() != ((field << 3U) | 2U)) throw std::runtime_error("another field expected");
    const std::uint64_t length = take_varint();
    if (length > data_.size()) throw std::runtime_error("a field leaves its message");
    const std::string_view out = data_.substr(0, length);
    data_.remove_prefix(length);
    return out;
  }
  bool next_is(char key) const { return !data_.empty() && data_.front() == key; }

 private:
  std::string_view data_;
};

bool is_nested(const naive::Layout& layout) {
  return std::any_of(layout.tensor_map.begin(), layout.tensor_map.end(),
                     [](const auto& axes) { return axes.size() > 1; });
}

naive::Numbers map_entry(const std::vector<int>& axes) {
  return axes.empty() ? naive::Numbers{-1} : naive::Numbers(axes.begin(), axes.end());
}

/// param_split_shape: the length of dimension 0 of each slice, row-major over the slices.
naive::Numbers lengths_of_slices(const naive::Layout& layout) {
  naive::Numbers out;
  if (layout.splits.empty()) return out;
  const naive::Numbers parts = naive::parts(layout);
  for (const std::int64_t length : layout.splits.front().lengths) {
    const std::int64_t slices = naive::product(parts) / parts.front();
    out.insert(out.end(), static_cast<std::size_t>(slices), length);
  }
  return out;
}

/// MindSpore states 0 where there are no fields.
std::int64_t field_number(const naive::Layout& layout) {
  return layout.fields == 1 ? 0 : layout.fields;
}

std::string layout_message(const naive::Layout& layout) {
  std::string out = bytes_field(1, numbers_message(layout.device_matrix));
  if (is_nested(layout)) {
    for (const auto& axes : layout.tensor_map) {
      out += bytes_field(2, numbers_message(map_entry(axes)));
    }
    // So that one dimension still counts as several messages.
    if (layout.tensor_map.size() == 1) out += bytes_field(2, "");
  } else {
    naive::Numbers flat;
    for (const auto& axes : layout.tensor_map) flat.push_back(map_entry(axes).front());
    out += bytes_field(2, numbers_message(flat));
  }
  const naive::Numbers lengths = lengths_of_slices(layout);
  out += bytes_field(3, numbers_message(lengths));
  out += bytes_field(4, numbers_message(naive::Numbers(lengths.size(), 0)));
  out += number_field(5, field_number(layout));
  out += number_field(6, layout.optimizer_size == 0 ? 0 : 1);
  return out + number_field(7, layout.optimizer_size);
}

std::string json_list(const naive::Numbers& numbers) {
  std::string out;
  for (const std::int64_t number : numbers)
    out += (out.empty() ? "" : ",") + std::to_string(number);
  return "[" + out + "]";
}

}  // namespace

std::string encode(const std::string& name, const Record& record, const RecordStyle& style) {
  naive::Numbers dims = record.shape;
  if (record.type == "str" || (dims.empty() && style.scalar_as_zero_dim)) dims = {0};
  std::string head;
  if (style.packed_dims && !dims.empty()) {
    std::string packed;
    for (const std::int64_t dim : dims) packed += varint(static_cast<std::uint64_t>(dim));
    head = bytes_field(1, packed);
  } else {
    head = numbers_message(dims);
  }
  head += bytes_field(2, record.type);
  std::string out;
  for (std::size_t at = 0; at < record.content.size(); at += style.content_limit) {
    const std::string part = record.content.substr(at, style.content_limit);
    const std::string tensor = head + bytes_field(3, part);
    out += bytes_field(1, bytes_field(1, name) + bytes_field(2, tensor));
  }
  return out;
}

std::vector<std::pair<std::string, Record>> decode(const std::string& file) {
  std::vector<std::pair<std::string, Record>> out;
  for (Fields records(file); !records.at_end();) {
    Fields value(records.take_bytes(1));
    const std::string name(value.take_bytes(1));
    Fields tensor(value.take_bytes(2));
    Record record;
    while (tensor.next_is('\x08')) {
      tensor.take_varint();
      record.shape.push_back(static_cast<std::int64_t>(tensor.take_varint()));
    }
    record.type = tensor.take_bytes(2);
    record.content = tensor.take_bytes(3);
    if (!tensor.at_end() || !value.at_end()) throw std::runtime_error("surplus fields");
    if (record.type == "str") record.shape.clear();
    out.emplace_back(name, std::move(record));
  }
  return out;
}

std::string strategy_protobuf(const StageLayouts& layouts, std::int64_t stage) {
  const std::string cuts = bytes_field(2, numbers_message({1, 1}));
  const std::string operators =
      bytes_field(1, "MatMul-op0") + bytes_field(2, number_field(1, stage) + cuts);
  std::string out = number_field(1, 1) + bytes_field(2, operators);
  for (const auto& [name, layout] : layouts) {
    out += bytes_field(3, bytes_field(1, name) + bytes_field(2, layout_message(layout)));
  }
  return out;
}

std::string strategy_json(const StageLayouts& layouts, std::int64_t stage) {
  std::string items;
  for (const auto& [name, layout] : layouts) {
    std::string map;
    for (const auto& axes : layout.tensor_map) {
      const naive::Numbers entry = map_entry(axes);
      map += map.empty() ? "" : ",";
      map += is_nested(layout) ? json_list(entry) : std::to_string(entry.front());
    }
    items += items.empty() ? "\"" : ",\"";
    items += name + R"(":{"dev_matrix":)" + json_list(layout.device_matrix) + R"(,"field":)";
    items += std::to_string(field_number(layout)) + ",";
    const naive::Numbers lengths = lengths_of_slices(layout);
    if (!lengths.empty()) items += R"("param_split_shape":)" + json_list(lengths) + ",";
    items += R"("opt_weight_shard_size":)" + std::to_string(layout.optimizer_size);
    items += R"(,"opt_weight_shard_step":)" + std::to_string(layout.optimizer_size == 0 ? 0 : 1);
    items += R"(,"tensor_map":[)" + map + R"(],"tensor_shape":[]})";
  }
  return R"({"current_stage":1,"parallel_layout_item":{)" + items +
         R"(},"parallel_strategy_item":{"MatMul-op0":{"parallel_strategy":[[1,1]],"stage":)" +
         std::to_string(stage) + "}}}";
}

}  // namespace property
