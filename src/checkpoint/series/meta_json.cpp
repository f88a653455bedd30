// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/series/meta_json.h"

#include <utility>

#include "reshardfs/error.h"

#include "base/json/json_value.h"
#include "base/rank_list.h"
#include "checkpoint/series/step.h"
#include "storage/inputs.h"
#include "storage/local/directory.h"

namespace reshardfs {
namespace {

constexpr std::uint64_t kMaxMetaBytes = 64U << 10U;

std::optional<std::int64_t> count_in(const JsonValue& object, std::string_view key) {
  const auto value = object.find(key);
  const auto number = value ? value->integer() : std::nullopt;
  return number && *number >= 0 ? number : std::nullopt;
}

/// "10_2", or empty if the file says nothing of the kind.
std::string step_in_meta(const std::filesystem::path& path, const SourceTreePtr& tree) {
  std::string text;
  try {
    text = read_small_file(path, kMaxMetaBytes, unrecorded(tree));
  } catch (const Error&) {
    return {};  // a note for the user at most: the checkpoint itself can be read
  }
  const auto document = JsonDocument::parse(text);
  if (!document) return {};
  const auto epoch = count_in(document->value(), "last_epoch");
  const auto step = count_in(document->value(), "last_step");
  if (!epoch || !step) return {};
  return std::to_string(*epoch) + "_" + std::to_string(*step);
}

}  // namespace

std::vector<std::string> compare_with_meta(const std::map<Rank, std::filesystem::path>& files,
                                           const std::string& step, const SourceTreePtr& tree) {
  std::map<std::string, std::vector<Rank>, OlderStep> ranks_by_step;
  for (const auto& [rank, path] : files) ranks_by_step[step_in_meta(path, tree)].push_back(rank);
  std::vector<std::string> notes;
  for (const auto& [said, ranks] : ranks_by_step) {
    std::string note = "meta.json of " + rank_words(ranks);
    if (said.empty()) {
      note += " was ignored: it names no last step";
    } else if (std::is_neq(compare_steps(said, step))) {
      note.append(" names step ").append(said);
      note.append(" as the last that was saved completely, not ").append(step);
    } else {
      continue;
    }
    notes.push_back(std::move(note));
  }
  return notes;
}

}  // namespace reshardfs
