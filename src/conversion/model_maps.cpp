// SPDX-License-Identifier: Apache-2.0
#include "conversion/model_maps.h"

#include <algorithm>
#include <system_error>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "reshardfs/error.h"

#include "base/text/text.h"
#include "base/text/url_path.h"
#include "checkpoint/ranks/discovery.h"
#include "checkpoint/torch/meta_set.h"
#include "conversion/auto_map.h"
#include "conversion/family_target.h"
#include "conversion/identity_order.h"
#include "conversion/installed_maps.h"
#include "conversion/stated_model/model_numbers.h"
#include "plan/mapped/mapped_parts.h"
#include "storage/local/directory.h"
#include "storage/local/linkless_tree.h"

namespace reshardfs {
namespace {

using modelmap::Direction;
using modelmap::ModelMap;

constexpr const char* kConfigName = "config.json";

const char* direction_words(Direction direction) {
  return direction == Direction::kForward ? "forward" : "inverse";
}

/// The variable of the side that is shown.
const char* parts_variable(Direction direction) {
  return direction == Direction::kForward ? "tp" : "from_tp";
}

modelmap::PartsOf& target_parts(modelmap::MapOptions& options) {
  return options.direction == Direction::kForward ? options.to_parts : options.from_parts;
}

modelmap::PartsOf& source_parts(modelmap::MapOptions& options) {
  return options.direction == Direction::kForward ? options.from_parts : options.to_parts;
}

/// As sizes cut what the map shows.
modelmap::PartsOf parts_in_family(const ModelMaps::Destination& destination,
                                  const modelmap::Mapping& mapping) {
  std::map<std::string, Shape> shapes;
  for (const modelmap::TargetTensor& target : mapping.targets) {
    shapes.emplace(target.name, target.shape());
  }
  std::vector<FamilyTensor> tensors = family_tensors(mapping);
  for (FamilyTensor& tensor : tensors) {
    tensor.is_shown = !destination.wants || destination.wants(tensor.name);
  }
  return parts_in(destination.family->strategy_of_one_stage(tensors), std::move(shapes));
}

/// As the destination's strategy cuts what the map shows; empty: there is none.
modelmap::PartsOf parts_in_destination(const ModelMap& map,
                                       const std::vector<modelmap::SourceTensor>& tensors,
                                       modelmap::MapOptions options,
                                       const ModelMaps::Destination& destination) {
  options.shapes_alone = true;
  std::map<std::string, Shape> shapes;
  std::vector<NamedShape> named;
  const auto add = [&](const std::string& tensor, const Shape& shape) {
    const std::string& name = destination.names->target(tensor);
    if (shapes.emplace(name, shape).second) named.push_back({name, shape});
  };
  const modelmap::Mapping mapping = check_mapping(map, tensors, options);
  if (destination.family != nullptr) {
    return parts_in_family(destination, mapping);
  }
  for (const modelmap::TargetTensor& target : mapping.targets) add(target.name, target.shape());
  // A strategy may have the weight of a state alone, though only the state is there.
  for (const modelmap::TargetTensor& target : mapping.targets) {
    if (target.state_prefix > 0) add(target.name.substr(target.state_prefix), target.shape());
  }
  auto strategy = destination.strategy->layouts_of(named);
  if (!strategy) return {};
  return [parts = parts_in(*std::move(strategy), std::move(shapes)), names = destination.names](
             const std::string& tensor) { return parts(names->target(tensor)); };
}

/// A model that sees has any text model inside: that is no reason to show one as its part.
bool is_larger_model(const std::string& side) {
  return side.ends_with(" vision-language");
}

bool is_yaml(const std::string& name) {
  return name.ends_with(".yaml") || name.ends_with(".yml");
}

/// Where the source has a model's configuration. What cannot be told is no reason to refuse it.
std::optional<std::filesystem::path> config_directory(const std::filesystem::path& source,
                                                      const SourceTreePtr& listed) {
  try {
    const std::filesystem::path config = config_of(source, {});
    if (!is_url(source)) {
      std::error_code failed;
      if (!std::filesystem::exists(config, failed)) return std::nullopt;
      return config.parent_path();
    }
    if (path_kind(config, listed) == PathKind::kOther) return config.parent_path();
  } catch (const Error&) {
    return std::nullopt;
  }
  return std::nullopt;
}

/// As a reader of Megatron's checkpoints has found it among the arguments.
std::optional<modelmap::StatedPattern> pattern_of_arguments(const CheckpointSet& set) {
  for (const SavedValue& value : set.beside().values) {
    const bool is_pattern = value.name == std::string("args.") + modelmap::kLayerPattern ||
                            value.name == std::string("args.") + modelmap::kOldLayerPattern;
    const std::string& text = value.what;
    if (!is_pattern || text.size() < 3 || text.front() != '\'') continue;
    return modelmap::StatedPattern{text.substr(1, text.size() - 2), value.name};
  }
  return std::nullopt;
}

}  // namespace

ModelMaps::ModelMaps(const ModelMapOptions& options, const std::filesystem::path& source,
                     std::filesystem::path linkless_root, const SourceTreePtr& listed,
                     InputsPtr inputs)
    : linkless_root_(std::move(linkless_root)),
      inputs_(std::move(inputs)),
      directions_(options.directions),
      source_(source) {
  for (const std::string& name : options.maps) maps_.push_back(load_map(name));
  if (directions_.empty()) directions_.assign(maps_.size(), MapDirection::kAuto);
  if (directions_.size() != maps_.size()) {
    throw Error(ErrorKind::kUsage, std::to_string(directions_.size()) + " of --map-direction for " +
                                       std::to_string(maps_.size()) + " of --map")
        .hint("give one for each map, or none");
  }
  if (maps_.empty() && !options.variables.empty()) {
    throw Error(ErrorKind::kUsage, "--map-var needs --map");
  }
  read_config(options.model_config, source, listed);
  read_variables(options.variables);
  read_training(options.training_config, source, listed);
}

std::string ModelMaps::read_file(const std::filesystem::path& file, std::uint64_t max_bytes) const {
  return read_small_file(file, max_bytes,
                         recording(linkless_tree_of(linkless_root_, file), inputs_));
}

ModelMap ModelMaps::load_map(const std::string& name) {
  const NamedMap found = find_map(name);
  words_of_names_.push_back(found.variable);
  return modelmap::load_model_map(found.file, [this](const std::filesystem::path& file) {
    return read_file(file, modelmap::kMaxMapBytes);
  });
}

void ModelMaps::read_config(const std::filesystem::path& model_config,
                            const std::filesystem::path& source, const SourceTreePtr& listed) {
  if (!model_config.empty()) {
    const bool is_directory = path_kind(model_config) == PathKind::kDirectory;
    has_model_directory_ = is_directory;
    config_file_ = is_directory ? model_config / kConfigName : model_config;
  } else if (const auto directory = config_directory(source, listed)) {
    config_file_ = *directory / kConfigName;
    has_model_directory_ = true;
    if (!maps_.empty()) {
      notes_.push_back("variables of the map are those of " + printable(config_file_.string()));
    }
  }
  // Without a map, no variable needs a value.
  if (maps_.empty()) return;
  if (config_file_.empty()) {
    read_params();
    return;
  }
  try {
    config_ = modelmap::ModelConfig::parse(read_file(config_file_, modelmap::kMaxConfigBytes),
                                           config_file_.string());
  } catch (Error& error) {
    throw error.in_file(config_file_.string());
  }
}

std::filesystem::path ModelMaps::params_file() const {
  return source_.empty() || is_url(source_) ? std::filesystem::path() : meta_params(source_);
}

/// The numbers of Meta's releases of Llama. Loaders of Hugging Face's models do not know that file:
/// it is no config.json of the model shown.
void ModelMaps::read_params() {
  const std::filesystem::path params = params_file();
  if (params.empty()) return;
  try {
    config_ =
        modelmap::ModelConfig::parse(read_file(params, modelmap::kMaxConfigBytes), params.string());
  } catch (Error& error) {
    throw error.in_file(params.string());
  }
  notes_.push_back("variables of the map are those of " + printable(params.string()));
}

modelmap::ModelConfig ModelMaps::config_of_model() const {
  if (config_.is_read() || !model_type_.empty()) return config_;
  const std::filesystem::path file = config_file_.empty() ? params_file() : config_file_;
  if (file.empty()) return config_;
  try {
    return modelmap::ModelConfig::parse(read_file(file, modelmap::kMaxConfigBytes), file.string());
  } catch (Error& error) {
    throw error.in_file(file.string());
  }
}

void ModelMaps::read_training(const std::filesystem::path& training_config,
                              const std::filesystem::path& source, const SourceTreePtr& listed) {
  std::set<std::string> keys;
  for (const ModelMap& map : maps_) keys.merge(map.training_keys());
  if (!training_config.empty()) {
    if (keys.empty()) {
      const auto tree = recording(linkless_tree_of(linkless_root_, training_config), inputs_);
      if (numbers_of_training(training_config, tree)) return;
      throw Error(ErrorKind::kUsage,
                  "--training-config: no map asks for a training's configuration, and the file "
                  "has no numbers of the model")
          .in_file(training_config.string());
    }
    training_ = modelmap::TrainingConfig::parse(
        read_file(training_config, modelmap::kMaxTrainingConfigBytes), training_config.string(),
        keys);
    return;
  }
  if (!keys.empty() && !source.empty()) find_training(source, keys, listed);
}

/// All YAML files in the source's directory that set any of the keys. What cannot be read is no
/// reason to refuse the source: another file may be what it seems to be.
void ModelMaps::find_training(const std::filesystem::path& source,
                              const std::set<std::string>& keys, const SourceTreePtr& listed) {
  constexpr std::size_t kMostFiles = 16;
  std::vector<std::filesystem::path> files;
  try {
    const bool is_directory = path_kind(source, listed) == PathKind::kDirectory;
    const std::filesystem::path directory = is_directory ? source : source.parent_path();
    if (!is_directory && is_url(source)) return;
    for (const DirectoryEntry& entry : list_directory(directory, is_directory ? listed : nullptr)) {
      if (entry.is_regular && is_yaml(entry.name)) files.push_back(directory / entry.name);
    }
  } catch (const Error&) {
    return;
  }
  if (files.size() > kMostFiles) {
    notes_.push_back("the source has " + counted(files.size(), "YAML file") +
                     ", none of which is read: --training-config chooses one");
    return;
  }
  for (const std::filesystem::path& file : files) {
    try {
      const auto found = modelmap::TrainingConfig::parse(
          read_file(file, modelmap::kMaxTrainingConfigBytes), file.string(), keys);
      if (found.empty()) continue;
      training_.add(found);
      notes_.push_back("settings of the training are those of " + printable(file.string()));
    } catch (const Error& error) {
      notes_.push_back("not read as the configuration of a training: " + std::string(error.what()));
    }
  }
}

void ModelMaps::require_shared_values(Replicas replicas) const {
  if (maps_.empty() || replicas != Replicas::kOwn) return;
  throw Error(ErrorKind::kUsage,
              "--replicas own cannot go with --map: a tensor that the map makes is of no single "
              "source rank")
      .hint("take --replicas first");
}

void ModelMaps::read_variables(const std::vector<std::string>& texts) {
  const bool asks_for_release = std::any_of(
      maps_.begin(), maps_.end(), [](const ModelMap& map) { return map.asks_for_release(); });
  const std::string release = std::string(modelmap::kReleaseVariable) + "=";
  const std::string pattern = std::string(modelmap::kLayerPattern) + "=";
  const std::string type = std::string(modelmap::kTypeVariable) + "=";
  for (const std::string& text : texts) {
    if (asks_for_release && text.starts_with(release)) {
      release_ = modelmap::parse_release(text);
      continue;
    }
    if (text.starts_with(type)) {
      model_type_ = stated_type(text.substr(type.size()));
      config_.state_model_type(model_type_);
      continue;
    }
    if (text.starts_with(pattern)) {
      pattern_ = {text.substr(pattern.size()), "--map-var " + text};
      continue;
    }
    if (std::any_of(maps_.begin(), maps_.end(),
                    [&](const ModelMap& map) { return map.setting_in_words(text).has_value(); })) {
      words_.push_back(text);
      continue;
    }
    const auto [name, value] = modelmap::parse_map_variable(text);
    variables_.insert_or_assign(name, value);
  }
  if (pattern_) require_used(modelmap::kLayerPattern);
  for (const auto& [name, value] : variables_) require_used(name);
}

void ModelMaps::require_used(const std::string& name) const {
  const bool is_used = std::any_of(maps_.begin(), maps_.end(), [&](const ModelMap& map) {
    return map.mentioned_names().contains(name);
  });
  if (is_used) return;
  throw Error(ErrorKind::kUsage, "--map-var " + printable(name) + ": no rule uses it");
}

modelmap::MapOptions ModelMaps::options_of(std::size_t number) const {
  modelmap::MapOptions options;
  options.config = config_;
  options.training = training_;
  options.release = release_;
  options.pattern = pattern_;
  const std::set<std::string> mentioned = maps_[number].mentioned_names();
  for (const auto& [name, value] : variables_) {
    if (mentioned.contains(name)) options.variables.emplace(name, value);
  }
  // A name of the map is about that map alone.
  std::vector<std::string> words = words_;
  words.push_back(words_of_names_[number]);
  for (const std::string& text : words) {
    const auto setting = maps_[number].setting_in_words(text);
    if (setting) options.variables.insert_or_assign(setting->first, setting->second);
  }
  return options;
}

modelmap::MapOptions ModelMaps::map_options(std::size_t number,
                                            const std::shared_ptr<const SourceTable>& source,
                                            const std::vector<modelmap::SourceTensor>& tensors,
                                            const Destination& destination) const {
  modelmap::MapOptions options = options_of(number);
  // A map after the first one gets names that no training argument is about.
  if (!options.pattern && number == 0) options.pattern = pattern_of_arguments(source->checkpoint());
  switch (directions_[number]) {
    case MapDirection::kForward:
      options.direction = Direction::kForward;
      break;
    case MapDirection::kInverse:
      options.direction = Direction::kInverse;
      break;
    case MapDirection::kAuto:
      options.direction = find_direction(maps_[number], tensors, options);
  }
  source_parts(options) = parts_in(source);
  static_cast<void>(set_target_parts(options, number, tensors, destination));
  return options;
}

bool ModelMaps::set_target_parts(modelmap::MapOptions& map, std::size_t number,
                                 const std::vector<modelmap::SourceTensor>& tensors,
                                 const Destination& destination) const {
  if (number + 1 < maps_.size()) {
    target_parts(map) = parts_between_maps();
    return false;
  }
  target_parts(map) = parts_of_one_rank();
  if (destination.strategy == nullptr || !needs_target_parts(number, *map.direction)) {
    return destination.strategy == nullptr;
  }
  // With one part, all tensors get their names and, but for padding, their shapes.
  modelmap::PartsOf parts = parts_in_destination(maps_[number], tensors, map, destination);
  if (!parts) return true;
  target_parts(map) = std::move(parts);
  return false;
}

/// @throws Error kUsage if the user states other parts for the tensors than sizes cut.
void ModelMaps::require_sizes(std::size_t number, Direction direction,
                              const FamilyTarget& family) const {
  const auto stated = variables_.find(parts_variable(direction));
  const bool is_last = number + 1 == maps_.size();
  if (!is_last || stated == variables_.end() || stated->second == family.tensor_parts()) return;
  throw Error(ErrorKind::kUsage,
              "--map-var " + stated->first + "=" + std::to_string(stated->second) +
                  " arranges tensors for another number of ranks than --dst-strategy " +
                  printable(family.sizes()) + " cuts them for");
}

/// Whether tensors that are shown depend on how the destination cuts them.
bool ModelMaps::needs_target_parts(std::size_t number, Direction direction) const {
  if (number + 1 < maps_.size()) return false;
  const char* name = parts_variable(direction);
  return !variables_.contains(name) && maps_[number].mentioned_names().contains(name);
}

ModelMaps::Result ModelMaps::apply(std::shared_ptr<const SourceTable> source,
                                   const Destination& destination,
                                   const MappedSourceOptions& options) const {
  Result result;
  result.table = std::move(source);
  if (maps_.empty()) return result;
  if (destination.strategy != nullptr && destination.strategy->is_sizes() &&
      destination.family == nullptr) {
    throw Error(ErrorKind::kUsage,
                "sizes as a target cannot be combined with --map: the layouts of the source are of "
                "other tensors than the map shows")
        .hint(
            "give a strategy file, or write rules for the tensors that the map shows (see "
            "reshardfs-strategy(5))");
  }
  for (std::size_t i = 0; i < maps_.size(); ++i) {
    const auto tensors = full_tensors(*result.table, options.state_prefixes);
    try {
      modelmap::MapOptions map = map_options(i, result.table, tensors, destination);
      map.leaves_out = options.leaves_out;
      map.checks_family = options.checks_family;
      // What the last map shows is asked for; what others need of those before it, it tells itself.
      map.wants = i + 1 < maps_.size() && options.wants
                      ? [](const std::string& /*name*/) { return false; }
                      : options.wants;
      if (destination.family != nullptr) require_sizes(i, *map.direction, *destination.family);
      result.mappings.push_back(map_tensors(maps_[i], tensors, map));
    } catch (Error& error) {
      add_suggestion(error, i, tensors, result.table->checkpoint());
      throw;
    }
    if (std::string warning = check_type(i); !warning.empty()) {
      result.warnings.push_back(std::move(warning));
    }
    require_identities(result.mappings.back(), *result.table);
    result.sources.push_back(result.table);
    const modelmap::Mapping& mapping = result.mappings.back();
    add_origins(i, mapping.direction, destination, result);
    result.table = mapped_source(result.table, mapping, options);
    result.side = target_side(maps_[i], mapping.direction);
    result.notes.push_back(printable(maps_[i].file) + " is read " +
                           direction_words(mapping.direction) + ": it shows " +
                           printable(result.side));
  }
  return result;
}

/// Adds values that the tensors do not show, and notes about their origins.
void ModelMaps::add_origins(std::size_t number, Direction direction, const Destination& destination,
                            Result& result) const {
  modelmap::MapOptions options = options_of(number);
  options.direction = direction;
  result.settings.clear();
  for (const auto& [name, value] : known_settings(maps_[number], options)) {
    result.settings.emplace(name, *value);
    result.notes.push_back(name + " is " + std::to_string(*value) + ": " + value.origin());
  }
  const bool is_whole = destination.strategy == nullptr ||
                        (destination.family == nullptr && !destination.strategy->is_rules() &&
                         !destination.strategy->layouts_of({}).has_value());
  if (!is_whole || !needs_target_parts(number, direction)) return;
  result.notes.push_back(std::string(parts_variable(direction)) +
                         " is 1: " + parts_of_one_rank()(std::string()).origin());
}

std::vector<ModelMaps::Explanation> ModelMaps::explain(std::shared_ptr<const SourceTable> source,
                                                       const Destination& destination,
                                                       const MappedSourceOptions& options,
                                                       const std::string& name) const {
  constexpr std::size_t kMostTensors = 64;
  std::vector<std::shared_ptr<const SourceTable>> tables{std::move(source)};
  for (std::size_t i = 0; i + 1 < maps_.size(); ++i) {
    const auto tensors = full_tensors(*tables.back(), options.state_prefixes);
    modelmap::MapOptions map = map_options(i, tables.back(), tensors, destination);
    map.leaves_out = options.leaves_out;
    tables.push_back(mapped_source(tables.back(), map_tensors(maps_[i], tensors, map), options));
  }
  std::vector<Explanation> all;
  std::set<std::string> wanted{name};
  for (std::size_t i = maps_.size(); i-- > 0;) {
    const auto tensors = full_tensors(*tables[i], options.state_prefixes);
    modelmap::MapOptions map = map_options(i, tables[i], tensors, destination);
    map.leaves_out = options.leaves_out;
    map.explain = wanted;
    const modelmap::Mapping mapping = check_mapping(maps_[i], tensors, map);
    std::set<std::string> next;
    for (const modelmap::TargetTensor& target : mapping.targets) {
      if (!wanted.contains(target.name) || all.size() == kMostTensors) continue;
      Explanation made{target.name, {}, target.place, target.is_alias, {}};
      for (const std::uint32_t number : target.sources) {
        made.sources.push_back(tensors[number].name);
        next.insert(tensors[number].name);
      }
      const auto values = mapping.origins.find(target.name);
      if (values != mapping.origins.end()) made.values = values->second;
      all.push_back(std::move(made));
    }
    if (all.empty()) {
      if (!mapping.problems.empty()) throw mapping.problems.front().error();
      throw Error(ErrorKind::kMissing, "the map shows no tensor of this name").for_parameter(name);
    }
    wanted = std::move(next);
  }
  return all;
}

std::string ModelMaps::suggestion(std::size_t number,
                                  const std::vector<modelmap::SourceTensor>& tensors) const {
  modelmap::MapOptions options;
  options.config = config_;
  const auto taken = [&](const ModelMap& map, Direction direction) -> std::size_t {
    const std::size_t count = count_taken(map, direction, tensors, options);
    if (!map.rest || count == 0) return count;
    if (!serves(map, config_.model_types())) return 0;
    const std::vector<bool> kept = kept_names(map, direction, tensors, options);
    return count + static_cast<std::size_t>(std::count(kept.begin(), kept.end(), true));
  };
  const ModelMap& own = maps_[number];
  const std::size_t forward = taken(own, Direction::kForward);
  const std::size_t inverse = taken(own, Direction::kInverse);
  const std::string total = counted(tensors.size(), "tensor");
  if (directions_[number] == MapDirection::kForward && inverse > forward) {
    return "read inverse, its rules take " + std::to_string(inverse) + " of " + total +
           ": --map-direction inverse";
  }
  if (directions_[number] == MapDirection::kInverse && forward > inverse) {
    return "read forward, its rules take " + std::to_string(forward) + " of " + total +
           ": --map-direction forward";
  }
  std::size_t most = std::max(forward, inverse) + 1;
  std::vector<std::string> better;
  // A user with a map of his own does not need the names of installed ones.
  if (!is_inside(own.file, installed_maps_directory())) return {};
  for (const ModelMap& map : installed_maps()) {
    const std::size_t count =
        std::max(is_larger_model(map.to_side) ? 0 : taken(map, Direction::kForward),
                 is_larger_model(map.from_side) ? 0 : taken(map, Direction::kInverse));
    if (count < most) continue;
    if (count > most) better.clear();
    most = count;
    better.push_back(map.name());
  }
  if (better.empty()) return {};
  return fmt::format("did you mean --map {}? {} rules take {} of {}",
                     fmt::join(better, " or --map "), better.size() == 1 ? "Its" : "Their", most,
                     total);
}

void ModelMaps::add_suggestion(Error& error, std::size_t number,
                               const std::vector<modelmap::SourceTensor>& tensors,
                               const CheckpointSet& checkpoint) const {
  try {
    // Then no map fits.
    std::string text = number == 0 ? foreign_names(checkpoint) : std::string();
    if (text.empty()) text = suggestion(number, tensors);
    if (!text.empty()) error.hint(text);
  } catch (const Error&) {
    // An installed map that cannot be read is not what is wrong here.
  }
}

}  // namespace reshardfs
