// SPDX-License-Identifier: Apache-2.0
#include "modelmap/scope.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "base/text/text.h"
#include "modelmap/config_keys.h"

namespace reshardfs::modelmap {
namespace {

using Value = Known<std::int64_t>;

/// Variables that stand for each other.
constexpr std::size_t kMaxVariableDepth = 64;

bool is_parts(std::string_view name) {
  return name == "tp" || name == "from_tp";
}

/// Whether a configuration without its keys tells the value.
bool absence_tells(const ConfigKeys& known, const ModelConfig& config) {
  if (known.absent.empty() || !config.is_read()) return false;
  const std::string& type = config.model_type();
  if (!known.only.empty()) return known.only.contains(type);
  return type.empty() || !known.except.contains(type);
}

bool is_bound_by_shapes(const std::string& name) {
  return name.size() == 1 && name[0] >= 'A' && name[0] <= 'Z';
}

std::string unknown_words(const std::string& name) {
  return "unknown variable '" + printable(name) + "'";
}

}  // namespace

void Scope::bind(const std::string& name, std::int64_t value, const std::string& origin) {
  unbind(name);
  bound_.push_back({name, Value::derived(value, origin)});
}

void Scope::unbind(const std::string& name) {
  std::erase_if(bound_, [&](const Bound& bound) { return bound.name == name; });
  found_.clear();
}

std::int64_t Scope::value(const std::string& name) const {
  const Found found = look_up(name);
  if (found.value) return *found.value;
  throw UnknownVariable(found.value.origin() + advice_for(found.missing), found.missing);
}

/// What gives the name a value.
std::string Scope::advice_for(const std::string& name) const {
  if (is_bound_by_shapes(name)) return "; 'shape' or 'to_shape' has to bind it";
  if (is_parts(name)) return "; give --map-var " + name + "=N";
  const auto known = variables_.settings.find(name);
  if (known == variables_.settings.end()) return "; --model-config or --map-var can give it";
  const Setting& setting = known->second;
  std::string advice = "; give --map-var " + name + "=";
  if (setting.readings.empty()) advice += "N";
  for (const auto& [value, words] : setting.readings) {
    advice += (value == setting.readings.begin()->first ? "" : " or " + name + "=") +
              std::to_string(value);
  }
  if (!setting.keys.empty()) {
    advice += ", or --training-config with the training's YAML (" + setting.keys.front() + ")";
  }
  if (!setting.releases.empty()) {
    advice += ", or if it does not set that, --map-var " + std::string(kReleaseVariable) +
              "=N with the release of " + setting.framework + " that trains";
  }
  return advice;
}

std::int64_t Scope::evaluate(const Expression& expression) const {
  return expression.evaluate(lookup());
}

NameLookup Scope::lookup() const {
  NameLookup lookup([this](const std::string& name) { return value(name); });
  lookup.element = [this](const std::string& list, std::int64_t index, const std::string* text) {
    return element(list, index, text);
  };
  lookup.pattern = [this]() -> const LayerPattern& { return pattern(); };
  lookup.places = [this](const std::string& list, const std::string& text) {
    std::vector<std::int64_t> places;
    const auto count = static_cast<std::int64_t>(list_named(list).size());
    for (std::int64_t place = 0; place < count; ++place) {
      if (element(list, place, &text) != 0) places.push_back(place);
    }
    return places;
  };
  return lookup;
}

bool Scope::is_known(const std::string& name) const {
  if (name == kLayerPattern) return variables_.pattern.has_value();
  return look_up(name).value.has_value() || variables_.config.find_list(name) != nullptr;
}

std::string Scope::words_of(const std::string& name) const {
  if (name == kLayerPattern) return "'" + printable(pattern().text()) + "'";
  const Found found = look_up(name);
  const bool is_list = !found.value && variables_.config.find_list(name) != nullptr;
  return is_list ? "a list" : std::to_string(value(name));
}

const ModelConfig::List& Scope::list_named(const std::string& list) const {
  const ModelConfig& config = variables_.config;
  if (const ModelConfig::List* values = config.find_list(list)) return *values;
  throw UnknownVariable(
      "unknown list '" + printable(list) + "'" +
          (config.is_read() ? ", which " + printable(config.file()) + " does not have"
                            : "; --model-config can give it"),
      list);
}

std::int64_t Scope::element(const std::string& list, std::int64_t index,
                            const std::string* text) const {
  const ModelConfig& config = variables_.config;
  const ModelConfig::List& values = list_named(list);
  const std::string words = "'" + printable(list) + "' of " + printable(config.file());
  if (index < 0 || static_cast<std::size_t>(index) >= values.size()) {
    throw Error(ErrorKind::kBadInput, words + " has " + counted(values.size(), "value") +
                                          ", and none for " + std::to_string(index));
  }
  const ModelConfig::Element& value = values[static_cast<std::size_t>(index)];
  if (text == nullptr && value.number) return *value.number;
  if (text != nullptr && !value.number) return value.text == *text ? 1 : 0;
  throw Error(ErrorKind::kBadInput,
              words + " has " +
                  (value.number ? "the number " + std::to_string(*value.number)
                                : "the text '" + printable(value.text) + "'") +
                  " at " + std::to_string(index) + ", where the map expects a " +
                  (text == nullptr ? "number" : "text"));
}

const LayerPattern& Scope::pattern() const {
  if (variables_.pattern) return *variables_.pattern;
  const std::string& why = variables_.pattern.origin();
  throw UnknownVariable(unknown_words(kLayerPattern) + (why.empty() ? "" : ", since " + why) +
                            "; give --map-var " + kLayerPattern + "='*-*-', with a symbol for " +
                            "each layer",
                        kLayerPattern);
}

std::string Scope::origins_of(const Expression& expression) const {
  std::string text;
  for (const std::string& name : expression.names()) {
    const Value known = look_up(name).value;
    if (!known || known.origin().empty()) continue;
    text += (text.empty() ? " (" : "; ") + name + " is " + std::to_string(*known) + ": " +
            known.origin();
  }
  return text.empty() ? text : text + ")";
}

Scope::Found Scope::look_up(const std::string& name) const {
  for (const Bound& bound : bound_) {
    if (bound.name == name) return {bound.value, {}};
  }
  if (words_.contains(name)) {
    throw Error(ErrorKind::kBadInput, "the capture '" + name + "' is a word, not a number");
  }
  if (const auto known = found_.find(name); known != found_.end()) return known->second;
  // A variable may stand for what its name means without it.
  if (!pending_.empty() && pending_.back() == name) return from_config(name);
  if (pending_.size() > kMaxVariableDepth ||
      std::find(pending_.begin(), pending_.end(), name) != pending_.end()) {
    throw Error(ErrorKind::kBadInput, "variable '" + printable(pending_.front()) +
                                          "' stands for itself, or for more than " +
                                          std::to_string(kMaxVariableDepth) +
                                          " others one after the other");
  }
  pending_.push_back(name);
  try {
    Found found = find(name);
    pending_.pop_back();
    return found_[name] = std::move(found);
  } catch (...) {
    pending_.pop_back();
    throw;
  }
}

Scope::Found Scope::find(const std::string& name) const {
  if (const auto shown = variables_.shown.find(name);
      shown != variables_.shown.end() && shown->second) {
    return {shown->second, {}};
  }
  if (const auto given = variables_.given.find(name); given != variables_.given.end()) {
    return {Value::stated(given->second, "--map-var " + name + "=" + std::to_string(given->second)),
            {}};
  }
  Found found{Value::unknown(unknown_words(name)), name};
  const auto defined = variables_.table.find(name);
  if (defined != variables_.table.end()) {
    found = from_alternatives(name, defined->second);
    if (found.value) return found;
  }
  Found other = from_config(name);
  if (other.value || defined == variables_.table.end()) found = std::move(other);
  if (found.value) return found;
  const auto proven = variables_.proven.find(name);
  if (proven == variables_.proven.end()) return found;
  // What names and shapes contradict themselves about has a reason, too.
  return {proven->second, proven->second ? std::string() : name};
}

Scope::Found Scope::from_config(const std::string& name) const {
  if (is_parts(name)) return from_parts(name);
  const auto setting = variables_.settings.find(name);
  if (setting != variables_.settings.end()) return from_setting(name, setting->second);
  if (const auto key = variables_.config.find(name)) {
    return {Value::stated(*key, printable(variables_.config.file()) + ": " + name), {}};
  }
  return from_keys(name);
}

Scope::Found Scope::from_alternatives(const std::string& name,
                                      const std::vector<Expression>& all) const {
  Found last{Value::unknown(unknown_words(name)), name};
  for (const Expression& expression : all) {
    const auto unknown = std::find_if(expression.names().begin(), expression.names().end(),
                                      [&](const std::string& used) { return !is_known(used); });
    if (unknown == expression.names().end()) {
      const std::int64_t value = evaluate(expression);
      return {Value::stated(value, "the map: " + expression.text() + origins_of(expression)), {}};
    }
    const Found missing = look_up(*unknown);
    last = {Value::unknown(unknown_words(name) + ", since " + missing.value.origin()),
            missing.missing};
  }
  return last;
}

Scope::Found Scope::from_keys(const std::string& name) const {
  Found unknown{Value::unknown(unknown_words(name)), name};
  const ConfigKeys* known = config_keys(name);
  if (known == nullptr) return unknown;
  const ModelConfig& config = variables_.config;
  for (const std::string& key : known->keys) {
    if (const auto value = config.find(key)) {
      return {Value::stated(*value, printable(config.file()) + ": " + key), {}};
    }
  }
  if (!absence_tells(*known, config)) return unknown;
  const Found found = from_alternatives(name, {Expression::parse(known->absent)});
  if (!found.value) return found;
  return {Value::stated(*found.value, printable(config.file()) + " has no " + known->keys.front() +
                                          ": " + known->absent),
          {}};
}

Scope::Found Scope::from_parts(const std::string& name) const {
  if (!parts_) {
    return {Value::unknown(unknown_words(name) + ", which a strategy tells of one tensor alone"),
            name};
  }
  const Value parts = parts_(name);
  if (parts) return {parts, {}};
  return {Value::unknown(unknown_words(name) + ": " + parts.origin()), name};
}

Known<std::int64_t> Scope::from_release(const std::string& name, const Setting& setting) const {
  if (setting.releases.empty()) return {};
  const ReleaseProof* latest = nullptr;
  std::string place;
  for (const ReleaseProof& proof : variables_.release_proofs) {
    const Value value = variables_.training.find(proof.key);
    const bool stands = proof.value ? value && *value == *proof.value : !value.origin().empty();
    if (!stands || (latest != nullptr && proof.since <= latest->since)) continue;
    latest = &proof;
    place = value.origin() + (proof.value ? " is " + std::to_string(*proof.value) : std::string());
  }
  const std::string since =
      latest == nullptr ? "" : setting.framework + " " + latest->since.text() + " or later";
  if (variables_.release) {
    if (latest != nullptr && *variables_.release < latest->since) {
      return Value::unknown(unknown_words(name) + ": --map-var " + kReleaseVariable + "=" +
                            variables_.release->text() + ", but " + place + ", which is of " +
                            since);
    }
    const auto value = setting.default_of(*variables_.release);
    if (!value) return {};
    return Value::stated(*value,
                         "the default of " + setting.framework + " " + variables_.release->text());
  }
  if (latest == nullptr) return {};
  const auto value = setting.default_since(latest->since);
  return value ? Value::stated(*value, "the default of " + since + ", of which " + place) : Value();
}

/// The training's own file and config.json come before the default of its release.
Known<std::int64_t> Scope::stated(const std::string& name) const {
  if (const auto given = variables_.given.find(name); given != variables_.given.end()) {
    return Value::stated(given->second, "--map-var " + name + "=" + std::to_string(given->second));
  }
  const auto setting = variables_.settings.find(name);
  if (setting == variables_.settings.end()) return {};
  for (const std::string& key : setting->second.keys) {
    if (const Value value = variables_.training.find(key); value || !value.origin().empty())
      return value;
  }
  return {};
}

Scope::Found Scope::from_setting(const std::string& name, const Setting& setting) const {
  for (const auto& [by, number] : setting.fixed) {
    if (by.empty()) return {Value::stated(number, "it is so in every network of the map"), {}};
    const Value value = stated(by);
    const auto other = variables_.settings.find(by);
    const bool is_known =
        value && (other == variables_.settings.end() || other->second.readings.empty() ||
                  other->second.readings.contains(*value));
    if (!is_known && !value.origin().empty()) {
      return {
          Value::unknown(unknown_words(name) + ": '" + by +
                         "', on which it depends, has no value that means something to the map: " +
                         value.origin()),
          name};
    }
    if (value && *value != 0) {
      return {Value::stated(number, value.origin() + " is " + std::to_string(*value)), {}};
    }
  }
  std::vector<Value> stated;
  std::vector<std::string> keys = setting.keys;
  keys.push_back(name);
  for (const std::string& key : keys) {
    const Value value = variables_.training.find(key);
    if (!value && !value.origin().empty()) {
      return {Value::unknown(unknown_words(name) + ": " + value.origin()), name};
    }
    if (value) stated.push_back(value);
    if (const auto number = variables_.config.find(key)) {
      stated.push_back(Value::stated(*number, printable(variables_.config.file()) + ": " + key));
    }
  }
  for (std::size_t i = 1; i < stated.size(); ++i) {
    if (*stated[i] == *stated[0]) continue;
    return {Value::unknown(unknown_words(name) + ": " + stated[0].origin() + " is " +
                           std::to_string(*stated[0]) + ", but " + stated[i].origin() + " is " +
                           std::to_string(*stated[i])),
            name};
  }
  if (!stated.empty()) {
    const bool is_reading = setting.readings.empty() || setting.readings.contains(*stated[0]);
    if (is_reading) return {stated[0], {}};
    return {Value::unknown(unknown_words(name) + ": " + stated[0].origin() + " is " +
                           std::to_string(*stated[0]) + ", which means nothing to the map"),
            name};
  }
  const Value of_release = from_release(name, setting);
  if (of_release) return {of_release, {}};
  if (!of_release.origin().empty()) return {of_release, name};
  if (setting.otherwise) return from_alternatives(name, {*setting.otherwise});
  std::string why = unknown_words(name);
  std::string readings;
  for (const auto& [value, words] : setting.readings) {
    readings += (readings.empty() ? ": " : "; ") + std::to_string(value) + " means " + words;
  }
  if (!readings.empty()) why += ", which no shape tells" + readings;
  return {Value::unknown(why), name};
}

}  // namespace reshardfs::modelmap
