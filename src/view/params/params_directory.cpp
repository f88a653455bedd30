// SPDX-License-Identifier: Apache-2.0
#include "view/params/params_directory.h"

#include <deque>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "reshardfs/error.h"

#include "base/json/json_writer.h"
#include "base/text/file_name.h"
#include "base/text/text.h"
#include "view/files/npy_file.h"
#include "view/files/text_file.h"
#include "view/files/text_value.h"

namespace reshardfs {
namespace {

constexpr JsonStyle kStyle{.text = JsonText::kReplaced};

template <typename Numbers>
std::string text_of(const Numbers& numbers) {
  JsonWriter json(kStyle);
  json.numbers(numbers);
  return json.take();
}

/// What is told of the files of a parameter. Parameters that lie alike share the answer: hundreds
/// of ranks for each of thousands of parameters take long to find, and to write.
class Origins {
 public:
  Origins(const TargetTable& target, Rank rank) : target_(target), rank_(rank) {}

  /// The source's pipeline stages in which it is, as JSON.
  const std::string& stages(const SourceParameter& parameter) {
    Files files;
    for (const Holders::Row& row : parameter.holders.rows()) {
      files.emplace_back(row.first, row.count);
    }
    const auto [found, is_new] = stages_.try_emplace(std::move(files));
    if (is_new) {
      std::set<std::int64_t> stages;
      for (const Holding& holder : parameter.holders) {
        stages.insert(target_.source().ranks().stage_of(holder.file->rank));
      }
      found->second = text_of(stages);
    }
    return found->second;
  }

  /// The source's ranks from which it is read, as JSON.
  std::string ranks(const TargetParameter& parameter) {
    if (!parameter.grid) return find_ranks(parameter);
    const Key key{&parameter.grid->pattern(), parameter.by_stage.get(), parameter.stage_has.get(),
                  parameter.copies, parameter.grid->replicas_differ()};
    const auto [found, is_new] = ranks_.try_emplace(key);
    if (is_new) found->second = find_ranks(parameter);
    return found->second;
  }

 private:
  using Files = std::vector<std::pair<const RankFile*, std::size_t>>;
  using Key = std::tuple<const void*, const void*, const void*, Copies, bool>;

  std::string find_ranks(const TargetParameter& parameter) const {
    std::set<std::int64_t> ranks;
    target_.view(parameter, rank_).for_each_cell([&](const Holding& holding, std::uint64_t bytes) {
      if (holding && bytes > 0) ranks.insert(holding.file->rank.number());
    });
    return text_of(ranks);
  }

  const TargetTable& target_;
  Rank rank_;
  std::map<Files, std::string> stages_;
  std::map<Key, std::string> ranks_;
};

std::string describe(const TargetTable& target, Rank rank, const TargetParameter& parameter,
                     const std::string& file, Origins& origins) {
  JsonWriter json(kStyle);
  json.open_object();
  json.key("name");
  json.text(parameter.name);
  json.key("file");
  file.empty() ? json.null() : json.text(file);
  json.key("dtype");
  json.text(plain_dtype_name(parameter.dtype));
  json.key("shape");
  json.numbers(is_array(parameter.dtype) ? target.slice_shape(parameter, rank) : Shape{});
  json.key("stages");
  json.written(origins.stages(*parameter.source));
  json.key("source_ranks");
  json.written(origins.ranks(parameter));
  if (const auto value = text_value(parameter)) {
    json.key("value");
    json.text(*value);
  }
  json.close_object();
  return json.take();
}

/// Linux takes paths of 4095 bytes. What is left is for the mount point: one path that is too long
/// to be opened would fail whoever lists or copies the whole directory.
constexpr std::size_t kMaxPathBytes = 3072;
constexpr std::size_t kShownColumns = 40;

/// Relative to the list; empty for what is no array, for what NumPy has no elements for, and for
/// what has no place.
std::string path_of(const TargetParameter& parameter) {
  if (numpy_descr(parameter.dtype).empty()) return {};
  std::string path =
      "params/" + to_file_path(parameter.name) + std::string(kParameterFileExtension);
  return path.size() > kMaxPathBytes ? std::string() : path;
}

/// Written item by item: all of them as JSON values would take many times the text's size.
std::string list_of(const TargetTable& target, Rank rank) {
  Origins origins(target, rank);
  std::string list = "[";
  for (const TargetParameter& parameter : target.parameters()) {
    if (!target.has(parameter, rank)) continue;
    list += list.size() == 1 ? "\n" : ",\n";
    list += describe(target, rank, parameter, path_of(parameter), origins);
  }
  return list + "\n]\n";
}

void warn_of_long_names(const std::vector<std::string>& names, std::vector<std::string>& warnings) {
  if (names.empty()) return;
  std::string list;
  for (const std::string& name : names) {
    list += (list.empty() ? "" : ", ") + shortened(printable(name), kShownColumns);
  }
  warnings.push_back("no NumPy file for " + list +
                     ": a path with that name would be too long to be opened; the other files "
                     "have " +
                     (names.size() == 1 ? "it" : "them"));
}

}  // namespace

void add_params(const std::shared_ptr<const TargetTable>& target, Rank rank,
                const std::string& directory, std::vector<OutputFile>& files,
                std::vector<std::string>& warnings) {
  // All in one place: of a hundred thousand files each would leave a gap behind its path's text.
  const auto arrays = std::make_shared<std::deque<NpyFile>>();
  std::vector<std::string> too_long;
  std::vector<std::string> packed;
  for (const TargetParameter& parameter : target->parameters()) {
    if (!is_array(parameter.dtype) || !target->has(parameter, rank)) continue;
    if (is_packed(parameter.dtype)) {
      packed.push_back(parameter.name);
      continue;
    }
    const std::string path = path_of(parameter);
    if (path.empty()) {
      too_long.push_back(parameter.name);
      continue;
    }
    const NpyFile& array = arrays->emplace_back(target, rank, parameter);
    files.push_back({directory + path, {arrays, &array}});
  }
  warn_of_long_names(too_long, warnings);
  if (!packed.empty()) {
    warnings.push_back("no NumPy file for " + name_list(packed) +
                       ": NumPy has no elements that share bytes; the safetensors files have " +
                       (packed.size() == 1 ? "it" : "them"));
  }
  files.push_back({directory + "params.json",
                   std::make_shared<MadeFile>([target, rank] { return list_of(*target, rank); })});
}

}  // namespace reshardfs
