// SPDX-License-Identifier: Apache-2.0
#include "plan/name_map.h"

#include <nlohmann/json.hpp>

#include "reshardfs/error.h"

#include "storage/directory.h"

namespace reshardfs {
namespace {

constexpr std::uint64_t kMaxBytes = 256ULL << 20;
constexpr std::size_t kMaxNameBytes = 4096;

nlohmann::json parse(const std::filesystem::path& path) {
  try {
    return nlohmann::json::parse(read_small_file(path, kMaxBytes));
  } catch (const nlohmann::json::exception& error) {
    throw Error(ErrorKind::kBadInput, std::string("is no JSON: ") + error.what())
        .in_file(path.string());
  }
}

}  // namespace

NameMap NameMap::load(const std::filesystem::path& path) {
  const nlohmann::json json = parse(path);
  if (!json.is_object()) {
    throw Error(ErrorKind::kBadInput, "must be a JSON object")
        .in_file(path.string())
        .hint(R"(write {"old.name": "new.name"})");
  }
  NameMap map;
  for (const auto& [name, target] : json.items()) {
    if (!target.is_string() || target.get_ref<const std::string&>().empty() ||
        target.get_ref<const std::string&>().size() > kMaxNameBytes) {
      throw Error(ErrorKind::kBadInput, "the new name must be a text of 1 to 4096 bytes")
          .in_file(path.string())
          .for_parameter(name);
    }
    map.names_.emplace(name, target.get<std::string>());
  }
  return map;
}

const std::string& NameMap::target(const std::string& source) const {
  const auto found = names_.find(source);
  return found == names_.end() ? source : found->second;
}

}  // namespace reshardfs
