// SPDX-License-Identifier: Apache-2.0
#include "vfs/saved_steps.h"

#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>

#include "reshardfs/error.h"

#include "base/json/json_value.h"
#include "base/json/json_writer.h"

namespace reshardfs {
namespace {

[[noreturn]] void refuse(const std::string& what) {
  throw Error(ErrorKind::kUnsupported,
              "what the mount's other process has kept of its steps lacks something: " + what);
}

JsonValue member_of(const JsonValue& object, std::string_view key) {
  const auto found = object.find(key);
  if (!found) refuse("no " + std::string(key));
  return *found;
}

/// What a member is, or an error where it is something else.
template <typename Value>
auto required(const std::optional<Value>& value, std::string_view key) {
  if (!value) refuse("no good " + std::string(key));
  return *value;
}

std::string text_in(const JsonValue& object, std::string_view key) {
  return std::string(required(member_of(object, key).text(), key));
}

BranchNumber branch_in(const JsonValue& value, std::string_view key) {
  const std::int64_t number = required(value.integer(), key);
  if (!std::in_range<BranchNumber>(number)) refuse("no good " + std::string(key));
  return static_cast<BranchNumber>(number);
}

/// Versions that fold no steps do not say so.
bool is_folded(const JsonValue& step) {
  const auto folded = step.find("folded");
  return folded && required(folded->boolean(), "folded");
}

SavedSteps steps_in(const JsonValue& json) {
  SavedSteps steps;
  for (const JsonValue step : member_of(json, "steps")) {
    steps.steps.push_back({branch_in(member_of(step, "branch"), "branch"), text_in(step, "name"),
                           required(member_of(step, "shown").boolean(), "shown"),
                           text_in(step, "identity"), is_folded(step)});
  }
  for (const JsonValue used : member_of(json, "used")) {
    steps.used.push_back(branch_in(used, "used"));
  }
  steps.newest = text_in(json, "newest");
  steps.changed_ns = required(member_of(json, "changed").integer(), "changed");
  return steps;
}

}  // namespace

std::string encode(const SavedSteps& steps) {
  JsonWriter json(kCompactJson);
  json.open_object();
  json.member("changed", steps.changed_ns);
  json.member("newest", steps.newest);
  json.open_list("steps");
  for (const SavedSteps::Step& step : steps.steps) {
    json.open_object();
    json.member("branch", step.branch);
    if (step.folded) json.member("folded", true);
    json.member("identity", step.identity);
    json.member("name", step.name);
    json.member("shown", step.shown);
    json.close_object();
  }
  json.close_list();
  json.numbers("used", steps.used);
  json.close_object();
  return json.take();
}

SavedSteps decode_steps(const std::string& text) {
  const auto document = JsonDocument::parse(text);
  if (!document) refuse("it is not valid JSON");
  return steps_in(document->value());
}

}  // namespace reshardfs
