// SPDX-License-Identifier: Apache-2.0
#include "vfs/saved_steps.h"

#include <nlohmann/json.hpp>

#include "reshardfs/error.h"

namespace reshardfs {
namespace {

using Json = nlohmann::json;

}  // namespace

std::string encode(const SavedSteps& steps) {
  Json json{{"steps", Json::array()},
            {"used", steps.used},
            {"newest", steps.newest},
            {"changed", steps.changed_ns}};
  for (const SavedSteps::Step& step : steps.steps) {
    json["steps"].push_back({{"branch", step.branch},
                             {"name", step.name},
                             {"shown", step.shown},
                             {"identity", step.identity}});
  }
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

SavedSteps decode_steps(const std::string& text) {
  try {
    const Json json = Json::parse(text);
    SavedSteps steps;
    for (const Json& step : json.at("steps")) {
      steps.steps.push_back(
          {step.at("branch"), step.at("name"), step.at("shown"), step.at("identity")});
    }
    steps.used = json.at("used").get<std::vector<BranchNumber>>();
    steps.newest = json.at("newest");
    steps.changed_ns = json.at("changed");
    return steps;
  } catch (const Json::exception& error) {
    throw Error(
        ErrorKind::kUnsupported,
        std::string("what the mount's other process has kept of its steps lacks something: ") +
            error.what());
  }
}

}  // namespace reshardfs
