// SPDX-License-Identifier: Apache-2.0
#include "format/mindformers/iteration_metadata_text.h"

#include <algorithm>
#include <cctype>
#include <map>
#include <tuple>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "reshardfs/error.h"

#include "base/rank_json.h"
#include "base/text/utf8.h"
#include "format/mindformers/shard_id.h"

namespace reshardfs {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kIndent = 4;
constexpr std::string_view kHead = "{\n    \"state_dict_metadata\": {";
constexpr std::string_view kBetween = "\n    },\n    \"storage_data\": {";
constexpr std::string_view kTail = "\n    }\n}";
constexpr std::string_view kFirst = "\n";
constexpr std::string_view kNext = ",\n";

// A slice's member of storage_data, in the pieces between what varies.
constexpr std::string_view kIdBegin = "        \"";
constexpr std::string_view kIdEnd = "\": [";
constexpr std::string_view kSliceEnd = "\n        ]";
constexpr std::string_view kFileName = "            {\n                \"file_name\": \"";
constexpr std::string_view kStorageRank = "\",\n                \"storage_rank\": ";
constexpr std::string_view kRankGroup = ",\n                \"rank_group\": [";
constexpr std::string_view kRankIndent = "                    ";
constexpr std::string_view kEntryEnd = "\n                ]\n            }";

/// Inside the quotes.
std::string escaped(std::string_view text) {
  const std::string quoted = Json(text).dump();
  return quoted.substr(1, quoted.size() - 2);
}

std::string name_of(DType dtype) {
  if (dtype == DType::kBool) return "bool_";
  std::string name(mindspore_name(dtype));
  std::transform(name.begin(), name.end(), name.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return name;
}

/// A number where one axis cuts, as the writer has it.
Json axes_json(const std::vector<int>& axes) {
  if (axes.empty()) return -1;
  if (axes.size() == 1) return axes.front();
  return axes;
}

Json layout_json(const SavedCut& cut) {
  constexpr std::size_t kLetters = 26;
  const Layout* layout = cut.layout();
  if (layout == nullptr) return nullptr;
  if (layout->device_matrix.size() > kLetters) {
    throw Error(ErrorKind::kUnsupported, "a layout in metadata.json has at most " +
                                             std::to_string(kLetters) + " axes, but this one " +
                                             std::to_string(layout->device_matrix.size()));
  }
  Json map = Json::array();
  for (const std::vector<int>& axes : layout->tensor_map) map.push_back(axes_json(axes));
  if (map.size() == 1 && map[0].is_array()) map.push_back(-1);
  Json names = Json::array();
  for (std::size_t axis = 0; axis < layout->device_matrix.size(); ++axis) {
    names.push_back(std::string(1, static_cast<char>('a' + axis)));
  }
  return {{"device_matrix", layout->device_matrix},
          {"tensor_map", std::move(map)},
          {"interleaved_parallel", false},
          {"alias_name", std::move(names)},
          {"rank_list", cut.ranks()}};
}

/// For each place, how many before it have the same slice.
Json replica_json(const SavedCut& cut) {
  if (cut.layout() == nullptr) return 0;
  std::vector<std::int64_t> seen(cut.saved().size(), 0);
  Json ids = Json::array();
  for (const std::int64_t slice : cut.slices())
    ids.push_back(seen[static_cast<std::size_t>(slice)]++);
  return ids;
}

Json state_json(const SavedParameter& parameter) {
  const SavedCut& cut = *parameter.cut;
  const Shape& global = parameter.global_shape;
  std::vector<std::int64_t> parts = cut.splits();
  if (cut.layout() == nullptr) parts.assign(global.size(), 1);
  Shape local = global;
  for (std::size_t d = 0; d < local.size(); ++d) local[d] /= parts[d];
  const Json layout = layout_json(cut);
  // One dimension that several axes cut has a map of two entries.
  if (layout.is_object() && layout["tensor_map"].size() > parts.size()) parts.push_back(1);

  Json chunks = Json::array();
  for (std::size_t place = 0; place < cut.ranks().size(); ++place) {
    const std::int64_t slice = cut.slices()[place];
    if (cut.saved()[static_cast<std::size_t>(slice)].ranks.front() != cut.ranks()[place]) continue;
    chunks.push_back({{"global_offset", Json::array({slice})}, {"local_shape", local}});
  }
  return {{"properties",
           {{"dtype", name_of(parameter.dtype)},
            {"replica_id", replica_json(cut)},
            {"allow_shape_mismatch", false},
            {"allow_to_save", true}}},
          {"global_shape", global},
          {"axis_fragmentations", parts},
          {"layout", layout},
          {"chunk", std::move(chunks)}};
}

/// The member as it stands in the file, without what separates it from the one before.
std::string state_text(std::string_view name, const Json& state) {
  const Json nested{{"m", {{std::string(name), state}}}};
  const std::string text = nested.dump(kIndent);
  constexpr std::string_view kBefore = "{\n    \"m\": {\n";
  return text.substr(kBefore.size(), text.size() - kBefore.size() - kTail.size());
}

std::uint64_t separator_size(bool first) {
  return first ? kFirst.size() : kNext.size();
}

}  // namespace

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
                                             const std::string& prefix, std::int64_t ranks)
    : parameters_(std::move(parameters)), ranks_(ranks) {
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
      if (is_new) found->second = state_text("", state_json(parameter)).size();
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
  size_ = kHead.size() + end + kBetween.size() + slices_end + kTail.size();
}

/// Without what separates it from the one before.
std::uint64_t IterationMetadataText::slice_size(std::size_t number, std::int64_t slice) const {
  const SavedParameter& parameter = parameters_[number];
  const SavedCut::Slice& saved = parameter.cut->saved()[static_cast<std::size_t>(slice)];
  const std::uint64_t count = saved.ranks.size();
  const std::uint64_t file_name = file_name_bytes_[parameter.of_optimizer ? 1 : 0];
  const std::uint64_t group =
      saved.digits + count * kRankIndent.size() + (count - 1) * kNext.size() + kFirst.size();
  const std::uint64_t entry = kFileName.size() + file_name + kStorageRank.size() +
                              kRankGroup.size() + group + kEntryEnd.size();
  return kIdBegin.size() + sizes_[number].id_head + std::to_string(slice).size() +
         kShardIdTail.size() + kIdEnd.size() + kFirst.size() + (count - 1) * kNext.size() +
         count * entry + saved.digits + kSliceEnd.size();
}

void IterationMetadataText::read_at(std::uint64_t offset, std::span<std::byte> out) const {
  if (offset > size_ || out.size() > size_ - offset) {
    throw Error(ErrorKind::kBadInput, "a read beyond the end of metadata.json");
  }
  Window window(offset, out);
  window.add(kHead);
  write_states(window);
  window.add(kBetween);
  write_slices(window);
  window.add(kTail);
}

void IterationMetadataText::write_states(Window& window) const {
  std::uint64_t begin = 0;
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    const bool passed = window.skip(sizes_[i].end - begin);
    begin = sizes_[i].end;
    if (passed) continue;
    window.add(i == 0 ? kFirst : kNext);
    window.add(state_text(parameters_[i].name, state_json(parameters_[i])));
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
  window.add(first ? kFirst : kNext);
  window.add(kIdBegin);
  window.add(escaped(shard_id_head(parameter.name)));
  window.add(std::to_string(slice));
  window.add(kShardIdTail);
  window.add(kIdEnd);

  std::string group(kFirst);
  for (const Rank rank : saved.ranks) {
    if (group.size() > kFirst.size()) group += kNext;
    group += kRankIndent;
    group += to_string(rank);
  }
  bool first_entry = true;
  for (const Rank rank : saved.ranks) {
    std::string entry(first_entry ? kFirst : kNext);
    first_entry = false;
    entry += kFileName;
    entry += iteration_file_name(prefix_, parameter.of_optimizer, rank, ranks_);
    entry += kStorageRank;
    entry += to_string(rank);
    entry += kRankGroup;
    if (window.skip(entry.size() + group.size() + kEntryEnd.size())) continue;
    window.add(entry);
    window.add(group);
    window.add(kEntryEnd);
  }
  window.add(kSliceEnd);
}

}  // namespace reshardfs
