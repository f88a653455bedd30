// SPDX-License-Identifier: Apache-2.0
#include "view/files/source_attribute.h"

#include <map>

#include <nlohmann/json.hpp>

#include "base/rank_json.h"
#include "plan/reading/byte_ranges.h"

namespace reshardfs {
namespace {

// What an extended attribute can have.
constexpr std::size_t kMaxAttributeBytes = 65536;
constexpr std::size_t kMaxRanges = 64;

using Json = nlohmann::ordered_json;

std::string text_of_runs(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

/// The source files, numbered in the order in which they are met.
class Files {
 public:
  std::size_t number(const RankFile* file) {
    const auto [found, is_new] = numbers_.try_emplace(file, list_.size());
    if (is_new) list_.push_back({file, 0});
    return found->second;
  }
  void add(const RankFile* file, std::uint64_t bytes) { list_[number(file)].second += bytes; }

  Json json() const {
    Json out = Json::array();
    for (const auto& [file, bytes] : list_) {
      out.push_back({{"file", file->path.string()}, {"rank", file->rank}, {"bytes", bytes}});
    }
    return out;
  }

 private:
  std::map<const RankFile*, std::size_t> numbers_;
  std::vector<std::pair<const RankFile*, std::uint64_t>> list_;
};

void add_pieces(const ShownTensor& view, Files& files, Json& out) {
  const SourceRanges found = source_ranges(view, kMaxRanges);
  for (const SourceRange& range : found.ranges) {
    Json piece{{"file", files.number(range.file)},
               {"offset", range.first.offset()},
               {"length", range.first.length()}};
    if (range.count > 1) {
      piece["count"] = range.count;
      piece["stride"] = range.stride;
    }
    out.push_back(std::move(piece));
  }
  if (!found.complete) out.push_back(nullptr);
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
  Json by_parameter = Json::object();
  for_each_view([&](const std::string& name, const ShownTensor& view) {
    view.for_each_cell([&](const Holding& holding, std::uint64_t bytes) {
      if (holding && bytes > 0) files.add(holding.file, bytes);
    });
    if (!detailed) return;
    Json& pieces = by_parameter[name];
    if (pieces.is_null()) pieces = Json::array();
    add_pieces(view, files, pieces);
  });
  Json json{{"files", files.json()}, {"parameters", detailed ? std::move(by_parameter) : Json()}};
  std::string out = text_of_runs(json);
  if (out.size() <= kMaxAttributeBytes) return out;
  json["parameters"] = nullptr;
  out = text_of_runs(json);
  if (out.size() <= kMaxAttributeBytes) return out;
  return R"({"files":null,"parameters":null})";
}

}  // namespace reshardfs
