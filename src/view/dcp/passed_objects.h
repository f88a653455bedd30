// SPDX-License-Identifier: Apache-2.0
/// What a distributed checkpoint has beside tensors, passed from a source that has it, too.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/byte_range.h"
#include "checkpoint/dcp/saved_objects.h"
#include "storage/byte_source.h"
#include "view/view.h"

namespace reshardfs {

/// An object that is not a tensor, in a distributed checkpoint: one that is in a source, as
/// SavedObject says, or one that is made.
struct PassedObject {
  std::string name;
  ByteSourcePtr source{};
  ByteRange place{};
  /// Without a source: its bytes, all of which are used.
  std::shared_ptr<const std::string> made{};

  std::uint64_t length() const { return made ? made->size() : place.length(); }
};

/// Of the source; nullptr: it has none.
std::shared_ptr<const SavedObjects> saved_objects(const ViewContext& context);

/// Those that --include and --exclude take, with their files open. None is a weight.
/// @throws Error kMissing for one whose bytes cannot be read.
std::vector<PassedObject> passed_objects(const ViewContext& context, const SavedObjects& saved);

/// The paths of names that mean the same in the target as in the source.
std::unordered_map<std::string, DcpPath> known_paths(const ViewContext& context,
                                                     const SavedObjects& saved);

}  // namespace reshardfs
