// SPDX-License-Identifier: Apache-2.0
#include "check/stats_text.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "reshardfs/error.h"

#include "base/rank_format.h"
#include "base/rank_list.h"
#include "base/text/text.h"
#include "check/diff.h"
#include "report/text/text.h"

namespace reshardfs {
namespace {

/// Integers in full, other numbers with as many digits as help a reader.
std::string number_text(WideReal value, DType dtype) {
  if (is_floating(dtype)) return fmt::format("{:.5g}", static_cast<double>(value));
  return value < 0 ? fmt::format("{}", static_cast<std::int64_t>(value))
                   : fmt::format("{}", static_cast<std::uint64_t>(value));
}

/// A mean or deviation, which has fractions always.
std::string mean_text(WideReal value) {
  return fmt::format("{:.5g}", static_cast<double>(value));
}

/// Of a type without numbers.
const char* kind_of(DType dtype) {
  if (is_packed(dtype)) return "packed";
  if (dtype == DType::kComplex64) return "complex";
  return dtype == DType::kString ? "text" : "map";
}

struct RowCells {
  std::string name;
  std::string tensor;
  std::string ranks;
  std::array<std::string, 4> moments;  ///< min, max, mean, deviation; "-" if there are none
  std::array<std::string, 3> counts;   ///< NaN, Inf, zeros
  bool numbers = false;
};

RowCells cells_of(const ParameterStats& parameter) {
  RowCells cells;
  cells.name = printable(parameter.name);
  cells.tensor = std::string(mindspore_name(parameter.dtype)) + " " + to_string(parameter.shape);
  cells.ranks = parameter.ranks.empty() ? "all" : format_rank_list(parameter.ranks);
  cells.moments.fill("-");
  cells.counts.fill("-");
  if (!parameter.stats) {
    cells.moments.front() = fmt::format("({}, no {})", kind_of(parameter.dtype),
                                        is_array(parameter.dtype) ? "statistics" : "numbers");
    return cells;
  }
  const ElementStats& stats = *parameter.stats;
  cells.numbers = true;
  cells.counts = {std::to_string(stats.nans), std::to_string(stats.infinities),
                  std::to_string(stats.zeros)};
  if (const auto deviation = stats.deviation()) {
    cells.moments = {number_text(stats.min, parameter.dtype),
                     number_text(stats.max, parameter.dtype), mean_text(stats.mean),
                     mean_text(*deviation)};
  }
  return cells;
}

/// Whether each is of one and the same: there is nothing to tell apart then.
bool same_ranks(const std::vector<ParameterStats>& parameters) {
  return std::all_of(parameters.begin(), parameters.end(), [&](const ParameterStats& other) {
    return other.ranks == parameters.front().ranks;
  });
}

/// Without a row of strings for each parameter beside the table's own: there may be one for each
/// rank of each parameter.
std::string table_text(const std::vector<ParameterStats>& parameters, bool with_ranks) {
  std::vector<std::string> heading{"PARAMETER", "TYPE", "MIN", "MAX",  "MEAN",
                                   "STD",       "NAN",  "INF", "ZEROS"};
  std::vector<std::size_t> numeric{2, 3, 4, 5, 6, 7, 8};
  if (with_ranks) {
    heading.insert(heading.begin() + 2, "RANKS");
    for (std::size_t& column : numeric) ++column;
  }
  TextTable table(heading, numeric);
  for (const ParameterStats& parameter : parameters) {
    RowCells row = cells_of(parameter);
    std::vector<std::string> cells;
    cells.reserve(heading.size());
    cells.push_back(std::move(row.name));
    cells.push_back(std::move(row.tensor));
    if (with_ranks) cells.push_back(std::move(row.ranks));
    std::move(row.moments.begin(), row.moments.end(), std::back_inserter(cells));
    std::move(row.counts.begin(), row.counts.end(), std::back_inserter(cells));
    table.add_row(std::move(cells));
  }
  return table.str();
}

/// For a narrow terminal: what `inspect` shows without statistics is left out.
std::string narrow_table_text(const std::vector<ParameterStats>& parameters) {
  TextTable table({"PARAMETER", "MIN", "MAX", "MEAN", "STD"}, {1, 2, 3, 4});
  for (const ParameterStats& parameter : parameters) {
    std::vector<std::string> cells{printable(parameter.name)};
    const auto deviation =
        parameter.stats ? parameter.stats->deviation() : std::optional<WideReal>();
    if (deviation) {
      const ElementStats& stats = *parameter.stats;
      for (const WideReal value : {stats.min, stats.max, stats.mean, *deviation}) {
        cells.push_back(fmt::format("{:.3g}", static_cast<double>(value)));
      }
    }
    cells.resize(5, "-");
    table.add_row(std::move(cells));
  }
  return table.str();
}

std::string block_text(const RowCells& row, bool with_ranks, std::size_t columns) {
  std::string text = "    " + row.tensor;
  if (with_ranks) text += (row.ranks == "all" ? ", all ranks" : ", ranks " + row.ranks);
  if (!row.numbers) {
    text += " " + row.moments.front();
  } else {
    text += fmt::format(", min {}, max {}, mean {}, std {}, {} NaN, {} Inf, {} zeros",
                        row.moments[0], row.moments[1], row.moments[2], row.moments[3],
                        row.counts[0], row.counts[1], row.counts[2]);
  }
  return shortened(row.name, columns) + "\n" + wrapped(text, columns, 4) + "\n";
}

/// Lines of parameters with NaN or infinity in red. `rows` are the lines' numbers.
std::string with_colour(const std::string& table, const std::vector<bool>& red) {
  std::string out;
  std::size_t number = 0;
  for (std::size_t begin = 0; begin < table.size(); ++number) {
    const std::size_t end = table.find('\n', begin);
    const std::string line = table.substr(begin, end - begin);
    begin = end + 1;
    const char* code = number == 0 ? "\033[1m" : red[number - 1] ? "\033[31m" : "";
    out += *code == '\0' ? line + "\n" : fmt::format("{}{}\033[0m\n", code, line);
  }
  return out;
}

void write_number(JsonWriter& json, const char* name, WideReal value, DType dtype) {
  if (is_floating(dtype)) return json.member(name, static_cast<double>(value));
  value < 0 ? json.member(name, static_cast<std::int64_t>(value))
            : json.member(name, static_cast<std::uint64_t>(value));
}

void write_members(JsonWriter& json, const ElementStats& stats, DType dtype) {
  json.member("elements", stats.elements);
  if (const auto deviation = stats.deviation()) {
    write_number(json, "min", stats.min, dtype);
    write_number(json, "max", stats.max, dtype);
    json.member("mean", static_cast<double>(stats.mean));
    json.member("std", static_cast<double>(*deviation));
  } else {
    for (const char* name : {"min", "max", "mean", "std"}) json.null_member(name);
  }
  json.member("nan", stats.nans);
  json.member("inf", stats.infinities);
  json.member("zeros", stats.zeros);
}

}  // namespace

std::string stats_text(const std::vector<ParameterStats>& parameters, std::size_t columns,
                       bool colour) {
  std::vector<bool> red;
  red.reserve(parameters.size());
  for (const ParameterStats& parameter : parameters) {
    red.push_back(parameter.is_bad());
  }
  const bool with_ranks = !same_ranks(parameters);
  const std::string table = table_text(parameters, with_ranks);
  if (widest_line(table) <= columns) return colour ? with_colour(table, red) : table;
  // Its lines would not show how many elements are bad, or which ranks' they are.
  if (!with_ranks && std::find(red.begin(), red.end(), true) == red.end()) {
    const std::string narrow = narrow_table_text(parameters);
    if (widest_line(narrow) <= columns) return colour ? with_colour(narrow, red) : narrow;
  }
  std::string out;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const std::string block = block_text(cells_of(parameters[i]), with_ranks, columns);
    out += colour && red[i] ? "\033[31m" + block.substr(0, block.size() - 1) + "\033[0m\n" : block;
  }
  return out;
}

std::string bad_elements_text(const std::vector<ParameterStats>& parameters) {
  std::set<std::string_view> names;
  std::set<std::string_view> bad;
  const ParameterStats* first = nullptr;
  std::uint64_t nans = 0;
  std::uint64_t infinities = 0;
  for (const ParameterStats& parameter : parameters) {
    names.insert(parameter.name);
    if (!parameter.is_bad()) continue;
    bad.insert(parameter.name);
    nans += parameter.stats->nans;
    infinities += parameter.stats->infinities;
    if (first == nullptr) first = &parameter;
  }
  if (first == nullptr) {
    return fmt::format("{} without NaN or Inf", counted(names.size(), "parameter"));
  }
  std::string text = fmt::format(
      "{} of {} {} {}: {}, {}", bad.size(), counted(names.size(), "parameter"),
      bad.size() == 1 ? "has" : "have",
      nans == 0         ? "Inf"
      : infinities == 0 ? "NaN"
                        : "NaN or Inf",
      printable(first->name), counted(first->stats->nans + first->stats->infinities, "element"));
  if (first->first_bad && !first->shape.empty()) {
    text += fmt::format(", first at [{}]",
                        fmt::join(index_tuple(first->first_bad->index, first->shape), ", "));
  }
  if (first->first_bad && first->first_bad->rank) {
    text += ", rank " + to_string(*first->first_bad->rank);
  }
  if (bad.size() > 1) text += fmt::format("; {} more, which --only-bad lists", bad.size() - 1);
  return text;
}

void write_stats(JsonWriter& json, const std::vector<ParameterStats>& parameters) {
  json.objects("statistics", parameters, [&](const ParameterStats& parameter) {
    json.member("name", parameter.name);
    json.member("dtype", mindspore_name(parameter.dtype));
    json.numbers("shape", parameter.shape);
    parameter.ranks.empty() ? json.null_member("ranks") : json.numbers("ranks", parameter.ranks);
    if (parameter.stats) {
      write_members(json, *parameter.stats, parameter.dtype);
    } else {
      json.member("skipped", kind_of(parameter.dtype));
    }
    if (parameter.stats && parameter.first_bad) {
      json.open_object("first_bad");
      json.numbers("index", index_tuple(parameter.first_bad->index, parameter.shape));
      json.member_or_null("rank", parameter.first_bad->rank);
      json.close_object();
    }
  });
}

}  // namespace reshardfs
