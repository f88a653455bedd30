// SPDX-License-Identifier: Apache-2.0
#include "view/files/source_attribute.h"

#include <map>
#include <optional>
#include <utility>

#include "base/json/json_writer.h"
#include "plan/reading/byte_ranges.h"

namespace reshardfs {
namespace {

// What an extended attribute can have.
constexpr std::size_t kMaxAttributeBytes = 65536;
constexpr std::size_t kMaxRanges = 64;

/// The source files, numbered in the order in which they are met.
class Files {
 public:
  std::size_t number(const RankFile* file) {
    const auto [found, is_new] = numbers_.try_emplace(file, list_.size());
    if (is_new) list_.push_back({file, 0});
    return found->second;
  }
  void add(const RankFile* file, std::uint64_t bytes) { list_[number(file)].second += bytes; }

  void write(JsonWriter& json) const {
    json.open_list();
    for (const auto& [file, bytes] : list_) {
      json.open_object();
      json.member("file", file->path.string());
      json.member("rank", file->rank);
      json.member("bytes", bytes);
      json.close_object();
    }
    json.close_list();
  }

 private:
  std::map<const RankFile*, std::size_t> numbers_;
  std::vector<std::pair<const RankFile*, std::uint64_t>> list_;
};

/// The pieces of each parameter, in the order in which the parameters are met.
class Pieces {
 public:
  void add(const std::string& name, const ShownTensor& view, Files& files) {
    JsonWriter& json = list_of(name);
    const SourceRanges found = source_ranges(view, kMaxRanges);
    for (const SourceRange& range : found.ranges) {
      json.open_object();
      json.member("file", files.number(range.file));
      json.member("offset", range.first.offset());
      json.member("length", range.first.length());
      if (range.count > 1) {
        json.member("count", range.count);
        json.member("stride", range.stride);
      }
      json.close_object();
    }
    if (!found.complete) json.null();
  }

  /// @return an object. To be called once.
  std::string take() {
    JsonWriter json(kCompactJson);
    json.open_object();
    for (auto& [name, list] : lists_) {
      list.close_list();
      json.written_member(name, list.take());
    }
    json.close_object();
    return json.take();
  }

 private:
  JsonWriter& list_of(const std::string& name) {
    const auto [found, is_new] = numbers_.try_emplace(name, lists_.size());
    if (is_new) lists_.emplace_back(name, kCompactJson).second.open_list();
    return lists_[found->second].second;
  }

  std::map<std::string, std::size_t> numbers_;
  std::vector<std::pair<std::string, JsonWriter>> lists_;
};

/// @param parameters nothing: too many.
std::string text_of_runs(const Files& files, const std::optional<std::string>& parameters) {
  JsonWriter json(kCompactJson);
  json.open_object();
  json.key("files");
  files.write(json);
  json.written_member("parameters", parameters.value_or("null"));
  json.close_object();
  return json.take();
}

}  // namespace

std::string source_attribute(const TargetTable& target, Rank rank,
                             const std::vector<const TargetParameter*>& parameters) {
  return source_attribute(parameters.size(), [&](const ViewVisitor& visit) {
    for (const TargetParameter* parameter : parameters) {
      visit(parameter->name, target.view(*parameter, rank));
    }
  });
}

std::string source_attribute(std::size_t count,
                             const std::function<void(const ViewVisitor& visit)>& for_each_view) {
  // Even of one piece each, more than this would not fit.
  constexpr std::size_t kMaxCount = 1000;
  const bool detailed = count <= kMaxCount;
  Files files;
  Pieces pieces;
  for_each_view([&](const std::string& name, const ShownTensor& view) {
    view.for_each_cell([&](const Holding& holding, std::uint64_t bytes) {
      if (holding && bytes > 0) files.add(holding.file, bytes);
    });
    if (detailed) pieces.add(name, view, files);
  });
  std::string out = text_of_runs(files, detailed ? std::optional(pieces.take()) : std::nullopt);
  if (out.size() <= kMaxAttributeBytes) return out;
  out = text_of_runs(files, std::nullopt);
  if (out.size() <= kMaxAttributeBytes) return out;
  return R"({"files":null,"parameters":null})";
}

}  // namespace reshardfs
