// SPDX-License-Identifier: Apache-2.0
#include "report/text/strategy_picture.h"

#include <algorithm>
#include <map>

#include <fmt/format.h>

#include "base/rank_format.h"
#include "base/rank_list.h"
#include "layout/device_grid.h"
#include "report/text/text.h"

namespace reshardfs {
namespace {

constexpr std::size_t kColumns = 80;

using Parts = std::vector<std::int64_t>;
using RanksByPart = std::map<Parts, std::vector<Rank>>;

RanksByPart ranks_by_part(const DeviceGrid& grid, Rank first_rank) {
  RanksByPart ranks;
  for (std::int64_t local = 0; local < grid.devices(); ++local) {
    ranks[grid.parts_of(local)].push_back(first_rank + local);
  }
  return ranks;
}

std::string part_list(const RanksByPart& ranks, const Parts& splits) {
  std::string out;
  for (const auto& [parts, holders] : ranks) {
    std::vector<std::string> texts;
    for (std::size_t d = 0; d < parts.size(); ++d) {
      texts.push_back(splits[d] == 1 ? "all" : fmt::format("{}/{}", parts[d] + 1, splits[d]));
    }
    const std::string line =
        fmt::format("  part [{}]  ranks {}", fmt::join(texts, ", "), format_rank_list(holders));
    out += wrapped(line, kColumns, 6) + "\n";
  }
  return out;
}

std::string rule(std::size_t cells, std::size_t width) {
  std::string out = "  +";
  for (std::size_t i = 0; i < cells; ++i) out += std::string(width + 2, '-') + "+";
  return out + "\n";
}

/// The grid of the first two dimensions, or nothing if it does not fit.
std::string part_grid(const RanksByPart& ranks, const Parts& splits) {
  const auto rows = splits[0];
  const auto columns = splits.size() > 1 ? splits[1] : 1;
  std::size_t width = 1;
  for (const auto& [parts, holders] : ranks) {
    width = std::max(width, format_rank_list(holders).size());
  }
  const auto count = static_cast<std::size_t>(columns);
  if (count * (width + 3) + 3 > kColumns || rows > 64) return {};
  std::string out = rule(count, width);
  for (std::int64_t r = 0; r < rows; ++r) {
    out += "  |";
    for (std::int64_t c = 0; c < columns; ++c) {
      Parts parts(splits.size(), 0);
      parts[0] = r;
      if (splits.size() > 1) parts[1] = c;
      const auto found = ranks.find(parts);
      out += fmt::format(" {:<{}} |", found == ranks.end() ? "" : format_rank_list(found->second),
                         width);
    }
    out += "\n" + rule(count, width);
  }
  return out;
}

}  // namespace

std::string device_matrix_picture(const std::vector<std::int64_t>& device_matrix, Rank first_rank) {
  std::int64_t devices = 1;
  for (const std::int64_t axis : device_matrix) devices *= axis;
  const std::int64_t across = device_matrix.empty() ? 1 : device_matrix.back();
  // Blank lines between blocks of the second axis from the right, so that three axes can be seen.
  const std::int64_t block =
      device_matrix.size() > 2 ? across * device_matrix[device_matrix.size() - 2] : devices;
  const std::size_t width = to_string(first_rank + (devices - 1)).size();
  const auto fitting = static_cast<std::int64_t>((kColumns - 2) / (width + 2));
  std::string out;
  for (std::int64_t local = 0; local < devices; ++local) {
    if (local > 0 && local % block == 0) out += "\n";
    const std::int64_t column = local % across;
    if (column % fitting == 0) out += column == 0 ? "  " : "\n    ";
    out += fmt::format("{:>{}}", first_rank + local, width + (column % fitting == 0 ? 0 : 2));
    if (column == across - 1) out += "\n";
  }
  return out;
}

std::string slice_picture(const Layout& layout, Rank first_rank) {
  const DeviceGrid grid(layout);
  const Parts splits = grid.splits();
  const RanksByPart ranks = ranks_by_part(grid, first_rank);
  if (splits.empty()) return part_list(ranks, splits);
  const bool flat = std::all_of(splits.begin() + std::min<std::ptrdiff_t>(2, std::ssize(splits)),
                                splits.end(), [](std::int64_t s) { return s == 1; });
  const std::string picture = flat ? part_grid(ranks, splits) : std::string();
  return picture.empty() ? part_list(ranks, splits) : picture;
}

}  // namespace reshardfs
