// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "view/view.h"
#include "view/weights.h"

namespace reshardfs {

/// Fills files one after the other, each as full as it can be.
class ShardFiller {
 public:
  /// @param limit most bytes of a file. A tensor that is larger has a file of its own.
  explicit ShardFiller(std::uint64_t limit) : limit_(limit) {}

  /// Adds the next tensor. @return whether it is the first one of a file.
  bool begins(std::uint64_t bytes) {
    const bool fits = any_ && filled_ <= limit_ && bytes <= limit_ - filled_;
    filled_ = fits ? filled_ + bytes : bytes;
    any_ = true;
    return !fits;
  }

 private:
  std::uint64_t limit_;
  std::uint64_t filled_ = 0;
  bool any_ = false;
};

/// DIRECTORY/model-<k>-of-<n>.safetensors and model.safetensors.index.json: the whole model in the
/// form that model hubs use and their libraries load. Empty if there is no array.
/// @param context with a whole model.
/// @throws Error if such files cannot hold a parameter.
std::vector<OutputFile> hub_shards(const ViewContext& context, const std::string& directory,
                                   const TakesParameter& takes);

}  // namespace reshardfs
