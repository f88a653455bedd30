// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <iostream>
#include <map>
#include <memory>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "reshardfs/error.h"

#include "base/text/name_groups.h"
#include "base/text/near_name.h"
#include "base/text/utf8.h"
#include "cli/app.h"
#include "cli/command.h"
#include "cli/words/shared_words.h"
#include "cli/words/source_request.h"
#include "conversion/installed_maps.h"
#include "conversion/map_copies.h"
#include "conversion/source_opening.h"
#include "conversion/stated_model/stated_model.h"
#include "fuse/event_log.h"
#include "plan/mapped/mapped_source.h"
#include "plan/source/source_table.h"
#include "report/text/form_picture.h"
#include "report/text/json_output.h"
#include "report/text/terminal.h"
#include "report/text/text.h"
#include "report/text/why_text.h"
#include "storage/location.h"

namespace reshardfs {
namespace {

struct MapCommandArguments {
  SourceRequest source;  ///< without a path: none is given
  std::string parameter;
};

// --- list
// -----------------------------------------------------------------------------------------

/// Those that a user gives a value to, or config.json: single capitals are bound by shapes.
std::vector<std::string> variables_of(const modelmap::ModelMap& map) {
  std::vector<std::string> names;
  for (const std::string& name : map.mentioned_names()) {
    const bool is_bound = name.size() == 1 && name[0] >= 'A' && name[0] <= 'Z';
    if (!is_bound) names.push_back(name);
  }
  return names;
}

/// Without what a terminal would take for a command.
std::string plain(std::string text) {
  std::erase_if(text, is_control_byte);
  return text;
}

std::vector<std::string> other_names(const modelmap::ModelMap& map) {
  std::vector<std::string> names;
  for (const auto& [name, words] : map.other_names) {
    names.push_back(fmt::format("{} (--map-var {})", printable(name), printable(words)));
  }
  return names;
}

void write_members(JsonWriter& json, const modelmap::ModelMap& map) {
  json.member("name", map.name());
  json.member("file", map.file);
  json.member("from", map.from_side);
  json.member("to", map.to_side);
  json.member("about", map.about);
  json.texts("names", other_names(map));
  json.texts("types", map.types);
  json.texts("variables", variables_of(map));
}

std::string map_text(const modelmap::ModelMap& map) {
  const std::size_t columns = output_columns() - 2;
  const std::string variables = fmt::format("variables: {}", fmt::join(variables_of(map), ", "));
  const std::string also =
      map.other_names.empty() ? "" : fmt::format("  also: {}\n", fmt::join(other_names(map), ", "));
  const std::string types = fmt::format("model_type: {}", fmt::join(map.types, ", "));
  const std::string of_types =
      map.types.empty() ? "" : fmt::format("  {}\n", wrapped(types, columns, 4));
  return fmt::format("{}\n  {}\n  from: {}\n  to:   {}\n{}{}  {}\n", map.name(),
                     wrapped(plain(map.about), columns, 2), printable(map.from_side),
                     printable(map.to_side), also, of_types, wrapped(variables, columns, 4));
}

// --- check and show
// -------------------------------------------------------------------------------

/// A map met with the tensors of a source.
struct Met {
  std::shared_ptr<const SourceTable> table;
  std::vector<modelmap::SourceTensor> tensors;
  modelmap::Mapping mapping;
};

void warn(const std::vector<std::string>& lines) {
  for (const std::string& line : lines) log_warning(LogEvent::kConversionWarning, "{}", line);
}

Met meet(const MapCommandArguments& arguments, SourceOpening& opening) {
  const CheckpointSet& set = *opening.open_set();
  warn(set.warnings());
  warn(model_warnings(model_question(arguments.source, set, opening.tree())));
  const SourceTableResult opened = opening.lay_out_unread({});
  compare_mapped_ranks(*opened.table, opening.maps(), arguments.source.replicas);
  warn(opened.unmatched);
  warn(opened.table->catalogue().warnings());
  Met met;
  met.table = opened.table;
  met.tensors = full_tensors(*met.table, opening.state_prefixes());
  modelmap::MapOptions options = opening.maps().map_options(0, met.table, met.tensors);
  if (!arguments.parameter.empty()) options.explain = {arguments.parameter};
  met.mapping = check_mapping(opening.maps().at(0), met.tensors, options);
  return met;
}

std::string place_text(const modelmap::MapPlace& place) {
  const std::string file = place.file ? *place.file : std::string();
  return fmt::format("{}:{}", std::filesystem::path(file).filename().string(), place.line);
}

/// What becomes of the source's tensors: names by what takes them, in the order of the source.
struct Fates {
  std::vector<std::pair<std::string, std::vector<std::string_view>>> by_rule;
  std::vector<std::string_view> aliases;
  std::vector<std::string_view> dropped;
  std::vector<std::string_view> unused;
};

Fates fates_of(const Met& met) {
  Fates fates;
  std::vector<bool> known(met.tensors.size(), false);
  std::map<std::pair<std::string_view, std::int64_t>, std::size_t> numbers;
  for (const modelmap::RuleUse& use : met.mapping.uses) {
    const auto [found, is_new] =
        numbers.try_emplace({*use.place.file, use.place.line}, fates.by_rule.size());
    if (is_new) fates.by_rule.push_back({place_text(use.place), {}});
    fates.by_rule[found->second].second.emplace_back(met.tensors[use.source].name);
    known[use.source] = true;
  }
  for (const modelmap::SourceAlias& alias : met.mapping.aliases) {
    fates.aliases.emplace_back(met.tensors[alias.tensor].name);
    known[alias.tensor] = true;
  }
  for (const std::uint32_t dropped : met.mapping.dropped) {
    fates.dropped.emplace_back(met.tensors[dropped].name);
    known[dropped] = true;
  }
  for (std::size_t i = 0; i < known.size(); ++i) {
    if (!known[i]) fates.unused.emplace_back(met.tensors[i].name);
  }
  return fates;
}

void add_rows(TextTable& table, const std::string& what,
              const std::vector<std::string_view>& names) {
  bool is_first = true;
  for (const std::string& group : group_names(names)) {
    table.add_row({is_first ? what : "", printable(group)});
    is_first = false;
  }
}

std::vector<std::string_view> target_names(const modelmap::Mapping& mapping) {
  std::vector<std::string_view> names;
  names.reserve(mapping.targets.size());
  for (const modelmap::TargetTensor& target : mapping.targets) names.emplace_back(target.name);
  return names;
}

void print_json(const Met& met, const Fates& fates, const std::string& side) {
  write_json([&](JsonWriter& json) {
    const bool is_forward = met.mapping.direction == modelmap::Direction::kForward;
    json.member("direction", is_forward ? "forward" : "inverse");
    json.member("shows", side);
    json.objects("rules", fates.by_rule, [&](const auto& rule) {
      json.member("rule", rule.first);
      json.texts("takes", rule.second);
    });
    json.texts("aliases", fates.aliases);
    json.texts("dropped", fates.dropped);
    json.texts("unused", fates.unused);
    json.texts("tensors", target_names(met.mapping));
    json.objects("problems", met.mapping.problems, [&](const modelmap::MapProblem& problem) {
      json.member("message", problem.message);
      json.member("file", problem.file);
      problem.line == 0 ? json.null_member("line") : json.member("line", problem.line);
    });
  });
}

void print_fates(const Met& met, const Fates& fates, const std::string& side) {
  TextTable table({"RULE", "TAKES"});
  for (const auto& [rule, names] : fates.by_rule) add_rows(table, rule, names);
  add_rows(table, "alias", fates.aliases);
  add_rows(table, "dropped", fates.dropped);
  add_rows(table, "no rule", fates.unused);
  std::cout << table.str();
  TextTable shown({fmt::format("SHOWN AS {}: {} TENSORS", side, met.mapping.targets.size())});
  for (const std::string& group : group_names(target_names(met.mapping))) {
    shown.add_row({printable(group)});
  }
  std::cout << "\n" << shown.str();
}

void print_problems(const modelmap::Mapping& mapping) {
  bool has_unused = false;
  for (const modelmap::MapProblem& problem : mapping.problems) {
    // All of them are listed in groups already.
    if (problem.message.find(": no rule uses it (") != std::string::npos &&
        std::exchange(has_unused, true)) {
      continue;
    }
    const std::string line = problem.line == 0 ? "" : fmt::format("line {}: ", problem.line);
    std::cout << std::flush;
    std::cerr << fmt::format("reshardfs: {}: {}{}\n", printable(problem.file), line,
                             problem.message);
  }
}

/// nullptr if the bytes of the files cannot be told.
CellGridPtr shown_grid(const Met& met, const modelmap::TargetTensor& target) {
  try {
    MappedSourceOptions options;
    options.compares_ranks = false;
    modelmap::Mapping alone;
    alone.direction = met.mapping.direction;
    alone.targets = {target};
    alone.targets.front().added = 0;  // where it is added, the bytes are of no file
    const auto shown = mapped_source(met.table, alone, options);
    const SourceParameter* parameter = shown->find(target.name);
    return parameter == nullptr ? nullptr : parameter->grid;
  } catch (const Error&) {
    return nullptr;
  }
}

MapCommandArguments map_arguments(const Given& given) {
  MapCommandArguments arguments;
  const std::string source = given.text("source");
  arguments.source = source_request(given, source.empty() ? source : located(source));
  arguments.source.allow_unmatched = true;  // rules of a strategy are not what is checked
  arguments.source.maps.maps = {given.argument("MAP")};
  return arguments;
}

}  // namespace

int run_map_list(const Given& given) {
  log_settings(given).apply();
  const std::vector<modelmap::ModelMap> all = installed_maps();
  if (all.empty()) {
    throw Error(ErrorKind::kMissing, "no model map is installed")
        .in_file(installed_maps_directory().string())
        .hint(
            "the maps belong beside the program, in share/reshardfs/maps: install the whole "
            "package, or name a map's file");
  }
  if (given.flag("json")) {
    write_json([&](JsonWriter& json) {
      json.objects("maps", all, [&](const modelmap::ModelMap& each) { write_members(json, each); });
    });
    return kExitDone;
  }
  std::string text;
  for (const modelmap::ModelMap& each : all) {
    if (!text.empty()) text += '\n';
    text += map_text(each);
  }
  std::cout << text;
  return kExitDone;
}

int run_map_check(const Given& given) {
  log_settings(given).apply();
  const MapCommandArguments arguments = map_arguments(given);
  const bool json = given.flag("json");
  SourceOpening opening(arguments.source);
  const ModelMaps& maps = opening.maps();
  const modelmap::ModelMap& map = maps.at(0);
  if (arguments.source.path.empty() && json) {
    write_json([&](JsonWriter& out) {
      out.member("file", map.file);
      out.member("from", map.from_side);
      out.member("to", map.to_side);
      out.member("rules", map.rules.size());
      out.member("aliases", map.aliases.size());
    });
    return kExitDone;
  }
  if (arguments.source.path.empty()) {
    std::cout << fmt::format(
        "{}: {} and {} between {} and {}; --source checks it "
        "against a checkpoint\n",
        printable(map.file), counted(map.rules.size(), "rule"),
        map.aliases.size() == 1 ? "1 alias" : fmt::format("{} aliases", map.aliases.size()),
        printable(map.from_side), printable(map.to_side));
    return kExitDone;
  }
  const Met met = meet(arguments, opening);
  const Fates fates = fates_of(met);
  const std::string& side = target_side(map, met.mapping.direction);
  if (json) {
    print_json(met, fates, side);
  } else {
    print_fates(met, fates, side);
    print_problems(met.mapping);
    const std::string suggestion =
        met.mapping.problems.empty() ? "" : maps.suggestion(0, met.tensors);
    if (!suggestion.empty()) std::cerr << "reshardfs: " << suggestion << "\n";
  }
  return met.mapping.problems.empty() ? kExitDone : kExitDifference;
}

int run_map_show(const Given& given) {
  constexpr std::size_t kMostBoxes = 40;
  log_settings(given).apply();
  MapCommandArguments arguments = map_arguments(given);
  arguments.parameter = given.text("param");
  SourceOpening opening(arguments.source);
  Met met = meet(arguments, opening);
  const auto& targets = met.mapping.targets;
  const auto found = std::find_if(targets.begin(), targets.end(), [&](const auto& target) {
    return target.name == arguments.parameter;
  });
  if (found == targets.end()) {
    if (!met.mapping.problems.empty()) throw met.mapping.problems.front().error();
    std::vector<std::string> names;
    names.reserve(targets.size());
    for (const auto& target : targets) names.push_back(target.name);
    throw Error(ErrorKind::kMissing, "the map shows no tensor of this name")
        .for_parameter(arguments.parameter)
        .hint(did_you_mean(arguments.parameter, names))
        .hint("'reshardfs map check' lists what it shows");
  }
  std::cout << fmt::format("{}  {} {}\n{} {}\n{}\n", printable(found->name),
                           mindspore_name(found->dtype), to_string(found->shape()),
                           found->is_alias ? "alias of" : "rule of", place_text(found->place),
                           why_line(met.mapping.origins[found->name], shown_grid(met, *found)));
  const auto source_of = [&](std::size_t number) {
    const modelmap::SourceTensor& tensor = met.tensors[found->sources[number]];
    return FormSource{tensor.name, tensor.shape};
  };
  std::cout << form_picture(*found->form, source_of, kMostBoxes);
  if (found->added != 0) {
    std::cout << fmt::format("each element {} {}\n", found->added < 0 ? '-' : '+',
                             std::abs(found->added));
  }
  return kExitDone;
}

}  // namespace reshardfs
