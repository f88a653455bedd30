// SPDX-License-Identifier: Apache-2.0
/// dcp/: the destination as torch.distributed.checkpoint would have saved it: .metadata and a file
/// of archives for each rank, or so many files as are asked for.
#include <algorithm>
#include <filesystem>
#include <map>
#include <memory>
#include <utility>

#include "reshardfs/error.h"

#include "base/text/glob.h"
#include "base/text/text.h"
#include "checkpoint/catalogue.h"
#include "checkpoint/checkpoint_set.h"
#include "checkpoint/dcp/saved_objects.h"
#include "conversion/completeness.h"
#include "storage/local/linkless_tree.h"
#include "view/dcp/box_plan.h"
#include "view/dcp/dcp_files.h"
#include "view/files/text_file.h"
#include "view/view.h"

namespace reshardfs {
namespace {

constexpr const char* kDirectory = "dcp/";

std::shared_ptr<const SavedObjects> saved_objects(const ViewContext& context) {
  const auto& catalogue = context.target->source().checkpoint().catalogue();
  return catalogue ? catalogue->saved_objects() : nullptr;
}

/// Those that --include and --exclude take, with their files open. None is a weight, and PyTorch
/// cannot load another framework's.
std::vector<PassedObject> passed_objects(const ViewContext& context, const SavedObjects& saved) {
  if (context.options.weights_only || !saved.of_torch) return {};
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

/// Of names that mean the same here as in the source.
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

}  // namespace

std::vector<OutputFile> dcp_view(const ViewContext& context) {
  std::vector<PassedObject> objects;
  std::unordered_map<std::string, DcpPath> paths;
  if (const auto saved = saved_objects(context)) {
    objects = passed_objects(context, *saved);
    paths = known_paths(context, *saved);
  }
  BoxPlan plan = box_plan(context, {.in_blocks = true});
  if (plan.parameters().empty() && objects.empty()) {
    throw Error(ErrorKind::kMissing, "no parameter that is shown is a tensor, which dcp/ needs");
  }
  const auto set = std::make_shared<const DcpFiles>(std::move(plan), std::move(objects),
                                                    std::move(paths), context.options.dcp_release);
  std::vector<OutputFile> files;
  for (const std::size_t number : shown_files(context, set->plan(), kDirectory)) {
    if (set->size(number) == 0) continue;
    files.push_back({kDirectory + DcpFiles::name(number), std::make_shared<DcpFile>(set, number)});
  }
  // Last, as torch writes it.
  files.push_back({std::string(kDirectory) + ".metadata",
                   std::make_shared<MadeFile>([set] { return set->table(); })});
  return files;
}

}  // namespace reshardfs
