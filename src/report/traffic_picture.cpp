// SPDX-License-Identifier: Apache-2.0
#include "report/traffic_picture.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "base/rank_list.h"
#include "base/text/text.h"
#include "report/page_text.h"

namespace reshardfs {
namespace {

using Bytes = std::uint64_t;

constexpr std::size_t kShades = 7;
constexpr double kMargin = 24;
constexpr double kBarWidth = 96;
constexpr double kBarHeight = 40;

/// Shades 1 to kShades. Equal steps, but equal ratios where sizes differ so much that nearly all
/// cells would have the lightest.
class BandScale {
 public:
  explicit BandScale(const std::vector<Bytes>& cells) {
    Bytes least = 0;
    Bytes most = 0;
    for (const Bytes bytes : cells) {
      if (bytes == 0) continue;
      least = least == 0 ? bytes : std::min(least, bytes);
      most = std::max(most, bytes);
    }
    const auto low = static_cast<double>(least);
    const auto high = static_cast<double>(most);
    for (std::size_t i = 1; i < kShades; ++i) {
      const double part = static_cast<double>(i) / kShades;
      const double bound = high > 50 * low ? low * std::pow(high / low, part) : high * part;
      bounds_.at(i - 1) = static_cast<Bytes>(bound);
    }
    bounds_.back() = most;
    is_flat_ = human_bytes(least) == human_bytes(most);
  }

  /// Whether all cells that have bytes have the same, as far as people read it.
  bool is_flat() const noexcept { return is_flat_; }

  /// @param bytes at least 1
  std::size_t shade(Bytes bytes) const {
    return static_cast<std::size_t>(std::lower_bound(bounds_.begin(), bounds_.end(), bytes) -
                                    bounds_.begin()) +
           1;
  }
  /// The largest size of a shade.
  Bytes bound(std::size_t shade) const { return bounds_.at(shade - 1); }

 private:
  std::array<Bytes, kShades> bounds_{};
  bool is_flat_ = false;
};

std::string label(const RankGroups& groups, std::size_t number) {
  const auto group = groups.group(number);
  return format_rank_list({group.begin(), group.end()});
}

std::string words(const char* side, const RankGroups& groups, std::size_t number) {
  const bool one = groups.group(number).size() == 1;
  return fmt::format("{} {} {}", side, one ? "rank" : "ranks", label(groups, number));
}

std::string count(const char* side, const RankGroups& groups) {
  const std::size_t ranks = groups.ranks().size();
  return fmt::format("{} {} {}", grouped(ranks), side, ranks == 1 ? "rank" : "ranks");
}

std::vector<Bytes> sums(const RankGroups& groups, const std::vector<Bytes>& of_ranks) {
  std::vector<Bytes> out(groups.size(), 0);
  for (std::size_t i = 0; i < of_ranks.size(); ++i) out[groups.group_of(i)] += of_ranks[i];
  return out;
}

double widest(const RankGroups& groups) {
  double width = 0;
  for (std::size_t i = 0; i < groups.size(); ++i) {
    width = std::max(width, small_text_width(label(groups, i)));
  }
  return width;
}

double cell_width(std::size_t columns) {
  if (columns <= 12) return 72;
  if (columns <= 24) return 36;
  return columns <= 32 ? 26 : 12.5;
}

double cell_height(std::size_t rows) {
  if (rows <= 16) return 30;
  return rows <= 32 ? 22 : 14;
}

class TrafficPicture {
 public:
  TrafficPicture(const TrafficSurvey& survey, Placement placement, BoundedWriter& out)
      : survey_(survey),
        scale_(survey.group_bytes),
        rows_(survey.destinations.size()),
        columns_(survey.sources.size()),
        cell_width_(cell_width(columns_)),
        cell_height_(cell_height(rows_)),
        upright_(widest(survey.sources) < cell_width_ - 4),
        left_(kMargin + 20 + std::max(widest(survey.destinations), small_text_width("served")) + 8),
        top_(kMargin + 86 + (upright_ ? 14 : widest(survey.sources))),
        svg_(out, placement, width(), height(),
             fmt::format("{} read {} from {}", count("target", survey.destinations),
                         human_bytes(survey.total_bytes), count("source", survey.sources))) {}

  void draw() {
    draw_heading();
    draw_labels();
    draw_cells();
    draw_row_sums();
    draw_column_sums();
    draw_legend();
    svg_.close();
  }

 private:
  double right() const { return left_ + static_cast<double>(columns_) * cell_width_; }
  double bottom() const { return top_ + static_cast<double>(rows_) * cell_height_; }
  double x(std::size_t column) const { return left_ + static_cast<double>(column) * cell_width_; }
  double y(std::size_t row) const { return top_ + static_cast<double>(row) * cell_height_; }
  double width() const {
    // The heading and the legend need their room too.
    return std::max(right() + 16 + kBarWidth + 84, 540.0) + kMargin;
  }
  double height() const { return bottom() + 16 + kBarHeight + 24 + 64; }

  void draw_heading() {
    svg_.text(
        kMargin, kMargin + 12, "b",
        count("source", survey_.sources) + " \u2192 " + count("target", survey_.destinations));
    const auto [least, most] =
        std::minmax_element(survey_.destination_bytes.begin(), survey_.destination_bytes.end());
    std::string text = human_bytes(survey_.total_bytes) + " in all";
    if (survey_.destinations.ranks().size() > 1) {
      text += "; each target rank reads " + human_range(*least, *most);
    }
    svg_.text(kMargin, kMargin + 32, "q", text);
    const std::size_t group =
        std::max(survey_.destinations.group_size(), survey_.sources.group_size());
    if (group > 1) {
      svg_.text(kMargin, kMargin + 50, "q",
                fmt::format("Each cell sums up groups of {}{}.",
                            survey_.destinations.group_size() == survey_.sources.group_size()
                                ? std::to_string(group)
                                : fmt::format("{} target and {}", survey_.destinations.group_size(),
                                              survey_.sources.group_size()),
                            survey_.destinations.group_size() == survey_.sources.group_size()
                                ? " ranks on each side"
                                : " source ranks"));
    }
    svg_.text(left_, top_ - (upright_ ? 14 : widest(survey_.sources)) - 10, "s q", "source rank");
    svg_.text_upwards(kMargin + 10, std::max(bottom(), top_ + 90), "s q", "target rank");
  }

  void draw_labels() {
    for (std::size_t column = 0; column < columns_; ++column) {
      const double middle = x(column) + cell_width_ / 2;
      const std::string text = label(survey_.sources, column);
      if (upright_) {
        svg_.text(middle, top_ - 6, "s m", text);
      } else {
        svg_.text_upwards(middle + 4, top_ - 6, "s", text);
      }
    }
    for (std::size_t row = 0; row < rows_; ++row) {
      svg_.text(left_ - 8, y(row) + cell_height_ / 2 + 4, "s e", label(survey_.destinations, row));
    }
  }

  void draw_cells() {
    svg_.box({left_, top_, right() - left_, bottom() - top_}, "z");
    const bool numbers = cell_width_ >= 72 && cell_height_ >= 22;
    for (std::size_t row = 0; row < rows_; ++row) {
      for (std::size_t column = 0; column < columns_; ++column) {
        const Bytes bytes = survey_.bytes(row, column);
        if (bytes == 0) continue;
        const std::size_t shade = scale_.shade(bytes);
        svg_.box({x(column) + 0.5, y(row) + 0.5, cell_width_ - 1, cell_height_ - 1},
                 fmt::format("h{}", shade),
                 fmt::format("{} from {}: {}", words("target", survey_.destinations, row),
                             words("source", survey_.sources, column), exact_bytes(bytes)));
        if (!numbers) continue;
        svg_.text(x(column) + cell_width_ / 2, y(row) + cell_height_ / 2 + 4,
                  fmt::format("s m n{}", shade), human_bytes(bytes));
      }
    }
  }

  void draw_row_sums() {
    const std::vector<Bytes> read = sums(survey_.destinations, survey_.destination_bytes);
    const Bytes most = std::max<Bytes>(1, *std::max_element(read.begin(), read.end()));
    svg_.text(right() + 16, top_ - 6, "s q", "reads");
    for (std::size_t row = 0; row < rows_; ++row) {
      const double length = kBarWidth * static_cast<double>(read[row]) / static_cast<double>(most);
      svg_.box({right() + 16, y(row) + 3, length, cell_height_ - 6}, "bar",
               words("target", survey_.destinations, row) + ": reads " + exact_bytes(read[row]));
      svg_.text(right() + 16 + length + 6, y(row) + cell_height_ / 2 + 4, "s",
                human_bytes(read[row]));
    }
  }

  void draw_column_sums() {
    const std::vector<Bytes> given = sums(survey_.sources, survey_.source_bytes);
    const Bytes most = std::max<Bytes>(1, *std::max_element(given.begin(), given.end()));
    const double begin = bottom() + 10;
    svg_.text(left_ - 8, begin + 12, "s e q", "served");
    for (std::size_t column = 0; column < columns_; ++column) {
      const double length =
          kBarHeight * static_cast<double>(given[column]) / static_cast<double>(most);
      svg_.box({x(column) + 3, begin, cell_width_ - 6, length}, "bar",
               words("source", survey_.sources, column) + ": serves " + exact_bytes(given[column]));
      if (cell_width_ < 72) continue;
      svg_.text(x(column) + cell_width_ / 2, begin + length + 13, "s m",
                human_bytes(given[column]));
    }
  }

  void draw_legend() {
    const double line = bottom() + 16 + kBarHeight + 34;
    if (scale_.is_flat()) {
      svg_.box({kMargin, line, 14, 14}, fmt::format("h{}", kShades));
      svg_.text(kMargin + 20, line + 11, "s q", "each cell: " + human_bytes(scale_.bound(kShades)));
      return;
    }
    svg_.text(kMargin, line + 11, "s q", "bytes, up to");
    for (std::size_t shade = 1; shade <= kShades; ++shade) {
      const double at = kMargin + 78 + static_cast<double>(shade - 1) * 62;
      svg_.box({at, line, 61, 14}, fmt::format("h{}", shade));
      svg_.text(at + 61, line + 28, "s e", human_bytes(scale_.bound(shade)));
    }
  }

  const TrafficSurvey& survey_;
  BandScale scale_;
  std::size_t rows_;
  std::size_t columns_;
  double cell_width_;
  double cell_height_;
  bool upright_;  ///< whether the labels of columns fit without being turned
  double left_;
  double top_;
  Svg svg_;
};

}  // namespace

void draw_traffic(const TrafficSurvey& survey, Placement placement, BoundedWriter& out) {
  TrafficPicture(survey, placement, out).draw();
}

}  // namespace reshardfs
