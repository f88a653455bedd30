// SPDX-License-Identifier: Apache-2.0
#include "report/parameter_picture.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include <fmt/format.h>

#include "base/rank_format.h"
#include "base/rank_list.h"
#include "base/text/text.h"
#include "report/map_sources.h"
#include "report/picture_legend.h"
#include "report/slice_map.h"

namespace reshardfs {
namespace {

/// Three of these are side by side on a wide page, one fills a phone.
constexpr PictureFrame kPageFrame{12, 20, 322, 120, 322, 640, 56, false};

constexpr double kGoodRow = 18;
constexpr double kBordered = 6;     ///< a part that is thinner would be all border
constexpr double kNamedRow = 12;    ///< a row that has room for a label
constexpr double kLeastNamed = 10;  ///< for one in very small letters

const PictureFrame& frame_of(Placement placement) {
  static constexpr PictureFrame kDocumentFrame{};
  return placement == Placement::kPage ? kPageFrame : kDocumentFrame;
}

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

/// Pixels of the shortest.
double thinnest(const std::vector<Stretch>& stretches, const Scale& scale) {
  double least = scale.at(stretches.back().end);
  for (const Stretch& stretch : stretches) {
    least = std::min(least, scale.length(stretch.begin, stretch.end));
  }
  return least;
}

struct Size {
  double width = 0;
  double height = 0;
};

/// To scale, but for what would be a thread.
Size size_of(const SliceMap& map, const PictureFrame& frame) {
  if (!map.row_dimension) return {frame.longest, frame.bar};
  const double ratio =
      static_cast<double>(map.rows.back().end) / static_cast<double>(map.columns.back().end);
  const double width = std::clamp(frame.highest / ratio, frame.shortest, frame.longest);
  const double height = std::clamp(width * ratio, frame.shortest, frame.highest);
  const auto rows = static_cast<double>(map.rows.size());
  const double named = kLeastNamed * rows;  // of no use if they are too many for labels
  const double highest = std::max({height, std::min(kGoodRow * rows, frame.highest),
                                   named <= frame.highest_of_many ? named : 0});
  return {std::clamp(highest / ratio, width, frame.longest), highest};
}

class Panel {
 public:
  /// @param map source_side() of a map if only that is drawn.
  Panel(const SliceMap& map, const TargetParameter& parameter, const PictureFrame& frame,
        DrawnSlices slices)
      : map_(map),
        parameter_(parameter),
        frame_(frame),
        has_targets_(slices == DrawnSlices::kOfBothSides),
        sources_(map),
        size_(size_of(map, frame)) {
    if (has_targets_) {
      add_captions();
    } else {
      add_caption("Source: " + source_cut() + ".");
    }
  }

  double height() const {
    return static_cast<double>(captions_.size()) * kLine + 26 + size_.height + 14 +
           (has_targets_ ? legend().height() : 0) + 12;
  }

  void draw(Svg& svg, double top) const {
    for (const std::string& caption : captions_) {
      svg.text(frame_.margin, top + 12, "s q", caption);
      top += kLine;
    }
    top += 26;
    const double left = frame_.margin + (map_.row_dimension ? frame_.axis : 0);
    const Scale x(map_.columns, left, size_.width);
    const Scale y(map_.rows, top, size_.height);
    draw_axes(svg, left, top);
    draw_regions(svg, x, y);
    if (has_targets_) draw_outlines(svg, x, y);
    draw_labels(svg, x, y);
    if (has_targets_) legend().draw(svg, top + size_.height + 14);
  }

 private:
  static constexpr double kLine = 16;

  PictureLegend legend() const { return {sources_, frame_}; }

  void add_caption(const std::string& text) {
    const auto columns =
        static_cast<std::size_t>((frame_.width() - 2 * frame_.margin) / small_text_width("n"));
    for (std::string& line : wrapped_lines(text, columns)) captions_.push_back(std::move(line));
  }

  std::string source_cut() const {
    if (parameter_.treatment == Treatment::kRaw) return "one slice for each rank";
    return map_.made_by_map ? "tensors joined by the map" : cut_text(map_.source_parts);
  }

  void add_captions() {
    if (parameter_.treatment == Treatment::kRaw) {
      add_caption("In one strategy only: each target rank gets one source rank's slice.");
    } else {
      add_caption(
          fmt::format("Source: {}. Target: {}{}.", source_cut(), cut_text(map_.destination_parts),
                      parameter_.treatment == Treatment::kKeep ? ", equal on every rank" : ""));
    }
    if (map_.row_dimension && map_.source_parts.size() > 2) {
      std::string text = fmt::format("Dimension {} runs down, dimension {} across",
                                     *map_.row_dimension, *map_.column_dimension);
      text += map_.hidden.empty() ? "; no other is cut."
                                  : fmt::format(", at index 0 of dimension {}, also cut.",
                                                fmt::join(map_.hidden, " and "));
      add_caption(text);
    }
    if (map_.shortened) {
      add_caption(fmt::format("Only the first {} \u00d7 {} parts are drawn.", map_.rows.size(),
                              map_.columns.size()));
    }
    if (map_.row_dimension) {
      const double ratio =
          static_cast<double>(map_.rows.back().end) / static_cast<double>(map_.columns.back().end);
      if (std::abs(size_.height / size_.width - ratio) > 0.01 * ratio) add_caption("Not to scale.");
    }
  }

  std::string axis(std::size_t dimension) const {
    return fmt::format("dimension {}: {}", dimension, parameter_.grid->full_shape()[dimension]);
  }

  void draw_axes(Svg& svg, double left, double top) const {
    if (map_.column_dimension) {
      svg.text(left, top - 7, "s q", axis(*map_.column_dimension) + " \u2192");
    }
    if (map_.row_dimension) {
      const std::string text = "\u2190 " + axis(*map_.row_dimension);
      svg.text_upwards(left - 8, top + small_text_width(text), "s q", text);
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
    if (!has_targets_) return where + source_words(holding);
    const std::vector<Rank>* ranks = target_ranks(row, column);
    return fmt::format("{}{} \u2190 {}", where,
                       ranks == nullptr ? "no shown rank" : "target " + rank_words(*ranks),
                       source_words(holding));
  }

  /// Of the shown ones; nullptr: none has the part.
  const std::vector<Rank>* target_ranks(const Stretch& row, const Stretch& column) const {
    const auto found = map_.ranks.find({row.destination_part, column.destination_part});
    return found == map_.ranks.end() ? nullptr : &found->second;
  }

  const Holding& holding_of(const Stretch& row, const Stretch& column) const {
    return map_.holdings.at({row.source_part, column.source_part});
  }

  std::string source_words(const Holding& holding) const {
    if (!holding)
      return map_.made_by_map ? "no source file, or a value of the map" : "no source file";
    const std::string rank = fmt::format("source rank {}", holding.file->rank);
    return map_.made_by_map ? printable(holding.entry->name) + ", " + rank : rank;
  }

  template <typename Draw>
  void for_each_region(Draw&& draw) const {
    for (const Stretch& row : map_.rows) {
      for (const Stretch& column : map_.columns) draw(row, column);
    }
  }

  static Svg::Rectangle box_of(const Stretch& row, const Stretch& column, const Scale& x,
                               const Scale& y) {
    return {x.at(column.begin), y.at(row.begin), x.length(column.begin, column.end),
            y.length(row.begin, row.end)};
  }

  void draw_regions(Svg& svg, const Scale& x, const Scale& y) const {
    const bool has_borders =
        thinnest(map_.rows, y) >= kBordered && thinnest(map_.columns, x) >= kBordered;
    svg.begin_group(has_borders ? Svg::Edges::kBordered : Svg::Edges::kCrisp);
    for_each_region([&](const Stretch& row, const Stretch& column) {
      const Holding& holding = holding_of(row, column);
      const Svg::Rectangle box = box_of(row, column, x, y);
      const std::string text = title(row, column, holding);
      if (!holding) {
        svg.box(box, "miss", text);
      } else if (has_targets_ && target_ranks(row, column) == nullptr) {
        svg.box(box, "z", text);
      } else {
        svg.filled_box(box, sources_.colour(sources_.number(holding)).fill, text);
      }
    });
    svg.end_group();
  }

  void draw_outlines(Svg& svg, const Scale& x, const Scale& y) const {
    for (const Stretch& row : destination_stretches(map_.rows)) {
      for (const Stretch& column : destination_stretches(map_.columns)) {
        const Svg::Rectangle box = box_of(row, column, x, y);
        if (box.width >= kBordered && box.height >= kBordered) svg.box(box, "o");
      }
    }
  }

  /// The source of one part, on its way into the picture.
  struct SourceLabel {
    Svg::Rectangle box;
    std::string text;  ///< the short one
    std::string ink;
    double used = 0;  ///< pixels at the left that another label has

    /// Whether it stands below that.
    bool is_below() const { return box.height >= 36; }
    double room() const { return box.width - (is_below() ? 0 : used) - 5; }
    bool fits(const std::string& words) const {
      return box.height >= kLeastNamed - 0.5 && small_text_width(words) <= room();
    }
  };

  /// Of each part the source, and the target ranks where their outline begins.
  void draw_labels(Svg& svg, const Scale& x, const Scale& y) const {
    const std::vector<Stretch> rows = destination_stretches(map_.rows);
    const std::vector<Stretch> columns = destination_stretches(map_.columns);
    const auto begins = [](const std::vector<Stretch>& list, const Stretch& stretch) {
      return std::any_of(list.begin(), list.end(),
                         [&](const Stretch& one) { return one.begin == stretch.begin; });
    };
    std::vector<SourceLabel> labels;
    for_each_region([&](const Stretch& row, const Stretch& column) {
      const Holding& holding = holding_of(row, column);
      const std::vector<Rank>* ranks = target_ranks(row, column);
      if (has_targets_ && ranks == nullptr) return;
      SourceLabel label{box_of(row, column, x, y), {}, {}, 0};
      const std::size_t number = holding ? sources_.number(holding) : 0;
      if (holding) label.ink = sources_.colour(number).takes_white ? " w" : " k";
      if (ranks != nullptr && begins(rows, row) && begins(columns, column)) {
        label.used = draw_target_label(svg, label.box, *ranks, label.ink);
      }
      if (!holding) return;
      label.text = sources_.short_label(number);
      labels.push_back(std::move(label));
    });
    const std::string words = has_targets_ ? "from " : "rank ";
    const bool with_words =
        !sources_.are_tensors() &&
        std::all_of(labels.begin(), labels.end(),
                    [&](const SourceLabel& label) { return label.fits(words + label.text); });
    for (const SourceLabel& label : labels) {
      draw_source_label(svg, label, (with_words ? words : "") + label.text);
    }
  }

  /// @return the width that it takes.
  static double draw_target_label(Svg& svg, const Svg::Rectangle& box,
                                  const std::vector<Rank>& ranks, const std::string& ink) {
    if (box.height < kLeastNamed - 0.5) return 0;
    const bool small = box.height < kNamedRow - 0.5;
    std::string text = rank_words(ranks);
    if (small_text_width(text) > box.width - 8) text = format_rank_list(ranks);
    if (small_text_width(text) > box.width - 8) return 0;
    svg.text(box.x + 5, box.y + (small ? box.height / 2 + 3 : std::min(15.0, box.height / 2 + 4)),
             (small ? "x h" : "s h") + ink, text);
    return small_text_width(text) + 10;
  }

  static void draw_source_label(Svg& svg, const SourceLabel& label, const std::string& text) {
    if (!label.fits(text)) return;
    const Svg::Rectangle& box = label.box;
    if (label.is_below()) {
      const double middle = box.height / 2 + 4;
      svg.text(box.x + box.width / 2, box.y + (label.used > 0 ? std::max(middle, 30.0) : middle),
               "s m" + label.ink, text);
    } else {
      const bool small = box.height < kNamedRow - 0.5;
      svg.text(box.x + box.width - 4, box.y + box.height / 2 + (small ? 3 : 4),
               (small ? "x e" : "s e") + label.ink, text);
    }
  }

  const SliceMap& map_;
  const TargetParameter& parameter_;
  const PictureFrame& frame_;
  bool has_targets_;
  MapSources sources_;
  Size size_;
  std::vector<std::string> captions_;
};

std::string facts(const TargetTable& target, const TargetParameter& parameter,
                  const std::vector<SliceMap>& maps) {
  std::string text(mindspore_name(parameter.dtype));
  if (parameter.grid) text += " " + to_string(parameter.grid->full_shape());
  if (parameter.grid && parameter.grid->boxes() != nullptr) {
    text += ": " + boxes_text(*parameter.grid) + " in the source, not drawn";
  } else if (maps.empty()) {
    text += ": no elements, or on none of the shown ranks";
  }
  if (maps.size() > 1) {
    text += fmt::format(", in {} ways in {} pipeline stages", maps.size(),
                        target.strategy()->stage_count());
  }
  return text;
}

}  // namespace

std::string parameter_facts(const TargetTable& target, const TargetParameter& parameter,
                            const std::vector<Rank>& ranks) {
  return facts(target, parameter, slice_maps(target, parameter, ranks));
}

void draw_parameter(const TargetTable& target, const TargetParameter& parameter,
                    const std::vector<Rank>& ranks, Placement placement, DrawnSlices slices,
                    BoundedWriter& out) {
  const PictureFrame& frame = frame_of(placement);
  std::vector<SliceMap> maps = slice_maps(target, parameter, ranks);
  if (slices == DrawnSlices::kOfTheSource) {
    for (SliceMap& map : maps) map = source_side(std::move(map));
  }
  std::vector<Panel> panels;
  double top = frame.has_heading ? frame.margin + 44 : frame.margin;
  double height = top + 4;
  for (const SliceMap& map : maps) {
    panels.emplace_back(map, parameter, frame, slices);
    height += panels.back().height();
  }
  const std::string label = slices == DrawnSlices::kOfTheSource ? "Slices of the source"
                            : frame.has_heading                 ? "Slices of " + parameter.name
                                                                : "Slices of the target ranks";
  Svg svg(out, placement, frame.width(), height, label);
  if (frame.has_heading) {
    svg.text(frame.margin, frame.margin + 12, "b", shortened(parameter.name, 72));
    svg.text(frame.margin, frame.margin + 32, "", facts(target, parameter, maps));
  }
  for (const Panel& panel : panels) {
    panel.draw(svg, top);
    top += panel.height();
  }
  svg.close();
}

}  // namespace reshardfs
