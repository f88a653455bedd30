// SPDX-License-Identifier: Apache-2.0
#include "report/parameter_picture.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "base/rank_format.h"
#include "base/rank_list.h"
#include "base/text.h"
#include "report/slice_map.h"

namespace reshardfs {
namespace {

constexpr double kMargin = 24;
constexpr double kLongSide = 640;
constexpr double kShortSide = 200;
constexpr double kMostHeight = 360;
constexpr double kBar = 72;  // the height of what has one dimension
constexpr double kAxis = 44;
constexpr std::size_t kColours = 10;

/// What a map is drawn in the colours of, and its legend: the source's ranks, ascending, or the
/// tensors of the source of which a model map makes the parameter.
class Sources {
 public:
  explicit Sources(const SliceMap& map) : by_tensor_(map.made_by_map) {
    for (const Stretch& row : map.rows) {
      for (const Stretch& column : map.columns) {
        const Holding& holding = map.holdings.at({row.source_part, column.source_part});
        if (holding) keys_.push_back(key(holding));
      }
    }
    std::sort(keys_.begin(), keys_.end());
    keys_.erase(std::unique(keys_.begin(), keys_.end()), keys_.end());
  }
  std::size_t count() const { return keys_.size(); }
  std::string colour(const Holding& holding) const {
    const auto at = std::lower_bound(keys_.begin(), keys_.end(), key(holding)) - keys_.begin();
    return colour_at(static_cast<std::size_t>(at));
  }
  static std::string colour_at(std::size_t number) { return fmt::format("c{}", number % kColours); }
  /// "3", or the tensor's name.
  std::string label(std::size_t number) const {
    return by_tensor_ ? printable(keys_[number].second) : to_string(keys_[number].first);
  }
  bool are_tensors() const noexcept { return by_tensor_; }

 private:
  using Key = std::pair<Rank, std::string>;

  Key key(const Holding& holding) const {
    return by_tensor_ ? Key{Rank(), holding.entry->name} : Key{holding.file->rank, {}};
  }

  bool by_tensor_;
  std::vector<Key> keys_;
};

/// Rows of the tensor to pixels.
class Scale {
 public:
  Scale(const std::vector<Stretch>& stretches, double origin, double pixels)
      : origin_(origin), factor_(pixels / static_cast<double>(stretches.back().end)) {}
  double at(std::int64_t index) const { return origin_ + factor_ * static_cast<double>(index); }
  double length(std::int64_t begin, std::int64_t end) const { return at(end) - at(begin); }

 private:
  double origin_;
  double factor_;
};

/// Neighbours of one destination part, as one.
std::vector<Stretch> destination_stretches(const std::vector<Stretch>& list) {
  std::vector<Stretch> out;
  for (const Stretch& stretch : list) {
    if (!out.empty() && out.back().destination_part == stretch.destination_part) {
      out.back().end = stretch.end;
    } else {
      out.push_back(stretch);
    }
  }
  return out;
}

struct Size {
  double width = kLongSide;
  double height = kBar;
};

/// To scale, but for what would be a thread.
Size size_of(const SliceMap& map) {
  if (!map.row_dimension) return {};
  const double ratio =
      static_cast<double>(map.rows.back().end) / static_cast<double>(map.columns.back().end);
  const double width = std::clamp(kMostHeight / ratio, kShortSide, kLongSide);
  return {width, std::clamp(width * ratio, kShortSide, kMostHeight)};
}

class Panel {
 public:
  Panel(const SliceMap& map, const TargetParameter& parameter)
      : map_(map), parameter_(parameter), sources_(map), size_(size_of(map)) {
    add_captions();
  }

  double height() const {
    return static_cast<double>(captions_.size()) * 18 + 22 + size_.height + 30 +
           static_cast<double>(legend_lines()) * 22 + 12;
  }

  void draw(Svg& svg, double top) const {
    for (const std::string& caption : captions_) {
      svg.text(kMargin, top + 12, "t q", caption);
      top += 18;
    }
    top += 22;
    const double left = kMargin + (map_.row_dimension ? kAxis : 0);
    const Scale x(map_.columns, left, size_.width);
    const Scale y(map_.rows, top, size_.height);
    draw_axes(svg, left, top);
    draw_regions(svg, x, y);
    draw_outlines(svg, x, y);
    draw_legend(svg, top + size_.height + 30);
  }

 private:
  void add_captions() {
    if (parameter_.treatment == Treatment::kRaw) {
      captions_.emplace_back(
          "In one strategy only: each destination rank has one source rank's slice as it is.");
    } else {
      captions_.push_back(fmt::format(
          "In the source: {}. In the destination: {}{}.",
          map_.made_by_map ? "made of other tensors by the map" : cut_text(map_.source_parts),
          cut_text(map_.destination_parts),
          parameter_.treatment == Treatment::kKeep ? ", the same on every rank" : ""));
    }
    if (map_.row_dimension && map_.source_parts.size() > 2) {
      std::string text = fmt::format("Drawn: dimension {} down and {} across", *map_.row_dimension,
                                     *map_.column_dimension);
      text += map_.hidden.empty() ? "; no other is cut."
                                  : fmt::format(", at index 0 of dimension {}, which {} cut too.",
                                                fmt::join(map_.hidden, " and "),
                                                map_.hidden.size() == 1 ? "is" : "are");
      captions_.push_back(std::move(text));
    }
    if (map_.shortened) {
      captions_.push_back(fmt::format("Only the beginning is drawn: {} \u00d7 {} parts.",
                                      map_.rows.size(), map_.columns.size()));
    }
    if (map_.row_dimension) {
      const double ratio =
          static_cast<double>(map_.rows.back().end) / static_cast<double>(map_.columns.back().end);
      if (std::abs(size_.height / size_.width - ratio) > 0.01 * ratio) {
        captions_.emplace_back("The sides are not to scale.");
      }
    }
  }

  std::string axis(std::size_t dimension) const {
    return fmt::format("dimension {}: {}", dimension, parameter_.grid->full_shape()[dimension]);
  }

  void draw_axes(Svg& svg, double left, double top) const {
    if (map_.column_dimension) {
      svg.text(left, top - 7, "t s q", axis(*map_.column_dimension) + " \u2192");
    }
    if (map_.row_dimension) {
      const std::string text = "\u2190 " + axis(*map_.row_dimension);
      svg.text_upwards(left - 10, top + small_text_width(text), "t s q", text);
    }
  }

  std::string title(const Stretch& row, const Stretch& column, const Holding& holding) const {
    std::string where;
    if (parameter_.treatment != Treatment::kRaw) {
      for (std::size_t d = 0; d < map_.source_parts.size(); ++d) {
        const Stretch* shown = map_.row_dimension == d      ? &row
                               : map_.column_dimension == d ? &column
                                                            : nullptr;
        where += where.empty() ? "[" : ", ";
        where += shown == nullptr ? ":" : fmt::format("{}:{}", shown->begin, shown->end);
      }
      if (!where.empty()) where += "] ";
    }
    const auto found = map_.ranks.find({row.destination_part, column.destination_part});
    return fmt::format(
        "{}{} \u2190 {}", where,
        found == map_.ranks.end() ? "no shown rank" : "destination " + rank_words(found->second),
        source_words(holding));
  }

  std::string source_words(const Holding& holding) const {
    if (!holding)
      return map_.made_by_map ? "no source file, or a value of the map" : "no source file";
    const std::string rank = fmt::format("source rank {}", holding.file->rank);
    return map_.made_by_map ? printable(holding.entry->name) + ", " + rank : rank;
  }

  void draw_regions(Svg& svg, const Scale& x, const Scale& y) const {
    for (const Stretch& row : map_.rows) {
      for (const Stretch& column : map_.columns) {
        const Holding& holding = map_.holdings.at({row.source_part, column.source_part});
        const bool shown = map_.ranks.contains({row.destination_part, column.destination_part});
        const double width = x.length(column.begin, column.end);
        const double height = y.length(row.begin, row.end);
        std::string style = "miss";
        if (holding) style = shown ? sources_.colour(holding) : "z";
        svg.box({x.at(column.begin), y.at(row.begin), width, height}, style,
                title(row, column, holding));
        if (!holding || !shown || height < 40) continue;
        const std::string text = fmt::format("from {}", holding.file->rank);
        if (small_text_width(text) > width - 8) continue;
        svg.text(x.at(column.begin) + width / 2, y.at(row.begin) + height / 2 + 10, "t s m", text);
      }
    }
  }

  void draw_outlines(Svg& svg, const Scale& x, const Scale& y) const {
    for (const Stretch& row : destination_stretches(map_.rows)) {
      for (const Stretch& column : destination_stretches(map_.columns)) {
        const double width = x.length(column.begin, column.end);
        const double height = y.length(row.begin, row.end);
        if (width >= 3 && height >= 3) {
          svg.box({x.at(column.begin), y.at(row.begin), width, height}, "o");
        }
        const auto found = map_.ranks.find({row.destination_part, column.destination_part});
        if (found == map_.ranks.end() || height < 18) continue;
        std::string text = rank_words(found->second);
        if (small_text_width(text) > width - 10) text = format_rank_list(found->second);
        if (small_text_width(text) > width - 10) continue;
        svg.text(x.at(column.begin) + 6, y.at(row.begin) + 15, "t s", text);
      }
    }
  }

  std::size_t legend_entries() const { return std::min(sources_.count(), 4 * kColours); }
  /// Names of tensors are long.
  std::size_t per_line() const { return sources_.are_tensors() ? 1 : 10; }
  std::size_t legend_lines() const { return (legend_entries() + per_line() - 1) / per_line() + 1; }

  void draw_legend(Svg& svg, double top) const {
    svg.text(kMargin, top, "t s q",
             sources_.are_tensors() ? "outlines: destination ranks; colours: tensors of the source"
                                    : "outlines: destination ranks; colours: source ranks");
    for (std::size_t i = 0; i < legend_entries(); ++i) {
      const std::size_t line = i / per_line();
      const double x = kMargin + static_cast<double>(i % per_line()) * 64;
      const double y = top + 10 + static_cast<double>(line) * 22;
      const std::string label = sources_.label(i);
      svg.box({x, y, 14, 14}, Sources::colour_at(i),
              sources_.are_tensors() ? label : "source rank " + label);
      const bool last = i + 1 == legend_entries() && i + 1 < sources_.count();
      svg.text(x + 20, y + 11, "t s", label + (last ? " \u2026" : ""));
    }
  }

  const SliceMap& map_;
  const TargetParameter& parameter_;
  Sources sources_;
  Size size_;
  std::vector<std::string> captions_;
};

std::string facts(const TargetTable& target, const TargetParameter& parameter,
                  const std::vector<SliceMap>& maps) {
  std::string text(mindspore_name(parameter.dtype));
  if (parameter.grid) text += " " + to_string(parameter.grid->full_shape());
  if (parameter.grid && parameter.grid->boxes() != nullptr) {
    text += ": the source has it in " + boxes_text(*parameter.grid) + ", which are not drawn";
  } else if (maps.empty()) {
    text += ": has no elements, or is on none of the shown ranks";
  }
  if (maps.size() > 1) {
    text += fmt::format(", in {} ways in {} pipeline stages", maps.size(),
                        target.strategy()->stage_count());
  }
  return text;
}

}  // namespace

void draw_parameter(const TargetTable& target, const TargetParameter& parameter,
                    const std::vector<Rank>& ranks, Placement placement, BoundedWriter& out) {
  const std::vector<SliceMap> maps = slice_maps(target, parameter, ranks);
  std::vector<Panel> panels;
  double height = kMargin + 48;
  for (const SliceMap& map : maps) {
    panels.emplace_back(map, parameter);
    height += panels.back().height();
  }
  const double width = kLongSide + kAxis + 2 * kMargin;
  Svg svg(out, placement, width, height, "Slices of " + parameter.name);
  svg.text(kMargin, kMargin + 12, "t b", shortened(parameter.name, 72));
  svg.text(kMargin, kMargin + 32, "t", facts(target, parameter, maps));
  double top = kMargin + 44;
  for (const Panel& panel : panels) {
    panel.draw(svg, top);
    top += panel.height();
  }
  svg.close();
}

}  // namespace reshardfs
