// SPDX-License-Identifier: Apache-2.0
#include "report/fetch_picture.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <string>
#include <string_view>

#include <fmt/format.h>

#include "base/rank_list.h"
#include "base/text/text.h"
#include "report/page_text.h"

namespace reshardfs {
namespace {

constexpr std::size_t kMostNodes = 64;
constexpr double kFetchMargin = 24;
constexpr double kFetchBarWidth = 420;
constexpr double kFetchBarHeight = 9;
constexpr double kRowHeight = 3 * kFetchBarHeight + 9;

/// One of the bars of a row.
struct Measure {
  std::string_view style;
  const char* name;
  std::uint64_t NodeFetches::*bytes;
};

constexpr std::array<Measure, 3> kMeasures{
    {{"bar", "needed", &NodeFetches::needed},
     {"h5", "fetched without a cache", &NodeFetches::fetched},
     {"h3", "fetched with a cache on the node", &NodeFetches::fetched_cached}}};

/// Nodes that are drawn as one.
struct NodeRow {
  std::size_t first = 0;
  std::size_t count = 0;
  const NodeFetches* most = nullptr;
};

std::vector<NodeRow> rows_of(const std::vector<NodeFetches>& nodes) {
  std::size_t together = 1;
  while ((nodes.size() + together - 1) / together > kMostNodes) together *= 2;
  std::vector<NodeRow> rows;
  for (std::size_t first = 0; first < nodes.size(); first += together) {
    const std::size_t count = std::min(together, nodes.size() - first);
    const auto begin = nodes.begin() + static_cast<std::ptrdiff_t>(first);
    const auto most =
        std::max_element(begin, begin + static_cast<std::ptrdiff_t>(count),
                         [](const auto& a, const auto& b) { return a.fetched < b.fetched; });
    rows.push_back({first, count, &*most});
  }
  return rows;
}

std::string label(const NodeRow& row) {
  if (row.count == 1) return std::to_string(row.first);
  return fmt::format("{}-{}", row.first, row.first + row.count - 1);
}

class FetchPicture {
 public:
  FetchPicture(const std::vector<NodeFetches>& nodes, Placement placement, BoundedWriter& out)
      : nodes_(nodes),
        rows_(rows_of(nodes)),
        svg_(out, placement, left() + kFetchBarWidth + 84 + kFetchMargin, bottom() + 40,
             fmt::format("What {} for {}", counted(nodes.size(), "node") + " fetch",
                         counted(rank_count(), "target rank"))) {}

  void draw() {
    svg_.text(kFetchMargin, kFetchMargin + 12, "b",
              fmt::format("{} on {}", counted(rank_count(), "target rank"),
                          counted(nodes_.size(), "node")));
    svg_.text(
        kFetchMargin, kFetchMargin + 32, "q",
        fmt::format("In all {} needed; {} fetched without a cache, {} with one",
                    human_bytes(sum(&NodeFetches::needed)), human_bytes(sum(&NodeFetches::fetched)),
                    human_bytes(sum(&NodeFetches::fetched_cached))));
    if (rows_.front().count > 1) {
      svg_.text(kFetchMargin, kFetchMargin + 50, "q",
                fmt::format("Each row is the one of {} neighbors that fetches the most.",
                            rows_.front().count));
    }
    draw_legend();
    for (std::size_t row = 0; row < rows_.size(); ++row) draw_row(row);
    svg_.close();
  }

 private:
  static constexpr double kTop = kFetchMargin + 104;

  double left() const {
    double width = small_text_width("node");
    for (const NodeRow& row : rows_) width = std::max(width, small_text_width(label(row)));
    return kFetchMargin + width + 8;
  }
  double bottom() const { return kTop + static_cast<double>(rows_.size()) * kRowHeight; }
  std::size_t rank_count() const {
    std::size_t count = 0;
    for (const NodeFetches& node : nodes_) count += node.ranks.size();
    return count;
  }
  std::uint64_t sum(std::uint64_t NodeFetches::*bytes) const {
    std::uint64_t total = 0;
    for (const NodeFetches& node : nodes_) total += node.*bytes;
    return total;
  }
  std::uint64_t most() const {
    std::uint64_t bytes = 1;
    for (const NodeRow& row : rows_) {
      for (const Measure& measure : kMeasures) bytes = std::max(bytes, row.most->*measure.bytes);
    }
    return bytes;
  }

  void draw_legend() {
    double at = left();
    for (const Measure& measure : kMeasures) {
      svg_.box({at, kFetchMargin + 64, 12, 12}, measure.style);
      svg_.text(at + 17, kFetchMargin + 74, "s q", measure.name);
      at += 17 + small_text_width(measure.name) + 20;
    }
    svg_.text(left() - 8, kTop - 8, "s e q", "node");
  }

  void draw_row(std::size_t number) {
    const NodeRow& row = rows_[number];
    const double top = kTop + static_cast<double>(number) * kRowHeight;
    svg_.text(left() - 8, top + kRowHeight / 2, "s e", label(row));
    double y = top;
    for (const Measure& measure : kMeasures) {
      const std::uint64_t bytes = row.most->*measure.bytes;
      const double length =
          kFetchBarWidth * static_cast<double>(bytes) / static_cast<double>(most());
      const std::string place =
          fmt::format("node {}, target {}", row.most - nodes_.data(), rank_words(row.most->ranks));
      svg_.box({left(), y, length, kFetchBarHeight - 1}, measure.style,
               fmt::format("{}: {} {}", place, measure.name, exact_bytes(bytes)));
      svg_.text(left() + length + 6, y + kFetchBarHeight - 1, "x", human_bytes(bytes));
      y += kFetchBarHeight;
    }
  }

  const std::vector<NodeFetches>& nodes_;
  std::vector<NodeRow> rows_;
  Svg svg_;
};

}  // namespace

void draw_fetches(const std::vector<NodeFetches>& nodes, Placement placement, BoundedWriter& out) {
  FetchPicture(nodes, placement, out).draw();
}

}  // namespace reshardfs
