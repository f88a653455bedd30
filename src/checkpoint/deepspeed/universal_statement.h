// SPDX-License-Identifier: Apache-2.0
/// What files of model_states, which are copied into a universal checkpoint last, state of it.
#pragma once

#include <cstddef>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "reshardfs/shape.h"

#include "checkpoint/completeness.h"
#include "checkpoint/deepspeed/zero_facts.h"
#include "storage/byte_source.h"
#include "storage/source_tree.h"

namespace reshardfs {

/// A tensor in a file of a parameter.
struct UniversalTensor {
  std::string name{};  ///< of the parameter
  Shape shape{};
  /// Whether rows that only fill up the vocabulary have been cut off.
  bool is_vocabulary = false;
};

class UniversalStatement {
 public:
  /// @param directory of the checkpoint.
  /// @throws Error kMissing if there is no such file: the conversion was interrupted. kBadInput if
  ///         the files contradict each other.
  UniversalStatement(const std::filesystem::path& directory, const SourceTreePtr& tree);

  /// @param names that have a directory, ascending.
  /// @throws Error kMissing with the parameter, without the file, if another one is stated.
  void require_names(const std::vector<std::string>& names) const;
  /// @throws Error kBadInput with the parameter, without the file, for a shape that is not stated.
  void require_shape(const UniversalTensor& weight) const;
  /// @param step of the optimizer. @param name of its file.
  /// @throws Error kBadInput, without the directory, if the model has made fewer steps.
  void require_step(std::int64_t step, const std::string& name) const;
  void state(Completeness& out) const;
  /// The files, open.
  const std::vector<ByteSourcePtr>& files() const noexcept { return sources_; }

 private:
  struct Stated {
    std::size_t file = 0;  ///< in files_
    Shape shape{};
  };

  std::vector<std::string> files_;
  std::vector<ByteSourcePtr> sources_;
  std::map<std::string, std::vector<Stated>> shapes_;  ///< by parameter
  std::optional<std::int64_t> steps_;
  bool are_whole_ = true;  ///< whether no ranks of tensor parallelism share the parameters
};

/// The number in a step.pt; nothing if it has none that is known.
std::optional<std::int64_t> read_universal_step(const ByteSource& file);

/// Adds the step to what earlier files state. @throws Error as OneSave::add().
inline void add_universal_step(OneSave& save, const std::string& file, std::int64_t step) {
  save.add(file, {{"the step of the optimizer", std::to_string(step)}});
}

}  // namespace reshardfs
