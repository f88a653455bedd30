// SPDX-License-Identifier: Apache-2.0
/// The files of one mp_rank that DeepSpeed's ZeRO has saved: of one stage of a pipeline, of one
/// rank of tensor parallelism, or of a whole step. Whether they are of one save, and where their
/// tensors lie.
#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "checkpoint/deepspeed/joined_tensors.h"
#include "checkpoint/deepspeed/zero_facts.h"
#include "checkpoint/deepspeed/zero_names.h"
#include "checkpoint/deepspeed/zero_states.h"
#include "checkpoint/torch/archive_folder.h"
#include "storage/source_tree.h"

namespace reshardfs {

class ZeroPart {
 public:
  /// @param joined gets the tensors; must outlive this, as the other three.
  ZeroPart(const std::filesystem::path& directory, const ZeroFiles& files,
           const SourceTreePtr& tree, JoinedTensors& joined);
  ZeroPart(const ZeroPart&) = delete;
  ZeroPart& operator=(const ZeroPart&) = delete;
  ~ZeroPart();

  /// @throws Error kMissing, kBadInput, kUnsupported if files are not there, or not of one save.
  void open();
  /// After open(): adds the tensors. @throws Error kBadInput if lengths do not fit.
  void take();
  /// After take(): see JoinedTensors::cut().
  void cut(std::size_t rank);

  const ZeroModelStates& model() const;
  const std::vector<ZeroFile>& facts() const noexcept;
  const SavedNames& files() const noexcept;
  std::size_t optimizer_files() const noexcept;
  /// Adds warnings.
  void state(Discovery& out) const;

 private:
  class Reader;
  std::unique_ptr<Reader> reader_;
};

}  // namespace reshardfs
