// SPDX-License-Identifier: Apache-2.0
#include "report/text/model_tree_text.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "report/text/text.h"

namespace reshardfs {
namespace {

constexpr std::size_t kGap = 2;
constexpr std::size_t kWidestBar = 16;
constexpr std::size_t kNarrowestBar = 4;
/// Labels keep as much before other columns get narrower or go.
constexpr std::size_t kLabelColumns = 20;
constexpr std::size_t kWidestContent = 40;
constexpr std::size_t kShownTypes = 3;
constexpr std::size_t kShareColumns = 5;
constexpr std::string_view kElements = "ELEMS";
constexpr std::string_view kRanks = "RANKS";
constexpr std::size_t kWidestRanks = 16;
/// The heading, and what may have to be said below.
constexpr std::size_t kOtherLines = 6;

struct Glyphs {
  std::string_view branch;
  std::string_view last;
  std::string_view line;
  std::string_view space;
  std::string_view times;
};
constexpr Glyphs kUtf8Glyphs{"├─ ", "└─ ", "│  ", "   ", "×"};
constexpr Glyphs kAsciiGlyphs{"|- ", "`- ", "|  ", "   ", "x"};

/// `share` of `columns`, in eighths of a column where the characters are there.
std::string bar_text(double share, std::size_t columns, bool utf8) {
  constexpr std::array<std::string_view, 8> kEighths{"", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};
  const std::size_t steps = utf8 ? kEighths.size() : 1;
  const auto filled = static_cast<std::size_t>(
      std::llround(share * static_cast<double>(columns) * static_cast<double>(steps)));
  std::string bar;
  for (std::size_t i = 0; i < filled / steps; ++i) bar += utf8 ? "█" : "#";
  return utf8 ? bar + std::string(kEighths.at(filled % steps)) : bar;
}

std::string share_text(double share) {
  if (share >= 0.9995) return "100%";
  if (share > 0 && share < 0.001) return "<0.1%";
  return fmt::format("{:.1f}%", 100 * share);
}

/// @param brief "BF16" for "BFloat16".
std::string types_text(const TreeNode& node, bool brief) {
  if (node.dtypes.size() > kShownTypes) return fmt::format("{} types", node.dtypes.size());
  std::vector<std::string_view> names;
  for (const DType dtype : node.dtypes) {
    const bool own_name = is_array(dtype) && dtype != DType::kInt4;
    names.push_back(brief && own_name ? safetensors_name(dtype) : mindspore_name(dtype));
  }
  return fmt::format("{}", fmt::join(names, ", "));
}

/// "32 × Float32 [4096, 4096]", or of more than one parameter "288 × Float32, Float16".
std::string content_text(const TreeNode& node, const Glyphs& glyphs, bool brief) {
  const bool is_leaf = node.tensors > 0;
  const std::uint64_t count = is_leaf ? node.tensors : node.parameters;
  std::string text = count > 1 ? fmt::format("{} {} ", count, glyphs.times) : "";
  text += types_text(node, brief);
  if (node.shapes.size() > 1) return text + fmt::format(" of {} shapes", node.shapes.size());
  const bool array = is_leaf && is_array(node.dtypes.front());
  return array ? text + " " + to_string(node.shapes.front()) : text;
}

struct Row {
  std::string lines;  ///< that join it to the others
  std::string label;
  std::string times;  ///< " × 32", which is never shortened
  std::string content;
  std::string brief_content;
  std::string ranks;
  std::string elements;
  std::string size;
  double share = 0;

  std::size_t label_columns() const {
    return text_width(lines) + text_width(label) + text_width(times);
  }
};

struct Widths {
  std::size_t label = 0;
  std::size_t content = 0;  ///< 0 of this and the next two: not shown
  std::size_t ranks = 0;
  std::size_t elements = 0;
  std::size_t size = 0;
  std::size_t bar = 0;
  bool brief = false;  ///< types by their short names

  /// All columns but the labels.
  std::size_t others() const {
    std::size_t sum = kGap + size + kGap + kShareColumns;
    for (const std::size_t column : {content, ranks, elements})
      sum += column == 0 ? 0 : kGap + column;
    return sum + (bar == 0 ? 0 : bar + 1);
  }
};

/// Nodes on each level, the root's first.
void count_levels(const TreeNode& node, std::size_t level, std::vector<std::size_t>& counts) {
  if (counts.size() <= level) counts.resize(level + 1);
  ++counts[level];
  for (const TreeNode& child : node.children) count_levels(child, level + 1, counts);
}

class Drawing {
 public:
  Drawing(const TreeNode& root, const TreeStyle& style)
      : style_(style), glyphs_(style.utf8 ? kUtf8Glyphs : kAsciiGlyphs), total_(root.bytes) {
    std::vector<std::size_t> levels;
    count_levels(root, 0, levels);
    deepest_ = levels.size() - 1;
    depth_ = style.depth > 0 ? style.depth : fitting_depth(levels);
    // Limits the lines of a model without levels.
    if (style.depth == 0) most_rows_ = style.lines - std::min(style.lines, kOtherLines);
    // If the same ranks hold all of it, naming them tells nothing.
    shows_ranks_ = root.ranks.empty();
    add_row(root, "all", "");
    add_children(root, 1, "");
  }

  std::string text() const {
    const Widths widths = find_widths();
    std::string out = heading(widths);
    for (const Row& row : rows_) out += line(row, widths);
    return out + remarks();
  }

 private:
  std::size_t fitting_depth(const std::vector<std::size_t>& levels) const {
    std::size_t depth = 0;
    std::size_t rows = kOtherLines;
    while (depth + 1 < levels.size() && rows + levels[depth + 1] <= style_.lines) {
      rows += levels[++depth];
    }
    return std::max<std::size_t>(depth, 1);
  }

  void add_row(const TreeNode& node, const std::string& label, const std::string& lines) {
    Row row;
    row.lines = lines;
    row.label = label;
    if (node.repeated > 1) row.times = fmt::format(" {} {}", glyphs_.times, node.repeated);
    row.content = content_text(node, glyphs_, false);
    row.brief_content = content_text(node, glyphs_, true);
    if (shows_ranks_) row.ranks = node.ranks;
    row.elements = human_count(node.elements);
    row.size = human_bytes(node.bytes);
    row.share = total_ == 0 ? 0 : static_cast<double>(node.bytes) / static_cast<double>(total_);
    rows_.push_back(std::move(row));
  }

  void add_children(const TreeNode& node, std::size_t level, const std::string& lines) {
    if (level > depth_) {
      if (!node.children.empty()) {
        ++folded_nodes_;
        folded_parameters_ += node.parameters;
      }
      return;
    }
    for (std::size_t i = 0; i < node.children.size(); ++i) {
      const TreeNode& child = node.children[i];
      if (rows_.size() > most_rows_) {
        left_out_ += child.parameters;
        left_out_bytes_ += child.bytes;
        continue;
      }
      const bool last = i + 1 == node.children.size();
      add_row(child, child.label, lines + std::string(last ? glyphs_.last : glyphs_.branch));
      add_children(child, level + 1, lines + std::string(last ? glyphs_.space : glyphs_.line));
    }
  }

  Widths natural_widths(bool brief) const {
    Widths widths{4, 4, 0, kElements.size(), 4, kWidestBar, brief};
    for (const Row& row : rows_) {
      widths.label = std::max(widths.label, row.label_columns());
      widths.content =
          std::max(widths.content, text_width(brief ? row.brief_content : row.content));
      if (!row.ranks.empty()) {
        widths.ranks = std::max({widths.ranks, kRanks.size(), row.ranks.size()});
      }
      widths.elements = std::max(widths.elements, row.elements.size());
      widths.size = std::max(widths.size, row.size.size());
    }
    return widths;
  }

  Widths find_widths() const {
    Widths widths = natural_widths(false);
    if (style_.columns == kAnyWidth) return widths;
    const auto lacking = [&] {
      const std::size_t all = widths.label + widths.others();
      return all - std::min(all, style_.columns);
    };
    if (lacking() > kWidestBar - kNarrowestBar) widths = natural_widths(true);
    widths.bar -= std::min(lacking(), kWidestBar - kNarrowestBar);
    widths.content = std::min(widths.content, kWidestContent);
    widths.ranks = std::min(widths.ranks, kWidestRanks);
    const std::size_t spare = widths.label - std::min(widths.label, kLabelColumns);
    for (std::size_t* column : {&widths.bar, &widths.elements, &widths.ranks, &widths.content}) {
      if (lacking() > spare) *column = 0;
    }
    widths.label -= lacking();
    return widths;
  }

  std::string coloured(const char* code, const std::string& text) const {
    return style_.colour && !text.empty() ? fmt::format("\033[{}m{}\033[0m", code, text) : text;
  }

  static std::string padding(std::size_t columns, const std::string& text) {
    const std::size_t width = text_width(text);
    return std::string(columns - std::min(columns, width), ' ');
  }

  std::string heading(const Widths& widths) const {
    std::string out = "NAME" + std::string(widths.label - 4, ' ');
    const auto right = [&](const std::string& title, std::size_t columns) {
      out += std::string(kGap, ' ') + padding(columns, title) + title;
    };
    if (widths.content > 0) out += "  TYPE" + std::string(widths.content - 4, ' ');
    if (widths.ranks > 0) {
      out += std::string(kGap, ' ') + std::string(kRanks) +
             std::string(widths.ranks - kRanks.size(), ' ');
    }
    if (widths.elements > 0) right(std::string(kElements), widths.elements);
    right("SIZE", widths.size);
    right("SHARE", kShareColumns);
    return coloured("1", out) + "\n";
  }

  std::string line(const Row& row, const Widths& widths) const {
    const std::size_t fixed = text_width(row.lines) + text_width(row.times);
    std::string lines = row.lines;
    std::string label = row.label;
    if (fixed + text_width(label) > widths.label) {
      // Deep in a narrow tree: what is left of the lines tells as much.
      const std::size_t room = widths.label - std::min(widths.label, fixed);
      if (room < 8) lines.clear();
      label = shortened(
          label, widths.label - text_width(lines) - std::min(widths.label, text_width(row.times)));
    }
    std::string out = coloured("2", lines) + label + coloured("1", row.times) +
                      padding(widths.label, lines + label + row.times);
    const auto right = [&](const std::string& text, std::size_t columns) {
      out += std::string(kGap, ' ') + padding(columns, text) + text;
    };
    if (widths.content > 0) {
      const std::string content =
          shortened(widths.brief ? row.brief_content : row.content, widths.content);
      out += std::string(kGap, ' ') + content + padding(widths.content, content);
    }
    if (widths.ranks > 0) {
      const std::string ranks = shortened(row.ranks, widths.ranks);
      out += std::string(kGap, ' ') + ranks + padding(widths.ranks, ranks);
    }
    if (widths.elements > 0) right(row.elements, widths.elements);
    right(row.size, widths.size);
    right(share_text(row.share), kShareColumns);
    const std::string bar = widths.bar > 0 ? bar_text(row.share, widths.bar, style_.utf8) : "";
    if (!bar.empty()) out += " " + coloured("36", bar);
    return out + "\n";
  }

  std::string remarks() const {
    std::string out;
    const auto remark = [&](const std::string& text) {
      out += (out.empty() ? "\n" : "") + wrapped(text, style_.columns, 2) + "\n";
    };
    if (left_out_ > 0) {
      remark(fmt::format("and {} more {} of {}: --depth {} shows them", left_out_,
                         left_out_ == 1 ? "parameter" : "parameters", human_bytes(left_out_bytes_),
                         depth_));
    }
    if (folded_nodes_ > 0) {
      remark(fmt::format(
          "{} {} folded in {}: --depth {} shows all", counted(folded_parameters_, "parameter"),
          folded_parameters_ == 1 ? "is" : "are", counted(folded_nodes_, "line"), deepest_));
    }
    return out;
  }

  const TreeStyle& style_;
  const Glyphs& glyphs_;
  std::uint64_t total_;
  std::size_t depth_ = 0;
  bool shows_ranks_ = false;
  std::size_t deepest_ = 0;
  std::size_t most_rows_ = kAnyHeight;
  std::vector<Row> rows_;
  std::uint64_t folded_nodes_ = 0;
  std::uint64_t folded_parameters_ = 0;
  std::uint64_t left_out_ = 0;
  std::uint64_t left_out_bytes_ = 0;
};

}  // namespace

std::string human_count(std::uint64_t count) {
  constexpr std::array<const char*, 6> kUnits{"K", "M", "B", "T", "P", "E"};
  if (count < 1000) return std::to_string(count);
  auto value = static_cast<double>(count) / 1000;
  std::size_t unit = 0;
  while (value >= 999.5 && unit + 1 < kUnits.size()) {
    value /= 1000;
    ++unit;
  }
  const int decimals = value < 9.995 ? 2 : value < 99.95 ? 1 : 0;
  return fmt::format("{:.{}f}{}", value, decimals, kUnits.at(unit));
}

std::string tree_text(const TreeNode& root, const TreeStyle& style) {
  return Drawing(root, style).text();
}

}  // namespace reshardfs
