// SPDX-License-Identifier: Apache-2.0
#include "format/iteration_metadata.h"

#include <algorithm>
#include <array>
#include <functional>
#include <limits>
#include <map>
#include <numeric>
#include <optional>
#include <set>
#include <string_view>
#include <unordered_map>
#include <utility>

#include <nlohmann/json.hpp>

#include "reshardfs/error.h"

#include "base/checked.h"
#include "base/file_name.h"
#include "format/json_members.h"
#include "format/safetensors_header.h"
#include "format/shard_id.h"

namespace reshardfs {
namespace {

using Json = nlohmann::json;

constexpr std::string_view kParameters = "state_dict_metadata";
constexpr std::string_view kStorage = "storage_data";
constexpr std::size_t kMaxNameBytes = 4096;
constexpr std::size_t kMaxFileNameBytes = 255;
/// More than any job has devices, axes, parameters and slices.
constexpr std::int64_t kMaxPlaces = 1 << 20;
constexpr std::size_t kMaxAxes = 64;
constexpr std::size_t kMaxParameters = 2'000'000;
constexpr std::size_t kMaxSlices = 50'000'000;

[[noreturn]] void fail(const std::string& message) {
  throw Error(ErrorKind::kBadInput, message);
}

const Json& member(const Json& object, const char* key) {
  const auto found = object.find(key);
  if (found == object.end()) fail(std::string("its '") + key + "' is missing");
  return *found;
}

std::int64_t integer(const Json& value, const char* what, std::int64_t least) {
  constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
  const bool fits = value.is_number_integer() &&
                    (!value.is_number_unsigned() ||
                     value.get<std::uint64_t>() <= static_cast<std::uint64_t>(kMost));
  if (!fits || value.get<std::int64_t>() < least) {
    fail(std::string("its ") + what + " is no integer of at least " + std::to_string(least));
  }
  return value.get<std::int64_t>();
}

const Json& list(const Json& value, const char* what, std::size_t most) {
  if (!value.is_array()) fail(std::string("its ") + what + " is no list");
  if (value.size() > most) {
    fail(std::string("its ") + what + " has " + std::to_string(value.size()) +
         " entries, the limit is " + std::to_string(most));
  }
  return value;
}

std::vector<std::int64_t> integers(const Json& value, const char* what, std::size_t most,
                                   std::int64_t least) {
  std::vector<std::int64_t> out;
  for (const Json& number : list(value, what, most)) out.push_back(integer(number, what, least));
  return out;
}

/// Writes the axes of one dimension behind each other, without those that are -1.
std::vector<int> axes_of(const Json& entry, std::size_t axis_count, std::set<int>& used) {
  const auto numbers = entry.is_array() ? integers(entry, "tensor_map", kMaxAxes, -1)
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
std::vector<std::string> axis_names(const Json& json, std::size_t count) {
  constexpr std::size_t kMostBytes = 64;
  std::vector<std::string> names;
  if (!json.is_array() || json.size() != count) return names;
  for (const Json& name : json) {
    if (!name.is_string() || name.get_ref<const std::string&>().size() > kMostBytes) return {};
    names.push_back(name.get<std::string>());
  }
  return names;
}

RecordedLayout layout_of(const Json& json) {
  constexpr std::array<std::string_view, 5> kKeys{
      "device_matrix", "tensor_map", "interleaved_parallel", "alias_name", "rank_list"};
  if (!json.is_object()) fail("its layout is no object");
  for (const auto& [key, value] : json.items()) {
    // It may say where slices are in a way that is not known here.
    if (std::find(kKeys.begin(), kKeys.end(), key) == kKeys.end()) {
      fail("its layout has the unknown key '" + printable(key) + "'");
    }
  }
  RecordedLayout layout;
  layout.device_matrix = integers(member(json, "device_matrix"), "device_matrix", kMaxAxes, 1);
  std::int64_t places = 1;
  for (const std::int64_t size : layout.device_matrix) {
    places = mul_or_throw(places, size, "the product of its device_matrix");
  }
  if (const auto names = json.find("alias_name"); names != json.end()) {
    layout.axis_names = axis_names(*names, layout.device_matrix.size());
  }
  std::set<int> used;
  for (const Json& entry :
       list(member(json, "tensor_map"), "tensor_map", safetensors::kMaxDims + 1)) {
    layout.tensor_map.push_back(axes_of(entry, layout.device_matrix.size(), used));
  }
  const Json& interleaved = member(json, "interleaved_parallel");
  if (!interleaved.is_boolean()) fail("its interleaved_parallel is neither true nor false");
  layout.interleaved = interleaved.get<bool>();
  std::set<std::int64_t> seen;
  for (const std::int64_t rank : integers(member(json, "rank_list"), "rank_list", kMaxPlaces, 0)) {
    if (!seen.insert(rank).second)
      fail("its rank_list has rank " + std::to_string(rank) + " twice");
    layout.ranks.emplace_back(rank);
  }
  if (places != static_cast<std::int64_t>(layout.ranks.size())) {
    fail("its rank_list has " + std::to_string(layout.ranks.size()) +
         " ranks, and its device_matrix " + std::to_string(places) + " places");
  }
  return layout;
}

void require_plain(const std::string& name) {
  if (is_plain_file_name(name) && name.size() <= kMaxFileNameBytes) return;
  fail("is said to be in '" + printable(name) + "', which is no file of the directory");
}

class MetadataReader {
 public:
  IterationMetadata read(const ByteSource& source) {
    // Of what each of them has for every rank, no reader needs anything.
    constexpr std::array<std::string_view, 4> kUnneeded{"properties", "axis_fragmentations",
                                                        "chunk", "rank_group"};
    constexpr std::array<std::string_view, 2> kObjects{kParameters, kStorage};
    read_json_members(source, kObjects, kUnneeded,
                      [this](std::string_view object, std::string name, const Json& value) {
                        take(object, std::move(name), value);
                      });
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
      fail("its slice " + std::to_string(twice->number) + " stands twice in " +
           std::string(kStorage));
    }
    auto [known, is_new] = known_slices_.try_emplace(std::move(slices));
    if (is_new) {
      known->second = std::make_shared<const std::vector<RecordedSlice>>(known->first);
    }
    out_.parameters[number].slices = known->second;
    slices_[number] = {};
  }

  void take(std::string_view object, std::string name, const Json& value) {
    std::optional<ShardId> id;
    if (object == kStorage) {
      id = parse_shard_id(name);
      if (!id || id->numbers.size() != 1) {
        fail("'" + printable(name.substr(0, kMaxNameBytes)) +
             "' is no shard, expected one like \"('name', (0,))\"");
      }
      name = id->name;
    }
    if (name.empty() || name.size() > kMaxNameBytes) {
      fail("a name of " + std::to_string(name.size()) + " bytes; it has 1 to " +
           std::to_string(kMaxNameBytes));
    }
    const std::size_t number = number_of(name);
    try {
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
      if (out_.parameters.size() == kMaxParameters) {
        fail("more than " + std::to_string(kMaxParameters) + " parameters, which is the limit");
      }
      out_.parameters.emplace_back().name = name;
      stated_.push_back(false);
      slices_.emplace_back();
    }
    return found->second;
  }

  void take_parameter(std::size_t number, const Json& value) {
    if (stated_[number]) fail("stands twice in " + std::string(kParameters));
    stated_[number] = true;
    if (!value.is_object()) fail("is no object");
    RecordedParameter& parameter = out_.parameters[number];
    parameter.global_shape =
        integers(member(value, "global_shape"), "global_shape", safetensors::kMaxDims, 0);
    const auto layout = value.find("layout");
    if (layout == value.end() || layout->is_null()) return;
    auto [known, is_new] = layouts_.try_emplace(layout_of(*layout));
    if (is_new) known->second = std::make_shared<const RecordedLayout>(known->first);
    parameter.layout = known->second;
  }

  void take_shard(std::size_t number, std::uint64_t slice, const Json& value) {
    if (++slice_count_ > kMaxSlices) {
      fail("more than " + std::to_string(kMaxSlices) + " slices, which is the limit");
    }
    std::vector<StoredShard> stored;
    for (const Json& entry : list(value, "list of files", kMaxPlaces)) {
      if (!entry.is_object()) fail("its list of files has something that is no object");
      const Json& name = member(entry, "file_name");
      if (!name.is_string()) fail("its file_name is no text");
      stored.push_back({file_number(name.get_ref<const std::string&>()),
                        Rank(integer(member(entry, "storage_rank"), "storage_rank", 0))});
    }
    auto [known, is_new] = stored_.try_emplace(std::move(stored));
    if (is_new) {
      known->second = std::make_shared<const std::vector<StoredShard>>(known->first);
    }
    slices_[number].push_back({slice, known->second});
  }

  std::uint32_t file_number(const std::string& name) {
    const auto known = files_.find(name);
    if (known != files_.end()) return known->second;
    require_plain(name);
    const auto number = static_cast<std::uint32_t>(out_.files.size());
    out_.files.push_back(name);
    files_.emplace(name, number);
    return number;
  }

  IterationMetadata out_;
  std::vector<bool> stated_;  ///< of each parameter: whether it is in state_dict_metadata
  std::vector<std::vector<RecordedSlice>> slices_;  ///< of each parameter
  std::unordered_map<std::string, std::size_t> numbers_;
  std::unordered_map<std::string, std::uint32_t> files_;
  std::map<RecordedLayout, std::shared_ptr<const RecordedLayout>> layouts_;
  std::map<std::vector<StoredShard>, StoredShards> stored_;
  /// Compared by the addresses of their lists of files, which are interned.
  std::map<std::vector<RecordedSlice>, RecordedSlices> known_slices_;
  std::size_t slice_count_ = 0;
};

}  // namespace

IterationMetadata read_iteration_metadata(const ByteSource& source) {
  try {
    return MetadataReader().read(source);
  } catch (Error& error) {
    error.in_file(source.name());
    throw;
  }
}

}  // namespace reshardfs
