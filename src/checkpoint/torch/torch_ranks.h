// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <unordered_map>
#include <vector>

#include "checkpoint/checkpoint_set.h"
#include "checkpoint/ranks/discovery.h"
#include "format/torch/torch_save.h"
#include "storage/source_tree.h"

namespace reshardfs {

/// A set with one file of torch.save for each rank, of whose tensors it is known where they belong
/// in the full ones. In memory is what the pickles of the files have.
class TorchRanks {
 public:
  /// @param directory, options, tree as SetFormat has them; they must outlive the object.
  TorchRanks(const std::filesystem::path& directory, const CheckpointOptions& options,
             const SourceTreePtr& tree)
      : directory_(directory), options_(options), tree_(tree) {}

  /// Reads what the files have.
  /// @param names of the files by rank.
  /// @param check throws for a file that is not the rank's; called for several files at once.
  /// @throws Error as read_archive() and read_torch_save().
  void open(const std::map<std::int64_t, std::string>& names, DTensors dtensors,
            const std::function<void(const FoundFile& file, const TorchSave& saved)>& check = {});

  std::size_t size() const noexcept { return contents_.size(); }
  /// What the file of a rank has. A tensor without a place is whole: all files have the same one.
  TorchSave& saved(std::size_t rank) { return contents_[rank].saved; }
  const FoundFile& file(std::size_t rank) const { return found_[rank]; }
  /// Shows the others without this tensor. Of several reasons the first one counts.
  void refuse(const std::string& name, const std::string& reason) {
    problems_.try_emplace(name, reason);
  }

  /// Takes what was read; tensors of whose shape the files disagree are refused by name.
  Discovery discovery();

 private:
  struct Content {
    ByteSourcePtr file{};
    TorchSave saved{};
  };

  void read_file(std::size_t number, DTensors dtensors);
  void take_shapes(std::size_t number);
  void describe(std::size_t number);
  void note_values();
  void state_names();

  const std::filesystem::path& directory_;
  const CheckpointOptions& options_;
  const SourceTreePtr& tree_;
  std::vector<FoundFile> found_;
  std::vector<Content> contents_;
  std::unordered_map<std::string, Shape> shapes_;
  std::map<std::string, std::string> problems_;  ///< by the names of tensors
  Discovery out_;
};

}  // namespace reshardfs
