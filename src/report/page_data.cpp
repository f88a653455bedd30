// SPDX-License-Identifier: Apache-2.0
#include "report/page_data.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <unordered_map>

#include "base/content_size.h"
#include "base/json/json_writer.h"
#include "base/rank_list.h"
#include "layout/slicing.h"
#include "report/slice_map.h"

namespace reshardfs {
namespace {

/// A text with its quotes; bytes that are not UTF-8 are replaced. Without `<`, so that no text ends
/// the script element that it is in.
std::string page_json_text(const std::string& text) {
  const std::string plain = json_quoted(text, JsonText::kReplaced);
  std::string out;
  for (const char c : plain) {
    if (c == '<') {
      out += "\\u003c";
    } else {
      out += c;
    }
  }
  return out;
}

/// A list with one item for each of `items`; `write_item` writes it.
template <typename Items, typename WriteItem>
void write_list(BoundedWriter& out, std::string_view name, const Items& items,
                WriteItem&& write_item) {
  out.print("\"{}\":[", name);
  bool first = true;
  for (const auto& item : items) {
    if (!first) out.write(",");
    first = false;
    write_item(item);
  }
  out.write("],\n");
}

/// Texts that many parameters have, each once.
class Texts {
 public:
  std::size_t number(const std::string& text) {
    const auto [found, is_new] = numbers_.try_emplace(text, list_.size());
    if (is_new) list_.push_back(text);
    return found->second;
  }
  const std::vector<std::string>& list() const noexcept { return list_; }

 private:
  std::unordered_map<std::string, std::size_t> numbers_;
  std::vector<std::string> list_;
};

/// The first of the shown ranks that has it.
std::optional<Rank> first_rank(const TargetTable& target, const TargetParameter& parameter,
                               const std::vector<Rank>& ranks) {
  for (const Rank rank : ranks) {
    if (target.has(parameter, rank)) return rank;
  }
  return std::nullopt;
}

std::string source_cut(const TargetParameter& parameter) {
  if (!parameter.grid) return "slice, unchanged";
  if (parameter.grid->boxes() != nullptr) return boxes_text(*parameter.grid);
  if (parameter.grid->mapped() != nullptr) return "by the map";
  std::vector<std::int64_t> parts;
  for (const AxisPartition& partition : parameter.grid->partitions()) {
    parts.push_back(partition.parts());
  }
  return cut_text(parts);
}

std::string target_cut(const TargetTable& target, const TargetParameter& parameter,
                       std::optional<Rank> rank) {
  if (!rank) return "not shown";
  if (parameter.treatment == Treatment::kRaw) return "slice, unchanged";
  if (parameter.treatment == Treatment::kKeep) return "whole";
  std::vector<std::int64_t> parts;
  for (const AxisPartition& partition : parameter.cuts().at(target.stage_of(*rank))->partitions()) {
    parts.push_back(partition.parts());
  }
  return cut_text(parts);
}

std::string layout_text(const Layout* layout) {
  return layout == nullptr ? "no layout" : to_string(*layout);
}

std::string type_text(const TargetParameter& parameter) {
  const std::string to(mindspore_name(parameter.dtype));
  const bool same = parameter.dtype == parameter.source->dtype;
  return same ? to : std::string(mindspore_name(parameter.source->dtype)) + " \u2192 " + to;
}

}  // namespace

std::uint64_t full_bytes(const TargetTable& target, const TargetParameter& parameter,
                         const std::vector<Rank>& ranks) {
  const auto of = [&](const Shape& shape) { return bytes_to_hold(shape, parameter.dtype); };
  if (parameter.grid) return of(parameter.grid->full_shape());
  const std::optional<Rank> rank = first_rank(target, parameter, ranks);
  return rank ? of(target.slice_shape(parameter, *rank)) : 0;
}

void write_report_data(const TargetTable& target, const std::vector<Rank>& ranks,
                       const TrafficSurvey& survey, const std::vector<std::size_t>& examples,
                       const std::vector<std::int64_t>& slices_of, BoundedWriter& out) {
  const std::vector<TargetParameter>& parameters = target.parameters();
  // The rank is the same for all of a kind.
  std::vector<std::optional<Rank>> rank_of;
  for (const ParameterKind& kind : survey.kinds) {
    rank_of.push_back(first_rank(target, parameters[kind.first], ranks));
  }
  const auto rank = [&](const TargetParameter& parameter) {
    return rank_of[survey.kind_of[static_cast<std::size_t>(&parameter - parameters.data())]];
  };
  const auto number = [&](std::uint64_t value) { out.print("{}", value); };
  const auto string = [&](const std::string& text) { out.write(page_json_text(text)); };
  Texts types;
  Texts shapes;
  Texts cuts;
  Texts layouts;
  out.write("{");
  write_list(out, "name", parameters, [&](const auto& p) { string(p.name); });
  write_list(out, "type", parameters, [&](const auto& p) { number(types.number(type_text(p))); });
  write_list(out, "shape", parameters, [&](const auto& p) {
    const bool whole = p.grid && is_array(p.dtype);
    number(shapes.number(whole ? to_string(p.grid->full_shape()) : "\u2014"));
  });
  write_list(out, "source", parameters, [&](const auto& p) { number(cuts.number(source_cut(p))); });
  write_list(out, "target", parameters,
             [&](const auto& p) { number(cuts.number(target_cut(target, p, rank(p)))); });
  write_list(out, "source_layout", parameters,
             [&](const auto& p) { number(layouts.number(layout_text(p.source->layout))); });
  write_list(out, "target_layout", parameters, [&](const auto& p) {
    const std::optional<Rank> own = rank(p);
    number(layouts.number(layout_text(own ? target.layout(p, *own) : nullptr)));
  });
  write_list(out, "size", parameters, [&](const auto& p) { number(full_bytes(target, p, ranks)); });
  write_list(out, "kind", survey.kind_of, number);
  write_list(out, "example", examples, number);
  write_list(out, "rank_lists", survey.kinds,
             [&](const auto& kind) { string(format_rank_list(kind.source_ranks)); });
  write_list(out, "types", types.list(), string);
  write_list(out, "shapes", shapes.list(), string);
  write_list(out, "cuts", cuts.list(), string);
  write_list(out, "layouts", layouts.list(), string);
  write_list(out, "slices_of", slices_of, [&](std::int64_t slices) { out.print("{}", slices); });
  out.print("\"count\":{}}}", parameters.size());
}

}  // namespace reshardfs
