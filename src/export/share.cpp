// SPDX-License-Identifier: Apache-2.0
#include "export/share.h"

#include <algorithm>
#include <bit>
#include <functional>
#include <map>
#include <queue>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "base/checked.h"
#include "base/sha256.h"
#include "base/text/numbers.h"

namespace reshardfs {
namespace {

constexpr const char* kWhat = "the export's size";

/// Rounded down to eight significant bits: ranks whose files differ by a few bytes are equals.
std::uint64_t weight_of(std::uint64_t bytes) {
  constexpr unsigned kBits = 8;
  const auto width = static_cast<unsigned>(std::bit_width(bytes));
  if (width > kBits) bytes &= ~((std::uint64_t{1} << (width - kBits)) - 1);
  // Empty files are spread, too.
  return std::max<std::uint64_t>(bytes, 1);
}

/// A unit that stays in one share: the files of a rank, or a file that belongs to no rank.
struct Unit {
  std::uint64_t bytes = 0;
  std::vector<const OutputFile*> files{};
};

std::vector<Unit> units_of(const std::vector<const OutputFile*>& files) {
  std::vector<Unit> units;
  std::map<Rank, std::size_t> of_rank;
  for (const OutputFile* file : files) {
    const auto rank = rank_of_path(file->path);
    const std::size_t at =
        rank ? of_rank.try_emplace(*rank, units.size()).first->second : units.size();
    if (at == units.size()) units.emplace_back();
    units[at].files.push_back(file);
    units[at].bytes = add_or_throw(units[at].bytes, file->file->size(), kWhat);
  }
  return units;
}

}  // namespace

std::string to_string(const Share& share) {
  return fmt::format("{}/{}", share.index, share.count);
}

std::optional<Rank> rank_of_path(const std::string& path) {
  constexpr std::string_view kPrefix = "rank_";
  if (!path.starts_with(kPrefix)) return std::nullopt;
  std::string_view rest = std::string_view(path).substr(kPrefix.size());
  const auto number = take_number<std::int64_t>(rest);
  if (!number || !rest.starts_with('/')) return std::nullopt;
  return Rank(*number);
}

std::vector<std::size_t> split_units(std::span<const std::uint64_t> bytes, std::size_t count) {
  std::map<std::uint64_t, std::vector<std::size_t>, std::greater<>> equals;
  for (std::size_t i = 0; i < bytes.size(); ++i) equals[weight_of(bytes[i])].push_back(i);

  using Load = std::pair<std::uint64_t, std::size_t>;  // bytes, share
  std::priority_queue<Load, std::vector<Load>, std::greater<>> loads;
  for (std::size_t share = 0; share < count; ++share) loads.emplace(0, share);

  std::vector<std::size_t> share_of(bytes.size());
  for (const auto& [weight, units] : equals) {
    // How many each share gets is decided first, and which they are after that.
    std::map<std::size_t, std::size_t> wanted;
    for (std::size_t i = 0; i < units.size(); ++i) {
      const auto [load, share] = loads.top();
      loads.pop();
      loads.emplace(add_or_throw(load, weight, kWhat), share);
      ++wanted[share];
    }
    auto next = units.begin();
    for (const auto& [share, number] : wanted) {
      for (std::size_t i = 0; i < number; ++i) share_of[*next++] = share;
    }
  }
  return share_of;
}

std::vector<const OutputFile*> files_of_share(const std::vector<const OutputFile*>& files,
                                              const Share& share) {
  const std::vector<Unit> units = units_of(files);
  std::vector<std::uint64_t> bytes;
  bytes.reserve(units.size());
  for (const Unit& unit : units) bytes.push_back(unit.bytes);
  const std::vector<std::size_t> share_of =
      split_units(bytes, static_cast<std::size_t>(share.count));
  std::vector<const OutputFile*> own;
  for (std::size_t i = 0; i < units.size(); ++i) {
    if (share_of[i] != share.index) continue;
    own.insert(own.end(), units[i].files.begin(), units[i].files.end());
  }
  return own;
}

SharePlan plan_share(const std::vector<const OutputFile*>& files, const Share& share) {
  Sha256 hash;
  for (const OutputFile* file : files) {
    // A path has no zero byte.
    const std::string line = fmt::format("{} {}", file->file->size(), file->path);
    hash.update(std::as_bytes(std::span(line.c_str(), line.size() + 1)));
  }
  return {share, hash.finish()};
}

}  // namespace reshardfs
