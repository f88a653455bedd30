// SPDX-License-Identifier: Apache-2.0
#include "format/mindformers/iteration_metadata.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <optional>
#include <set>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "reshardfs/error.h"

#include "base/checked.h"
#include "base/rank_list.h"
#include "base/text/file_name.h"
#include "format/json/json_members.h"
#include "format/mindformers/shard_id.h"
#include "format/name_limit.h"
#include "format/safetensors/safetensors_header.h"

namespace reshardfs {
namespace {

constexpr std::string_view kParameters = "state_dict_metadata";
constexpr std::string_view kStorage = "storage_data";
constexpr std::size_t kMaxFileNameBytes = 255;
constexpr std::size_t kMaxAxes = 64;

[[noreturn]] void fail(const std::string& message) {
  throw Error(ErrorKind::kBadInput, message);
}

JsonValue member(const JsonValue& object, const char* key) {
  const auto found = object.find(key);
  if (!found) fail(std::string("its '") + key + "' is missing");
  return *found;
}

std::int64_t integer(const JsonValue& value, const char* what, std::int64_t least) {
  const auto number = value.integer();
  if (!number || *number < least) {
    fail(std::string("its ") + what + " is not an integer of at least " + std::to_string(least));
  }
  return *number;
}

Rank rank_of(std::int64_t number) {
  if (number < kMaxRanks) return Rank(number);
  fail("it has rank " + std::to_string(number) + "; the limit is " + std::to_string(kMaxRanks) +
       " ranks");
}

JsonValue list(const JsonValue& value, const char* what, std::size_t most) {
  if (!value.is_list()) fail(std::string("its ") + what + " is not a list");
  if (value.size() > most) {
    fail(std::string("its ") + what + " has " + std::to_string(value.size()) +
         " entries; the limit is " + std::to_string(most));
  }
  return value;
}

std::vector<std::int64_t> integers(const JsonValue& value, const char* what, std::size_t most,
                                   std::int64_t least) {
  std::vector<std::int64_t> out;
  out.reserve(list(value, what, most).size());
  for (const JsonValue number : value) out.push_back(integer(number, what, least));
  return out;
}

/// Writes the axes of one dimension behind each other, without those that are -1.
std::vector<int> axes_of(const JsonValue& entry, std::size_t axis_count, std::set<int>& used) {
  const auto numbers = entry.is_list() ? integers(entry, "tensor_map", kMaxAxes, -1)
                                       : std::vector{integer(entry, "tensor_map", -1)};
  std::vector<int> axes;
  for (const std::int64_t number : numbers) {
    if (number == -1) continue;
    if (number >= static_cast<std::int64_t>(axis_count)) {
      fail("its tensor_map names axis " + std::to_string(number) + " of a device_matrix of " +
           std::to_string(axis_count) + " axes");
    }
    const int axis = static_cast<int>(number);
    if (!used.insert(axis).second) {
      fail("its tensor_map uses axis " + std::to_string(axis) + " twice");
    }
    axes.push_back(axis);
  }
  return axes;
}

/// @param count of axes. Lists of another length, and what is no list of texts, are no names: files
/// of other tools may have none, and where slices are does not depend on them.
std::vector<std::string> axis_names(const JsonValue& json, std::size_t count) {
  constexpr std::size_t kMostBytes = 64;
  std::vector<std::string> names;
  if (!json.is_list() || json.size() != count) return names;
  for (const JsonValue entry : json) {
    const auto name = entry.text();
    if (!name || name->size() > kMostBytes) return {};
    names.emplace_back(*name);
  }
  return names;
}

RecordedLayout layout_of(const JsonValue& json) {
  constexpr std::array<std::string_view, 5> kKeys{
      "device_matrix", "tensor_map", "interleaved_parallel", "alias_name", "rank_list"};
  if (!json.is_object()) fail("its layout is not an object");
  for (const JsonValue value : json) {
    const std::string_view key = value.key();
    // It may say where slices are in a way that is not known here.
    if (std::find(kKeys.begin(), kKeys.end(), key) == kKeys.end()) {
      fail("its layout has the unknown key '" + printable(std::string(key)) + "'");
    }
  }
  RecordedLayout layout;
  layout.device_matrix = integers(member(json, "device_matrix"), "device_matrix", kMaxAxes, 1);
  std::int64_t places = 1;
  for (const std::int64_t size : layout.device_matrix) {
    places = mul_or_throw(places, size, "the product of its device_matrix");
  }
  if (const auto names = json.find("alias_name")) {
    layout.axis_names = axis_names(*names, layout.device_matrix.size());
  }
  std::set<int> used;
  for (const JsonValue entry :
       list(member(json, "tensor_map"), "tensor_map", safetensors::kMaxDims + 1)) {
    layout.tensor_map.push_back(axes_of(entry, layout.device_matrix.size(), used));
  }
  const auto interleaved = member(json, "interleaved_parallel").boolean();
  if (!interleaved) fail("its interleaved_parallel is neither true nor false");
  layout.interleaved = *interleaved;
  std::vector<std::int64_t> ranks = integers(member(json, "rank_list"), "rank_list", kMaxRanks, 0);
  for (const std::int64_t rank : ranks) layout.ranks.push_back(rank_of(rank));
  std::sort(ranks.begin(), ranks.end());
  const auto twice = std::adjacent_find(ranks.begin(), ranks.end());
  if (twice != ranks.end()) fail("its rank_list has rank " + std::to_string(*twice) + " twice");
  if (places != static_cast<std::int64_t>(layout.ranks.size())) {
    fail("its rank_list has " + std::to_string(layout.ranks.size()) +
         " ranks, and its device_matrix " + std::to_string(places) + " places");
  }
  return layout;
}

void require_plain(const std::string& name) {
  if (is_plain_file_name(name) && name.size() <= kMaxFileNameBytes) return;
  fail("is recorded in '" + printable(name) + "', which is not in the directory");
}

/// Values that are kept once, however often they come.
template <typename T>
class Interned {
 public:
  using Pointer = std::shared_ptr<const T>;

  Pointer keep(T&& value) {
    const auto known = kept_.find(value);
    if (known != kept_.end()) return *known;
    return *kept_.insert(std::make_shared<const T>(std::move(value))).first;
  }

 private:
  struct ByValue {
    using is_transparent = void;
    bool operator()(const Pointer& a, const Pointer& b) const { return *a < *b; }
    bool operator()(const Pointer& a, const T& b) const { return *a < b; }
    bool operator()(const T& a, const Pointer& b) const { return a < *b; }
  };
  std::set<Pointer, ByValue> kept_;
};

class MetadataReader {
 public:
  explicit MetadataReader(const MetadataLimits& limits) : limits_(limits) {}

  IterationMetadata read(const ByteSource& source) {
    // Of what each of them has for every rank, no reader needs anything.
    constexpr std::array<std::string_view, 4> kUnneeded{"properties", "axis_fragmentations",
                                                        "chunk", "rank_group"};
    constexpr std::array<std::string_view, 2> kObjects{kParameters, kStorage};
    read_json_members(source, kObjects, kUnneeded,
                      [this](std::string_view object, std::string_view name,
                             const JsonValue& value) { take(object, name, value); });
    for (std::size_t i = 0; i < out_.parameters.size(); ++i) {
      try {
        finish(i);
      } catch (Error& error) {
        error.for_parameter(out_.parameters[i].name);
        throw;
      }
    }
    return std::move(out_);
  }

 private:
  void finish(std::size_t number) {
    if (!stated_[number]) {
      fail("is in " + std::string(kStorage) + ", but not in " + std::string(kParameters));
    }
    std::vector<RecordedSlice>& slices = slices_[number];
    const auto before = [](const RecordedSlice& a, const RecordedSlice& b) {
      return a.number < b.number;
    };
    if (!std::is_sorted(slices.begin(), slices.end(), before)) {
      std::sort(slices.begin(), slices.end(), before);
    }
    const auto twice = std::adjacent_find(
        slices.begin(), slices.end(),
        [](const RecordedSlice& a, const RecordedSlice& b) { return a.number == b.number; });
    if (twice != slices.end()) {
      fail("its slice " + std::to_string(twice->number) + " appears twice in " +
           std::string(kStorage));
    }
    slices.shrink_to_fit();
    out_.parameters[number].slices = known_slices_.keep(std::exchange(slices, {}));
  }

  void take(std::string_view object, std::string_view key, const JsonValue& value) {
    std::string name(key);
    std::optional<ShardId> id;
    if (object == kStorage) {
      id = parse_shard_id(name);
      if (!id || id->numbers.size() != 1) {
        fail("'" + printable(name.substr(0, kMaxParameterName)) +
             "' is not a shard, expected one like \"('name', (0,))\"");
      }
      name = std::move(id->name);
    }
    try {
      if (name.empty()) fail("a name of 0 bytes");
      if (name.size() > kMaxParameterName) {
        fail("a name of " + std::to_string(name.size()) + " bytes; the limit is " +
             std::to_string(kMaxParameterName));
      }
      const std::size_t number = number_of(name);
      if (id) {
        take_shard(number, id->numbers.front(), value);
      } else {
        take_parameter(number, value);
      }
    } catch (Error& error) {
      error.for_parameter(name);
      throw;
    }
  }

  std::size_t number_of(const std::string& name) {
    const auto [found, is_new] = numbers_.try_emplace(name, out_.parameters.size());
    if (is_new) {
      if (out_.parameters.size() == limits_.parameters) {
        fail("has more than " + std::to_string(limits_.parameters) +
             " parameters, which is the limit");
      }
      out_.parameters.emplace_back().name = name;
      stated_.push_back(false);
      slices_.emplace_back();
    }
    return found->second;
  }

  void take_parameter(std::size_t number, const JsonValue& value) {
    if (stated_[number]) fail("appears twice in " + std::string(kParameters));
    stated_[number] = true;
    if (!value.is_object()) fail("is no object");
    RecordedParameter& parameter = out_.parameters[number];
    parameter.global_shape =
        integers(member(value, "global_shape"), "global_shape", safetensors::kMaxDims, 0);
    const auto layout = value.find("layout");
    if (!layout || layout->is_null()) return;
    parameter.layout = layouts_.keep(layout_of(*layout));
  }

  void take_shard(std::size_t number, std::uint64_t slice, const JsonValue& value) {
    if (++slice_count_ > limits_.slices) {
      fail("the metadata has more than " + std::to_string(limits_.slices) +
           " slices, which is the limit");
    }
    std::vector<StoredShard> stored;
    stored.reserve(list(value, "list of files", kMaxRanks).size());
    for (const JsonValue entry : value) {
      if (!entry.is_object()) fail("its list of files has an entry that is not an object");
      const auto name = member(entry, "file_name").text();
      if (!name) fail("its file_name is not a text");
      stored.push_back(
          {file_number(*name), rank_of(integer(member(entry, "storage_rank"), "storage_rank", 0))});
    }
    slices_[number].push_back({slice, stored_.keep(std::move(stored))});
  }

  std::uint32_t file_number(std::string_view text) {
    name_.assign(text);
    const auto known = files_.find(name_);
    if (known != files_.end()) return known->second;
    require_plain(name_);
    const auto number = static_cast<std::uint32_t>(out_.files.size());
    out_.files.push_back(name_);
    files_.emplace(name_, number);
    return number;
  }

  const MetadataLimits limits_;
  IterationMetadata out_;
  std::vector<bool> stated_;  ///< of each parameter: whether it is in state_dict_metadata
  std::vector<std::vector<RecordedSlice>> slices_;  ///< of each parameter
  std::unordered_map<std::string, std::size_t> numbers_;
  std::unordered_map<std::string, std::uint32_t> files_;
  std::string name_;  ///< a file's, in memory that is used again
  Interned<RecordedLayout> layouts_;
  Interned<std::vector<StoredShard>> stored_;
  /// Compared by the addresses of their lists of files, which are interned.
  Interned<std::vector<RecordedSlice>> known_slices_;
  std::size_t slice_count_ = 0;
};

}  // namespace

IterationMetadata read_iteration_metadata(const ByteSource& source, const MetadataLimits& limits) {
  try {
    return MetadataReader(limits).read(source);
  } catch (Error& error) {
    error.in_file(source.name());
    throw;
  }
}

}  // namespace reshardfs
