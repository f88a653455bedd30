// SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/wire_format_lite.h>

#include "reshardfs/error.h"

#include "strategy.pb.h"
#include "strategy/files/layout_fields.h"
#include "strategy/files/raw_strategy.h"

namespace reshardfs {
namespace {

using google::protobuf::internal::WireFormatLite;
using google::protobuf::io::CodedInputStream;
using Map = proto::ParallelStrategyMap;
using RepeatedNumbers = google::protobuf::RepeatedPtrField<proto::Numbers>;

/// A message object costs up to a hundred times its bytes, so the file is walked item by item and
/// an item of a size that no parameter needs is refused.
constexpr int kMaxItemBytes = 1 << 20;

Error not_a_strategy() {
  return Error(ErrorKind::kBadInput, "is not a MindSpore strategy file")
      .hint("a JSON strategy must have a name that ends in .json");
}

Numbers numbers_of(const proto::Numbers& message) {
  return {message.dim().begin(), message.dim().end()};
}

/// Empty messages are how MindSpore writes "nothing" and how it marks a nested tensor map.
std::vector<Numbers> non_empty_lists(const RepeatedNumbers& messages) {
  std::vector<Numbers> lists;
  for (const proto::Numbers& message : messages) {
    if (message.dim_size() > 0) lists.push_back(numbers_of(message));
  }
  return lists;
}

/// One message is a flat map. Several, counting empty ones, are a nested map, a message for each
/// dimension.
TensorMap read_tensor_map(const RepeatedNumbers& messages) {
  if (messages.size() == 1) return tensor_map_from_flat(numbers_of(messages.Get(0)));
  TensorMap map;
  for (const Numbers& axes : non_empty_lists(messages)) map.push_back(dimension_axes(axes));
  return map;
}

Layout read_layout(const proto::ParallelLayouts& message) {
  Layout layout;
  const std::vector<Numbers> matrices = non_empty_lists(message.dev_matrix());
  if (matrices.size() > 1) {
    throw Error(ErrorKind::kBadInput,
                "has " + std::to_string(matrices.size()) + " device matrices, expected one");
  }
  if (!matrices.empty()) layout.device_matrix = matrices.front();
  layout.tensor_map = read_tensor_map(message.tensor_map());
  layout.param_split_shape = non_empty_lists(message.param_split_shape());
  layout.indices_offset = non_empty_lists(message.indices_offset());
  layout.field = message.field();
  layout.optimizer_shard_step = message.opt_weight_shard_step();
  layout.optimizer_shard_size = message.opt_weight_shard_size();
  finish_layout(layout);
  return layout;
}

OperatorStrategy read_operator(const proto::ParallelStrategyItem& item) {
  OperatorStrategy op;
  op.node_name = item.node_name();
  op.stage = item.parallel_strategys().stage();
  for (const proto::Numbers& cut : item.parallel_strategys().parallel_strategy()) {
    op.cuts.push_back(numbers_of(cut));
  }
  return op;
}

// Partial parsing everywhere, because the other kind writes to standard error when a required field
// is missing.

template <typename Message>
std::optional<Message> parsed(std::string_view item) {
  Message message;
  const bool is_whole = message.ParsePartialFromArray(item.data(), static_cast<int>(item.size())) &&
                        message.IsInitialized();
  if (!is_whole) return {};
  return message;
}

/// A layout that stands where none can be: a bit of a key is wrong, and a parameter would lose its
/// layout without a word. If that is the highest bit, the length behind the key is taken for more
/// of the field's number: 19, 35, ...
void refuse_stray_layout(int field, std::string_view item) {
  constexpr int kNumbersInAByte = 16;
  const bool is_layout = field % kNumbersInAByte == Map::kParallelLayoutItemFieldNumber ||
                         parsed<proto::ParallelLayoutItem>(item) ||
                         parsed<proto::ParallelLayouts>(item);
  if (!is_layout) return;
  throw Error(ErrorKind::kBadInput, "a layout appears in a field that cannot hold one")
      .hint("the file is damaged");
}

/// The bytes of the length-delimited item that `input` stands before.
std::string_view item_bytes(CodedInputStream& input, const std::string& bytes) {
  int length = 0;
  if (!input.ReadVarintSizeAsInt(&length)) throw not_a_strategy();
  const auto position = static_cast<std::size_t>(input.CurrentPosition());
  if (static_cast<std::size_t>(length) > bytes.size() - position) throw not_a_strategy();
  if (length > kMaxItemBytes) {
    throw Error(ErrorKind::kBadInput, "an item of the strategy has " + std::to_string(length) +
                                          " bytes, expected at most " +
                                          std::to_string(kMaxItemBytes));
  }
  if (!input.Skip(length)) throw not_a_strategy();
  return std::string_view(bytes).substr(position, static_cast<std::size_t>(length));
}

template <typename Message>
Message parse_item(std::string_view item) {
  auto message = parsed<Message>(item);
  if (!message) throw not_a_strategy();
  return *std::move(message);
}

/// The two fields of a ParallelLayoutItem, where each stands once and in this order.
struct PlainItem {
  std::string_view name;
  std::string_view layouts;
};

/// Takes a length and as many bytes behind the key; nothing if they are something else.
std::optional<std::string_view> take_field(std::string_view& rest, int field) {
  constexpr unsigned kWireBits = 3;
  const auto key = static_cast<char>(static_cast<unsigned>(field) << kWireBits |
                                     WireFormatLite::WIRETYPE_LENGTH_DELIMITED);
  if (rest.empty() || rest.front() != key) return std::nullopt;
  std::size_t length = 0;
  for (std::size_t i = 1; i < rest.size() && i <= sizeof(std::uint32_t); ++i) {
    const auto byte = static_cast<unsigned char>(rest[i]);
    length |= static_cast<std::size_t>(byte & 0x7fU) << 7U * (i - 1);
    if (byte >= 0x80) continue;
    if (length > rest.size() - i - 1) return std::nullopt;
    const std::string_view bytes = rest.substr(i + 1, length);
    rest.remove_prefix(i + 1 + length);
    return bytes;
  }
  return std::nullopt;
}

std::optional<PlainItem> plain_item(std::string_view item) {
  const auto name = take_field(item, proto::ParallelLayoutItem::kParamNameFieldNumber);
  if (!name) return std::nullopt;
  const auto layouts = take_field(item, proto::ParallelLayoutItem::kParallelLayoutsFieldNumber);
  if (!layouts || !item.empty()) return std::nullopt;
  return PlainItem{*name, *layouts};
}

/// Reads items, most of which have the layout of the one before, byte for byte: then nothing but
/// the name is looked at.
class LayoutItems {
 public:
  void read(std::string_view bytes, RawStrategy& raw) {
    const std::optional<PlainItem> plain = plain_item(bytes);
    if (plain && before_ && plain->layouts == bytes_before_) {
      check_room_for_item(raw);
      raw.layouts.emplace_back(plain->name, before_);
      return;
    }
    const auto item = parse_item<proto::ParallelLayoutItem>(bytes);
    check_room_for_item(raw);
    try {
      before_ = std::make_shared<const Layout>(read_layout(item.parallel_layouts()));
    } catch (Error& error) {
      error.for_parameter(item.param_name());
      throw;
    }
    raw.layouts.emplace_back(item.param_name(), before_);
    if (!plain) before_ = nullptr;
    if (plain) bytes_before_ = plain->layouts;
  }

 private:
  std::shared_ptr<const Layout> before_;  ///< made of bytes_before_; nullptr: unknown
  std::string_view bytes_before_;
};

constexpr std::uint32_t message_tag(int field) {
  return WireFormatLite::MakeTag(field, WireFormatLite::WIRETYPE_LENGTH_DELIMITED);
}
constexpr std::uint32_t number_tag(int field) {
  return WireFormatLite::MakeTag(field, WireFormatLite::WIRETYPE_VARINT);
}

/// Reads the fields of the map; returns whether the required current_stage was among them.
bool read_fields(CodedInputStream& input, const std::string& bytes, RawStrategy& raw) {
  bool has_current_stage = false;
  std::size_t strays = 0;
  LayoutItems layouts;
  while (const std::uint32_t tag = input.ReadTag()) {
    switch (tag) {
      case number_tag(Map::kCurrentStageFieldNumber): {
        std::uint64_t ignored = 0;
        if (!input.ReadVarint64(&ignored)) throw not_a_strategy();
        has_current_stage = true;
        break;
      }
      case message_tag(Map::kParallelStrategyItemFieldNumber): {
        check_room_for_item(raw);
        const std::string_view item = item_bytes(input, bytes);
        refuse_stray_layout(Map::kParallelStrategyItemFieldNumber, item);
        raw.operators.push_back(read_operator(parse_item<proto::ParallelStrategyItem>(item)));
        break;
      }
      case message_tag(Map::kParallelLayoutItemFieldNumber):
        layouts.read(item_bytes(input, bytes), raw);
        break;
      default:
        if (WireFormatLite::GetTagWireType(tag) == WireFormatLite::WIRETYPE_LENGTH_DELIMITED) {
          // Examining a stray field costs more than skipping it: hence a limit.
          if (++strays > kMaxStrategyItems) throw not_a_strategy();
          refuse_stray_layout(WireFormatLite::GetTagFieldNumber(tag), item_bytes(input, bytes));
          break;
        }
        if (!WireFormatLite::SkipField(&input, tag)) throw not_a_strategy();
    }
  }
  if (!input.ConsumedEntireMessage()) throw not_a_strategy();
  return has_current_stage;
}

}  // namespace

RawStrategy read_protobuf_strategy(const std::string& bytes) {
  RawStrategy raw;
  if (bytes.empty()) return raw;
  if (bytes.size() > kMaxStrategyBytes) throw not_a_strategy();
  CodedInputStream input(reinterpret_cast<const std::uint8_t*>(bytes.data()),
                         static_cast<int>(bytes.size()));
  if (!read_fields(input, bytes, raw)) throw not_a_strategy();
  return raw;
}

}  // namespace reshardfs
