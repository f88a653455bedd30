// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/source_links.h"

#include <memory>
#include <system_error>

#include "reshardfs/error.h"

#include "checkpoint/checkpoint_set.h"
#include "storage/inputs.h"
#include "storage/local/directory.h"
#include "storage/local/hub_cache.h"
#include "storage/local/linkless_tree.h"
#include "storage/location.h"
#include "storage/remote/remote_tree.h"

namespace reshardfs {

SourceTreePtr source_tree(const std::filesystem::path& source, const CheckpointOptions& options) {
  if (is_url(source) || unrecorded(options.listed)) return listed_once(source, options).listed;
  // Below a file is nothing.
  const bool refuses_links = options.no_symlinks && path_kind(source) != PathKind::kOther;
  return recording(refuses_links ? std::make_shared<const LinklessTree>(source) : nullptr,
                   inputs_of(options.listed));
}

CheckpointOptions listed_once(const std::filesystem::path& source,
                              const CheckpointOptions& options) {
  CheckpointOptions out = options;
  if (is_url(source) && !out.listed) out.listed = std::make_shared<const RemoteTree>(source);
  return out;
}

std::optional<std::string> links_outside(const std::filesystem::path& root,
                                         const std::vector<std::filesystem::path>& links) {
  std::error_code failed;
  const std::filesystem::path top = std::filesystem::canonical(root, failed);
  const std::filesystem::path blobs = blobs_of_snapshot(root);
  std::size_t count = 0;
  std::string first;
  for (const std::filesystem::path& link : links) {
    std::error_code nowhere;
    const std::filesystem::path target = std::filesystem::canonical(link, nowhere);
    if (failed || nowhere || is_inside(target, top)) continue;
    if (!blobs.empty() && is_inside(target, blobs)) continue;
    if (count++ == 0) {
      first =
          printable(link.lexically_relative(root).string()) + " to " + printable(target.string());
    }
  }
  if (count == 0) return std::nullopt;
  const std::string more = count == 1 ? "" : " and " + std::to_string(count - 1) + " more";
  return "symbolic links lead out of the source: " + first + more;
}

}  // namespace reshardfs
