// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/ranks/rank_directory_name.h"

#include <array>

#include "base/text/numbers.h"

namespace reshardfs {

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

std::optional<std::int64_t> rank_in_file_name(std::string_view name) {
  constexpr std::string_view kMark = "_rank_";
  // The rank of an adapter's matrices is another thing.
  if (name.find("lora") != std::string_view::npos) return std::nullopt;
  const std::size_t at = name.rfind(kMark);
  if (at == std::string_view::npos) return std::nullopt;
  std::string_view rest = name.substr(at + kMark.size());
  return take_number<std::int64_t>(rest);
}

bool is_hyper_rank_name(std::string_view name) {
  constexpr std::string_view kBegin = "_rank";
  constexpr std::string_view kEnd = "_.safetensors";
  const std::size_t around = kBegin.size() + kEnd.size();
  return name.size() > around && name.starts_with(kBegin) && name.ends_with(kEnd) &&
         parse_number(name.substr(kBegin.size(), name.size() - around));
}

}  // namespace reshardfs
