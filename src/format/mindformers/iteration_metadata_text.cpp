// SPDX-License-Identifier: Apache-2.0
#include "format/mindformers/iteration_metadata_text.h"

#include <algorithm>
#include <cctype>
#include <map>
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include "reshardfs/error.h"

#include "base/json/json_writer.h"
#include "base/text/utf8.h"
#include "format/mindformers/shard_id.h"

namespace reshardfs {
namespace {

/// Of the members of state_dict_metadata.
constexpr std::size_t kStateLevel = 2;

/// Inside the quotes.
std::string escaped(std::string_view text) {
  const std::string quoted = json_quoted(text);
  return quoted.substr(1, quoted.size() - 2);
}

std::string name_of(DType dtype) {
  if (dtype == DType::kBool) return "bool_";
  std::string name(mindspore_name(dtype));
  std::transform(name.begin(), name.end(), name.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return name;
}

/// One dimension that several axes cut has a map of two entries.
bool cuts_one_dimension_often(const Layout& layout) {
  return layout.tensor_map.size() == 1 && layout.tensor_map.front().size() > 1;
}

/// A number where one axis cuts, as the writer has it.
void write_tensor_map(JsonWriter& json, const Layout& layout) {
  json.open_list();
  for (const std::vector<int>& axes : layout.tensor_map) {
    if (axes.size() > 1) {
      json.numbers(axes);
    } else {
      json.number(axes.empty() ? -1 : axes.front());
    }
  }
  if (cuts_one_dimension_often(layout)) json.number(-1);
  json.close_list();
}

void write_layout(JsonWriter& json, const SavedCut& cut) {
  constexpr std::size_t kLetters = 26;
  const Layout* layout = cut.layout();
  if (layout == nullptr) return json.null();
  if (layout->device_matrix.size() > kLetters) {
    throw Error(ErrorKind::kUnsupported, "a layout in metadata.json has at most " +
                                             std::to_string(kLetters) + " axes, but this one " +
                                             std::to_string(layout->device_matrix.size()));
  }
  json.open_object();
  json.key("device_matrix");
  json.numbers(layout->device_matrix);
  json.key("tensor_map");
  write_tensor_map(json, *layout);
  json.key("interleaved_parallel");
  json.boolean(false);
  json.key("alias_name");
  json.open_list();
  for (std::size_t axis = 0; axis < layout->device_matrix.size(); ++axis) {
    json.text(std::string(1, static_cast<char>('a' + axis)));
  }
  json.close_list();
  json.numbers("rank_list", cut.ranks());
  json.close_object();
}

/// For each place, how many before it have the same slice.
void write_replica_ids(JsonWriter& json, const SavedCut& cut) {
  if (cut.layout() == nullptr) return json.number(0);
  std::vector<std::int64_t> seen(cut.saved().size(), 0);
  json.open_list();
  for (const std::int64_t slice : cut.slices()) {
    json.number(seen[static_cast<std::size_t>(slice)]++);
  }
  json.close_list();
}

void write_properties(JsonWriter& json, const SavedParameter& parameter) {
  json.open_object();
  json.key("dtype");
  json.text(name_of(parameter.dtype));
  json.key("replica_id");
  write_replica_ids(json, *parameter.cut);
  json.key("allow_shape_mismatch");
  json.boolean(false);
  json.key("allow_to_save");
  json.boolean(true);
  json.close_object();
}

void write_chunks(JsonWriter& json, const SavedCut& cut, const Shape& local) {
  json.open_list();
  for (std::size_t place = 0; place < cut.ranks().size(); ++place) {
    const std::int64_t slice = cut.slices()[place];
    if (cut.saved()[static_cast<std::size_t>(slice)].ranks.front() != cut.ranks()[place]) continue;
    json.open_object();
    json.key("global_offset");
    json.open_list();
    json.number(slice);
    json.close_list();
    json.key("local_shape");
    json.numbers(local);
    json.close_object();
  }
  json.close_list();
}

/// The member as it stands in the file, without what separates it from the one before.
std::string state_text(const JsonStyle& style, std::string_view name,
                       const SavedParameter& parameter) {
  const SavedCut& cut = *parameter.cut;
  const Shape& global = parameter.global_shape;
  std::vector<std::int64_t> parts = cut.splits();
  if (cut.layout() == nullptr) parts.assign(global.size(), 1);
  Shape local = global;
  for (std::size_t d = 0; d < local.size(); ++d) local[d] /= parts[d];
  if (cut.layout() != nullptr && cuts_one_dimension_often(*cut.layout())) parts.push_back(1);

  JsonWriter json(style, kStateLevel);
  json.key(name);
  json.open_object();
  json.key("properties");
  write_properties(json, parameter);
  json.key("global_shape");
  json.numbers(global);
  json.key("axis_fragmentations");
  json.numbers(parts);
  json.key("layout");
  write_layout(json, cut);
  json.key("chunk");
  write_chunks(json, cut, local);
  json.close_object();
  return std::string(kStateLevel * style.indent, ' ') + json.take();
}

}  // namespace

/// What stands between what varies. Before the first member of a list or an object stands `first`,
/// before each other one `next`.
struct IterationMetadataText::Pieces {
  JsonStyle style;
  std::string_view head, between, tail;
  std::string_view first, next;
  // Of a slice's member of storage_data:
  std::string_view id_begin, id_end, slice_end;
  std::string_view file_name, storage_rank, rank_group, rank_indent, entry_end;
};

constexpr IterationMetadataText::Pieces IterationMetadataText::kIndented{
    .style = {.after_key = ": ", .indent = 4},
    .head = "{\n    \"state_dict_metadata\": {",
    .between = "\n    },\n    \"storage_data\": {",
    .tail = "\n    }\n}",
    .first = "\n",
    .next = ",\n",
    .id_begin = "        \"",
    .id_end = "\": [",
    .slice_end = "\n        ]",
    .file_name = "            {\n                \"file_name\": \"",
    .storage_rank = "\",\n                \"storage_rank\": ",
    .rank_group = ",\n                \"rank_group\": [",
    .rank_indent = "                    ",
    .entry_end = "\n                ]\n            }"};

constexpr IterationMetadataText::Pieces IterationMetadataText::kOneLine{
    .style = {},
    .head = "{\"state_dict_metadata\":{",
    .between = "},\"storage_data\":{",
    .tail = "}}",
    .first = "",
    .next = ",",
    .id_begin = "\"",
    .id_end = "\":[",
    .slice_end = "]",
    .file_name = "{\"file_name\":\"",
    .storage_rank = "\",\"storage_rank\":",
    .rank_group = ",\"rank_group\":[",
    .rank_indent = "",
    .entry_end = "]}"};

/// Takes the text from its beginning on, and keeps what was asked for.
class IterationMetadataText::Window {
 public:
  Window(std::uint64_t begin, std::span<std::byte> out) : begin_(begin), out_(out) {}

  bool full() const { return at_ >= begin_ + out_.size(); }
  /// Passes over so many bytes if none of them is wanted. @return whether it did.
  bool skip(std::uint64_t bytes) {
    if (at_ + bytes > begin_ && !full()) return false;
    at_ += bytes;
    return true;
  }
  void add(std::string_view text) {
    const std::uint64_t from = std::max(at_, begin_);
    const std::uint64_t to = std::min(at_ + text.size(), begin_ + out_.size());
    for (std::uint64_t i = from; i < to; ++i) {
      out_[static_cast<std::size_t>(i - begin_)] =
          static_cast<std::byte>(text[static_cast<std::size_t>(i - at_)]);
    }
    at_ += text.size();
  }

 private:
  std::uint64_t begin_;
  std::span<std::byte> out_;
  std::uint64_t at_ = 0;
};

std::string iteration_file_name(std::string_view prefix, bool of_optimizer, Rank rank,
                                std::int64_t ranks) {
  return fmt::format("{}{}-{:07}-{:07}.safetensors", prefix, of_optimizer ? "opt" : "model",
                     rank.number(), ranks);
}

IterationMetadataText::IterationMetadataText(std::vector<SavedParameter> parameters,
                                             const std::string& prefix, std::int64_t ranks,
                                             MetadataForm form)
    : pieces_(form == MetadataForm::kIndented ? kIndented : kOneLine),
      parameters_(std::move(parameters)),
      ranks_(ranks) {
  if (!is_utf8(prefix)) {
    throw Error(ErrorKind::kUnsupported,
                "the prefix '" + printable(prefix) + "' is not UTF-8, and cannot stand in JSON");
  }
  prefix_ = escaped(prefix);
  for (const bool of_optimizer : {false, true}) {
    file_name_bytes_.at(of_optimizer ? 1 : 0) =
        iteration_file_name(prefix_, of_optimizer, Rank(), ranks_).size();
  }
  // Of parameters that are alike only the name differs.
  std::map<std::tuple<const SavedCut*, Shape, DType>, std::uint64_t> known;
  std::uint64_t end = 0;
  for (const SavedParameter& parameter : parameters_) {
    try {
      if (!is_utf8(parameter.name)) {
        throw Error(ErrorKind::kUnsupported, "its name is not UTF-8, and cannot stand in JSON");
      }
      const auto [found, is_new] =
          known.try_emplace({parameter.cut.get(), parameter.global_shape, parameter.dtype}, 0);
      if (is_new) found->second = state_text(pieces_.style, "", parameter).size();
      end += separator_size(sizes_.empty()) + found->second + escaped(parameter.name).size();
    } catch (Error& error) {
      throw error.for_parameter(std::string(parameter.name));
    }
    const std::size_t head = escaped(shard_id_head(parameter.name)).size();
    sizes_.push_back({end, static_cast<std::uint32_t>(head)});
  }
  std::uint64_t slices_end = 0;
  for (const Rank rank : RankRange(Rank(), ranks_)) {
    for (std::size_t i = 0; i < parameters_.size(); ++i) {
      const auto slice = parameters_[i].cut->first_saved_by(rank);
      if (slice) slices_end += separator_size(slices_end == 0) + slice_size(i, *slice);
    }
    slice_ends_.push_back(slices_end);
  }
  size_ = pieces_.head.size() + end + pieces_.between.size() + slices_end + pieces_.tail.size();
}

std::uint64_t IterationMetadataText::separator_size(bool first) const noexcept {
  return first ? pieces_.first.size() : pieces_.next.size();
}

/// Without what separates it from the one before.
std::uint64_t IterationMetadataText::slice_size(std::size_t number, std::int64_t slice) const {
  const SavedParameter& parameter = parameters_[number];
  const SavedCut::Slice& saved = parameter.cut->saved()[static_cast<std::size_t>(slice)];
  const std::uint64_t count = saved.ranks.size();
  const std::uint64_t file_name = file_name_bytes_[parameter.of_optimizer ? 1 : 0];
  const std::uint64_t group = saved.digits + count * pieces_.rank_indent.size() +
                              (count - 1) * pieces_.next.size() + pieces_.first.size();
  const std::uint64_t entry = pieces_.file_name.size() + file_name + pieces_.storage_rank.size() +
                              pieces_.rank_group.size() + group + pieces_.entry_end.size();
  return pieces_.id_begin.size() + sizes_[number].id_head + std::to_string(slice).size() +
         kShardIdTail.size() + pieces_.id_end.size() + pieces_.first.size() +
         (count - 1) * pieces_.next.size() + count * entry + saved.digits +
         pieces_.slice_end.size();
}

void IterationMetadataText::read_at(std::uint64_t offset, std::span<std::byte> out) const {
  if (offset > size_ || out.size() > size_ - offset) {
    throw Error(ErrorKind::kBadInput, "a read beyond the end of metadata.json");
  }
  Window window(offset, out);
  window.add(pieces_.head);
  write_states(window);
  window.add(pieces_.between);
  write_slices(window);
  window.add(pieces_.tail);
}

void IterationMetadataText::write_states(Window& window) const {
  std::uint64_t begin = 0;
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    const bool passed = window.skip(sizes_[i].end - begin);
    begin = sizes_[i].end;
    if (passed) continue;
    window.add(i == 0 ? pieces_.first : pieces_.next);
    window.add(state_text(pieces_.style, parameters_[i].name, parameters_[i]));
  }
}

void IterationMetadataText::write_slices(Window& window) const {
  std::uint64_t begin = 0;
  for (const Rank rank : RankRange(Rank(), ranks_)) {
    const std::uint64_t end = slice_ends_[rank.index()];
    if (end != begin && !window.skip(end - begin)) write_slices_of(rank, window);
    begin = end;
  }
}

void IterationMetadataText::write_slices_of(Rank rank, Window& window) const {
  bool first = rank == Rank() || slice_ends_[rank.index() - 1] == 0;
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    const auto slice = parameters_[i].cut->first_saved_by(rank);
    if (!slice) continue;
    if (!window.skip(separator_size(first) + slice_size(i, *slice))) {
      write_slice(i, *slice, first, window);
    }
    first = false;
  }
}

void IterationMetadataText::write_slice(std::size_t number, std::int64_t slice, bool first,
                                        Window& window) const {
  const SavedParameter& parameter = parameters_[number];
  const SavedCut::Slice& saved = parameter.cut->saved()[static_cast<std::size_t>(slice)];
  window.add(first ? pieces_.first : pieces_.next);
  window.add(pieces_.id_begin);
  window.add(escaped(shard_id_head(parameter.name)));
  window.add(std::to_string(slice));
  window.add(kShardIdTail);
  window.add(pieces_.id_end);

  std::string group(pieces_.first);
  for (const Rank rank : saved.ranks) {
    if (group.size() > pieces_.first.size()) group += pieces_.next;
    group += pieces_.rank_indent;
    group += to_string(rank);
  }
  bool first_entry = true;
  for (const Rank rank : saved.ranks) {
    std::string entry(first_entry ? pieces_.first : pieces_.next);
    first_entry = false;
    entry += pieces_.file_name;
    entry += iteration_file_name(prefix_, parameter.of_optimizer, rank, ranks_);
    entry += pieces_.storage_rank;
    entry += to_string(rank);
    entry += pieces_.rank_group;
    if (window.skip(entry.size() + group.size() + pieces_.entry_end.size())) continue;
    window.add(entry);
    window.add(group);
    window.add(pieces_.entry_end);
  }
  window.add(pieces_.slice_end);
}

}  // namespace reshardfs
