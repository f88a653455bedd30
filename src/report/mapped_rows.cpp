// SPDX-License-Identifier: Apache-2.0
#include "report/mapped_rows.h"

#include <algorithm>
#include <set>

#include "base/byte_range.h"
#include "plan/target/shown_tensor.h"

namespace reshardfs {
namespace {

/// More are not looked at: rows that come from many places are not what a picture can show.
constexpr std::int64_t kMostRows = 65'536;

/// From which column on what holds them.
struct ColumnStretch {
  std::int64_t column = 0;
  Holding holding;

  bool operator==(const ColumnStretch&) const = default;
};
using StretchRow = std::vector<ColumnStretch>;

class Rows {
 public:
  Rows(const CellGridPtr& grid, std::size_t most) : view_(grid), most_(most) {
    const Shape& full = grid->full_shape();
    const bool has_rows = full.size() > 1;
    rows_ = has_rows ? full[0] : 1;
    columns_ = has_rows ? full[1] : full[0];
    for (std::size_t d = 2; d < full.size(); ++d) inner_ *= full[d];
    element_ = element_size(grid->dtype());
  }

  MappedRows find() {
    MappedRows regions;
    std::vector<StretchRow> kinds;
    const std::int64_t end = std::min(rows_, kMostRows);
    std::int64_t row = 0;
    for (; row < end; ++row) {
      StretchRow pieces = pieces_of(row);
      if (!kinds.empty() && kinds.back() == pieces) {
        ++regions.row_lengths.back();
        continue;
      }
      if (kinds.size() == most_) break;
      kinds.push_back(std::move(pieces));
      regions.row_lengths.push_back(1);
    }
    regions.shortened = row < rows_;
    regions.row_lengths.back() += rows_ - row;
    std::set<std::int64_t> begins;
    for (const StretchRow& kind : kinds) {
      for (const ColumnStretch& piece : kind) begins.insert(piece.column);
    }
    begins.insert(columns_);
    for (auto at = begins.begin(); std::next(at) != begins.end(); ++at) {
      regions.column_lengths.push_back(*std::next(at) - *at);
    }
    for (std::size_t i = 0; i < kinds.size(); ++i) {
      std::int64_t column = 0;
      for (std::size_t k = 0; k < regions.column_lengths.size(); ++k) {
        const auto behind = std::upper_bound(
            kinds[i].begin(), kinds[i].end(), column,
            [](std::int64_t at, const ColumnStretch& piece) { return at < piece.column; });
        regions.holdings[{static_cast<std::int64_t>(i), static_cast<std::int64_t>(k)}] =
            std::prev(behind)->holding;
        column += regions.column_lengths[k];
      }
    }
    return regions;
  }

 private:
  StretchRow pieces_of(std::int64_t row) const {
    const auto row_bytes = static_cast<std::uint64_t>(columns_ * inner_ * element_);
    const std::uint64_t begin = static_cast<std::uint64_t>(row) * row_bytes;
    StretchRow pieces;
    view_.for_each_run({begin, row_bytes}, [&](const StridedRun& run) {
      // The first column whose index 0 of all other dimensions is in the run.
      const auto first = static_cast<std::int64_t>(run.destination_offset - begin) / element_;
      const std::int64_t column = (first + inner_ - 1) / inner_;
      const auto last = first + static_cast<std::int64_t>(run.length * run.count) / element_;
      if (column * inner_ >= last || pieces.size() == most_) return;
      if (!pieces.empty() && pieces.back().holding == run.holding) return;
      pieces.push_back({column, run.holding});
    });
    std::sort(pieces.begin(), pieces.end(),
              [](const ColumnStretch& a, const ColumnStretch& b) { return a.column < b.column; });
    return pieces;
  }

  ShownTensor view_;
  std::size_t most_;
  std::int64_t rows_ = 1;
  std::int64_t columns_ = 1;
  std::int64_t inner_ = 1;
  std::int64_t element_ = 1;
};

}  // namespace

MappedRows mapped_rows(const CellGridPtr& grid, std::size_t most) {
  return Rows(grid, most).find();
}

}  // namespace reshardfs
