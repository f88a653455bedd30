// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/ranks/rank_parts.h"

#include <algorithm>
#include <array>
#include <optional>
#include <set>
#include <utility>

#include "base/text/numbers.h"
#include "checkpoint/series/step.h"

namespace reshardfs {
namespace {

constexpr std::string_view kPartMark = "_part";
constexpr std::string_view kDashedMark = "-part-";
// More parts than a rank can have; larger numbers are part of a name.
constexpr std::int64_t kMaxPart = 999'999;

/// The number behind the word at `mark`, which must reach to the end of `text`.
std::optional<std::int64_t> part_number(std::string_view text, std::size_t mark,
                                        std::string_view word) noexcept {
  if (mark == std::string_view::npos) return std::nullopt;
  const auto number = parse_number(text.substr(mark + word.size()));
  return number && *number <= kMaxPart ? number : std::nullopt;
}

Error ambiguous(const std::filesystem::path& root, const std::vector<FoundFile>& files) {
  std::string names;
  for (const FoundFile& file : files) {
    names += (names.empty() ? "'" : ", '") +
             printable(file.path.lexically_relative(root).string()) + "'";
  }
  return Error(ErrorKind::kBadInput, std::to_string(files.size()) + " files for " +
                                         step_words(files.front().step) + ": " + names)
      .in_file(root.string())
      .for_rank(files.front().rank)
      .hint("select one with --src-pattern");
}

Error missing_part(const std::filesystem::path& root, const FoundFile& like, std::int64_t part) {
  return Error(ErrorKind::kMissing, "part " + std::to_string(part) + " is missing beside '" +
                                        printable(like.path.lexically_relative(root).string()) +
                                        "'")
      .in_file(root.string())
      .for_rank(like.rank)
      .hint("copy the missing file, or choose another step with --step");
}

}  // namespace

std::optional<RankDirectoryName> parse_rank_directory(std::string_view name) {
  constexpr std::array<std::string_view, 4> kBeginnings{"rank_", "rank", "node", "ckpt_"};
  for (const std::string_view beginning : kBeginnings) {
    if (!name.starts_with(beginning)) continue;
    if (const auto rank = parse_number(name.substr(beginning.size()))) {
      return RankDirectoryName{beginning, *rank};
    }
  }
  return std::nullopt;
}

std::vector<RankInName> ranks_in_file_name(std::string_view name) {
  constexpr std::string_view kMark = "rank";
  constexpr std::string_view kSeparators = "_-.";
  std::vector<RankInName> ranks;
  // The rank of an adapter's matrices is another thing.
  if (name.find("lora") != std::string_view::npos || name.starts_with("adapter")) return ranks;
  for (std::size_t at = name.find(kMark); at != std::string_view::npos;
       at = name.find(kMark, at + kMark.size())) {
    if (at > 0 && kSeparators.find(name[at - 1]) == std::string_view::npos) continue;
    std::string_view rest = name.substr(at + kMark.size());
    if (!rest.empty() && kSeparators.find(rest.front()) != std::string_view::npos) {
      rest.remove_prefix(1);
    }
    if (const auto number = take_number<std::int64_t>(rest)) {
      ranks.push_back({*number, name.size() - rest.size()});
    }
  }
  return ranks;
}

bool is_hyper_rank_name(std::string_view name) {
  constexpr std::string_view kBegin = "_rank";
  for (const std::string_view end : {"_.safetensors", "_.bytes"}) {
    const std::size_t around = kBegin.size() + end.size();
    if (name.size() > around && name.starts_with(kBegin) && name.ends_with(end) &&
        parse_number(name.substr(kBegin.size(), name.size() - around))) {
      return true;
    }
  }
  return false;
}

RankPartName rank_part_name(std::string_view file_name) {
  const std::size_t dot = std::min(file_name.rfind('.'), file_name.size());
  const std::string_view stem = file_name.substr(0, dot);
  const std::string_view extension = file_name.substr(dot);
  const std::size_t dashed = stem.rfind(kDashedMark);
  if (const auto part = part_number(stem, dashed, kDashedMark)) {
    return {std::string(stem.substr(0, dashed)) + std::string(extension), *part, false};
  }
  const std::string step = step_in_file_name(file_name);
  const std::string_view head = step.empty() ? stem : stem.substr(0, stem.size() - step.size() - 1);
  const std::size_t mark = head.rfind(kPartMark);
  const auto part = part_number(head, mark, kPartMark);
  if (!part) return {std::string(file_name), -1};
  return {std::string(head.substr(0, mark)) + std::string(stem.substr(head.size())) +
              std::string(extension),
          *part};
}

std::optional<Error> rank_part_problem(const std::filesystem::path& root,
                                       const std::vector<FoundFile>& files) {
  const std::string whole = rank_part_name(files.front().path.filename().string()).whole;
  std::set<std::int64_t> parts;
  for (const FoundFile& file : files) {
    const bool belongs = rank_part_name(file.path.filename().string()).whole == whole;
    const bool is_part = file.part >= 0 || files.size() == 1;
    if (!belongs || !is_part || !parts.insert(file.part).second) return ambiguous(root, files);
  }
  if (files.front().part < 0) return std::nullopt;
  std::int64_t expected = 0;
  for (const std::int64_t part : parts) {
    if (part != expected) return missing_part(root, files.front(), expected);
    ++expected;
  }
  return std::nullopt;
}

}  // namespace reshardfs
