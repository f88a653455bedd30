// SPDX-License-Identifier: Apache-2.0
#include "view/dcp/passed_objects.h"

#include <filesystem>
#include <map>

#include "reshardfs/error.h"

#include "base/text/glob.h"
#include "checkpoint/catalogue.h"
#include "checkpoint/checkpoint_set.h"
#include "storage/local/linkless_tree.h"

namespace reshardfs {

std::shared_ptr<const SavedObjects> saved_objects(const ViewContext& context) {
  const auto& catalogue = context.target->source().checkpoint().catalogue();
  return catalogue ? catalogue->saved_objects() : nullptr;
}

std::vector<PassedObject> passed_objects(const ViewContext& context, const SavedObjects& saved) {
  if (context.options.weights_only) return {};
  const NameFilter filter{context.options.include, context.options.exclude};
  std::map<std::filesystem::path, ByteSourcePtr> files;
  std::vector<PassedObject> objects;
  for (const SavedObject& object : saved.objects) {
    if (!filter.takes(object.name)) continue;
    ByteSourcePtr& source = files[object.file];
    if (object.problem.empty() && source == nullptr) source = open_file(object.file, saved.tree);
    std::string problem = object.problem;
    if (problem.empty() && object.place.end() > source->size()) {
      problem = "its bytes would end at " + std::to_string(object.place.end()) + " of " +
                object.file.string() + ", which has " + std::to_string(source->size());
    }
    if (!problem.empty()) {
      throw Error(ErrorKind::kMissing, "cannot be passed on: " + problem)
          .in_file(context.target->source().checkpoint().root().string())
          .for_parameter(object.name)
          .hint("leave it out with --exclude");
    }
    objects.push_back({object.name, source, object.place, {}});
  }
  return objects;
}

std::unordered_map<std::string, DcpPath> known_paths(const ViewContext& context,
                                                     const SavedObjects& saved) {
  std::unordered_map<std::string, DcpPath> paths;
  const auto add = [&](const std::string& name) {
    const auto found = saved.paths.find(name);
    if (found != saved.paths.end()) paths.insert(*found);
  };
  for (const SavedObject& object : saved.objects) add(object.name);
  if (context.target->source().mapped_from() != nullptr) return paths;
  for (const TargetParameter& parameter : context.target->parameters()) {
    if (parameter.name == parameter.source->name) add(parameter.name);
  }
  return paths;
}

}  // namespace reshardfs
