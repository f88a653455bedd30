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
#include "checkpoint/deepspeed/zero_rest.h"
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
  /// The shape of a parameter; nullptr: no file states that it is trained.
  const Shape* shape_of(const std::string& name) const;
  bool is_stage3() const noexcept { return is_stage3_; }
  /// Whether one model file states the whole model, so that its `module` is all of it.
  bool has_module() const noexcept { return has_module_; }
  const std::vector<ZeroFile>& facts() const noexcept { return facts_; }
  std::vector<ZeroModelFile>& files() noexcept { return models_; }
  const std::vector<ZeroModelFile>& files() const noexcept { return models_; }

 private:
  struct Stated {
    std::size_t file = 0;  ///< in models_
    Shape shape{};
  };

  void require_each_rank();

  std::vector<ZeroModelFile> models_;
  std::vector<ZeroFile> facts_;                        ///< of models_
  std::map<std::string, std::vector<Stated>> shapes_;  ///< by parameter
  std::optional<std::int64_t> steps_;
  bool is_stage3_ = false;
  bool has_module_ = false;
  bool are_whole_ = true;  ///< whether no ranks of tensor parallelism share the parameters
};

/// The number in a step.pt; nothing if it has none that is known.
std::optional<std::int64_t> read_universal_step(const ByteSource& file);

/// Adds the step to what earlier files state. @throws Error as OneSave::add().
inline void add_universal_step(OneSave& save, const std::string& file, std::int64_t step) {
  save.add(file, {{"the step of the optimizer", std::to_string(step)}});
}

}  // namespace reshardfs
