// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "checkpoint/checkpoint_set.h"
#include "checkpoint/ranks/discovery.h"
#include "checkpoint/torch/state_key.h"
#include "format/torch/torch_save.h"
#include "storage/source_tree.h"

namespace reshardfs {

/// A set with files of each rank, such as those of torch.save, of whose tensors it is known where
/// they belong in the full ones. In memory is what the pickles or headers of the files have.
class TorchRanks {
 public:
  /// @param directory, options, tree as SetFormat has them; they must outlive the object.
  TorchRanks(const std::filesystem::path& directory, const CheckpointOptions& options,
             const SourceTreePtr& tree)
      : directory_(directory), options_(options), tree_(tree) {}

  /// What a file has; called for several files at once.
  using ReadSaved = std::function<TorchSave(const FoundFile& file, const ByteSource& source)>;
  /// Reads what the files have.
  /// @param files ascending by rank, then part.
  /// @throws what `read` throws.
  void open(std::vector<FoundFile> files, const ReadSaved& read);
  /// The same for files of torch.save, one for each rank.
  /// @param names of the files by rank.
  /// @param check throws for a file that is not the rank's; called for several files at once.
  /// @throws Error as read_archive() and read_torch_save().
  void open(const std::map<std::int64_t, std::string>& names, DTensors dtensors,
            const std::function<void(const FoundFile& file, const TorchSave& saved)>& check = {});

  std::size_t size() const noexcept { return contents_.size(); }
  /// What a file has. A tensor without a place is whole: all files have the same one.
  TorchSave& saved(std::size_t number) { return contents_[number].saved; }
  const FoundFile& file(std::size_t number) const { return found_[number]; }
  const ByteSourcePtr& source(std::size_t number) const { return contents_[number].file; }
  /// Shows the others without this tensor. Of several reasons the first one counts.
  void refuse(std::string name, const std::string& reason) {
    if (take_state(options_.state_key, name)) problems_.try_emplace(std::move(name), reason);
  }
  /// Leaves out other files, but lists the values in them.
  void keep(const std::function<bool(const FoundFile& file)>& wanted);

  /// Takes what was read; tensors of whose shape the files disagree are refused by name.
  Discovery discovery();

 private:
  struct Content {
    ByteSourcePtr file{};
    TorchSave saved{};
  };

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
  std::vector<SavedBeside> beside_;              ///< of files that were left out
  Discovery out_;
};

/// A part must be of the rank that its mesh states.
/// @throws Error kBadInput if the file is another rank's.
void require_own_rank(const FoundFile& found, const TorchSave& saved);

}  // namespace reshardfs
