// SPDX-License-Identifier: Apache-2.0
/// Finds out what a checkpoint that is open is: of headers, names and small files beside it alone.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "reshardfs/source_request.h"

#include "check/diff_side.h"
#include "checkpoint/checkpoint_set.h"
#include "checkpoint/completeness.h"
#include "report/text/set_description.h"

namespace reshardfs {

/// What was asked for, and what is known of it already.
struct DescribedSource {
  std::string named{};  ///< as the user names it
  /// How it is opened; `listed` may have been filled.
  CheckpointOptions options{};
  SourceRequest request{};
  std::shared_ptr<const CheckpointSet> set{};
  /// nullptr: how it is cut is not stated.
  const DiffSide* laid_out = nullptr;
  Completeness statement{};  ///< of state_model()
  /// See NextFacts.
  std::function<std::vector<std::string>(const std::string& command)> carried{};
};

/// @throws Error if a file that was there is no longer.
SetDescription describe_set(const DescribedSource& source);

}  // namespace reshardfs
