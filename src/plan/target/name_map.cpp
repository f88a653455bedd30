// SPDX-License-Identifier: Apache-2.0
#include "plan/target/name_map.h"

#include <utility>

#include "reshardfs/error.h"

#include "base/text/state_names.h"
#include "format/json/json_members.h"
#include "format/name_limit.h"
#include "storage/local/directory.h"

namespace reshardfs {
namespace {

constexpr std::uint64_t kMaxBytes = 256ULL << 20;

}  // namespace

std::string weight_of(const std::string& state, const std::vector<std::string>& prefixes) {
  for (const std::string& prefix : prefixes) {
    if (!prefix.empty() && state.starts_with(prefix)) return state.substr(prefix.size());
  }
  const std::string weight = weight_name_of(state);
  return weight == state ? std::string() : weight;
}

NameMap NameMap::load(const std::filesystem::path& path, const SourceTreePtr& tree) {
  NameMap map;
  try {
    const JsonTexts texts = read_json_texts(read_small_file(path, kMaxBytes, tree));
    for (const auto& [name, target] : texts.members) {
      if (target.empty() || target.size() > kMaxParameterName) {
        throw Error(ErrorKind::kBadInput, "the new name must be a text of 1 to 4096 bytes")
            .for_parameter(std::string(name));
      }
      map.names_.emplace(name, target);
    }
  } catch (Error& error) {
    error.in_file(path.string());
    if (error.kind() == ErrorKind::kBadInput) error.hint(R"(write {"old.name": "new.name"})");
    throw;
  }
  return map;
}

const std::string& NameMap::target(const std::string& source) const {
  const auto found = names_.find(source);
  return found == names_.end() ? source : found->second;
}

bool takes(const NameFilter& filter, const NameMap& names, const std::string& source) {
  if (filter.weights_only && is_training_state(source, filter.state_prefixes)) return false;
  return filter.takes(names.target(source));
}

}  // namespace reshardfs
