// SPDX-License-Identifier: Apache-2.0
#include "view/params/params_directory.h"

#include <algorithm>
#include <deque>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "reshardfs/error.h"

#include "base/json/json_writer.h"
#include "base/text/file_name.h"
#include "base/text/text.h"
#include "plan/target/target_table.h"
#include "view/files/npy_file.h"
#include "view/files/text_file.h"
#include "view/files/text_value.h"
#include "view/view.h"

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
    // Mostly those of the parameter before.
    const auto is_same = [](const Holders::Row& row, const auto& file) {
      return row.first == file.first && row.count == file.second;
    };
    const auto rows = parameter.holders.rows();
    if (last_ != nullptr &&
        std::equal(rows.begin(), rows.end(), last_->first.begin(), last_->first.end(), is_same)) {
      return last_->second;
    }
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
    last_ = &*found;
    return found->second;
  }

  /// The source's ranks from which it is read, as JSON.
  const std::string& ranks(const TargetParameter& parameter) {
    if (!parameter.grid) return alone_ = find_ranks(parameter);
    const Key key{&parameter.grid->pattern(), parameter.stages, parameter.copies,
                  parameter.grid->replicas_differ()};
    const auto [found, is_new] = ranks_.try_emplace(key);
    if (is_new) found->second = find_ranks(parameter);
    return found->second;
  }

 private:
  using Files = std::vector<std::pair<const RankFile*, std::size_t>>;
  using Key = std::tuple<const void*, const void*, Copies, bool>;

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
  const std::pair<const Files, std::string>* last_ = nullptr;  ///< of stages_
  std::map<Key, std::string> ranks_;
  std::string alone_;  ///< of a parameter without a grid
};

/// Appends an object of the list. Written by hand, as a list has a million of them.
void append_item(std::string& out, const TargetParameter& parameter, const std::string& file,
                 SliceShapes& shapes, Origins& origins) {
  const auto text = [&](std::string_view value) { append_json_quoted(out, value, kStyle.text); };
  out += R"({"name":)";
  text(parameter.name);
  out += R"(,"file":)";
  if (file.empty()) {
    out += "null";
  } else {
    text(file);
  }
  out += R"(,"dtype":)";
  text(plain_dtype_name(parameter.dtype));
  out += R"(,"shape":[)";
  if (is_array(parameter.dtype)) {
    const char* between = "";
    for (const std::int64_t size : shapes.of(parameter)) {
      out += between;
      out += std::to_string(size);
      between = ",";
    }
  }
  out += R"(],"stages":)";
  out += origins.stages(*parameter.source);
  out += R"(,"source_ranks":)";
  out += origins.ranks(parameter);
  if (const auto value = text_value(parameter)) {
    out += R"(,"value":)";
    text(*value);
  }
  out += '}';
}

/// Linux takes paths of 4095 bytes; the rest is for the mount point. One path too long to be opened
/// would make programs fail that list or copy the whole directory.
constexpr std::size_t kMaxPathBytes = 3072;
constexpr std::size_t kShownColumns = 40;

constexpr std::string_view kParams = "params/";

/// Relative to the list; empty for what is no array, for what NumPy has no elements for, and for
/// what has no place.
std::string path_of(const TargetParameter& parameter) {
  if (numpy_descr(parameter.dtype).empty()) return {};
  std::string path(kParams);
  path.reserve(path.size() + parameter.name.size() + kParameterFileExtension.size());
  path += to_file_path(parameter.name);
  path += kParameterFileExtension;
  return path.size() > kMaxPathBytes ? std::string() : path;
}

/// The .npy files of a rank.
class ParamFiles final : public DeferredFiles {
 public:
  ParamFiles(std::shared_ptr<const TargetTable> target, Rank rank)
      : target_(std::move(target)), rank_(rank) {}

  void tell(Tell call) const override {
    NpySizes sizes(*target_, rank_);
    for_each([&](std::string_view path, const TargetParameter& parameter) {
      call(path, sizes.of(parameter));
    });
  }

  void make(Take call) const override {
    // All in one place: of a hundred thousand files each would leave a gap behind its path's text.
    const auto arrays = std::make_shared<std::deque<NpyFile>>();
    NpySizes sizes(*target_, rank_);
    for_each([&](std::string_view path, const TargetParameter& parameter) {
      const NpyFile& array = arrays->emplace_back(target_, rank_, parameter, sizes);
      call(path, {arrays, &array});
    });
  }

 private:
  template <typename Call>
  void for_each(Call&& call) const {
    for (const TargetParameter& parameter : target_->parameters()) {
      if (!is_array(parameter.dtype) || !target_->has(parameter, rank_)) continue;
      const std::string path = path_of(parameter);
      if (!path.empty()) call(std::string_view(path).substr(kParams.size()), parameter);
    }
  }

  std::shared_ptr<const TargetTable> target_;
  Rank rank_;
};

/// Calls take() with the list's text, piece by piece.
template <typename Take>
void write_list(const TargetTable& target, Rank rank, Take&& take) {
  Origins origins(target, rank);
  SliceShapes shapes(target, rank);
  take("[");
  std::string item;
  const char* before = "\n";
  for (const TargetParameter& parameter : target.parameters()) {
    if (!target.has(parameter, rank)) continue;
    item = before;
    append_item(item, parameter, path_of(parameter), shapes, origins);
    take(item);
    before = ",\n";
  }
  take("\n]\n");
}

std::string list_of(const TargetTable& target, Rank rank) {
  std::string list;
  write_list(target, rank, [&](std::string_view text) { list += text; });
  return list;
}

std::uint64_t bytes_of_list(const TargetTable& target, Rank rank) {
  std::uint64_t bytes = 0;
  write_list(target, rank, [&](std::string_view text) { bytes += text.size(); });
  return bytes;
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

void add_params(const ViewContext& context, const std::shared_ptr<const TargetTable>& target,
                Rank rank, const std::string& directory, std::vector<OutputFile>& files) {
  std::vector<std::string>& warnings = context.warnings;
  std::vector<std::string> too_long;
  std::vector<std::string> packed;
  for (const TargetParameter& parameter : target->parameters()) {
    if (!is_array(parameter.dtype) || !target->has(parameter, rank)) continue;
    if (is_packed(parameter.dtype)) {
      packed.push_back(parameter.name);
    } else if (path_of(parameter).empty()) {
      too_long.push_back(parameter.name);
    }
  }
  warn_of_long_names(too_long, warnings);
  if (!packed.empty()) {
    warnings.push_back("no NumPy file for " + name_list(packed) +
                       ": NumPy has no elements that share bytes; the safetensors files have " +
                       (packed.size() == 1 ? "it" : "them"));
  }
  context.deferred.push_back(
      {files.size(), directory + "params", std::make_shared<ParamFiles>(target, rank)});
  files.push_back({directory + "params.json",
                   std::make_shared<MadeFile>([target, rank] { return list_of(*target, rank); },
                                              bytes_of_list(*target, rank))});
}

/// merged/params/<name>.npy: the whole model, one NumPy file for each array.
std::vector<OutputFile> params_view(const ViewContext& context) {
  std::vector<OutputFile> files;
  if (context.whole != nullptr) add_params(context, context.whole, kWholeRank, "merged/", files);
  return files;
}

}  // namespace reshardfs
