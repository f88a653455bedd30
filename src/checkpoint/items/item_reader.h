// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>

#include "checkpoint/items/item_table.h"
#include "checkpoint/ranks/rank_files.h"
#include "format/torch/torch_save.h"
#include "storage/byte_source.h"

namespace reshardfs {

/// Reads the files of one item: finds the tensors that its table states, and their places. Any
/// number of threads may use it at once.
class SavedItemReader {
 public:
  /// @param item must outlive it.
  /// @param stated whether a table has the item; if not, its tensors state themselves.
  SavedItemReader(const SavedItem& item, bool stated);

  /// What the file of a rank has, with the item before all names. Of a tensor that several boxes of
  /// the file make up, each is one of TorchSave::tensors. What the file and the table do not agree
  /// on is refused by name.
  /// @throws Error as read_archive(), read_torch_save() and the reader of safetensors; kBadInput if
  ///         the file is another rank's.
  TorchSave read(const FoundFile& file, const ByteSource& source) const;

 private:
  struct Placed;

  const ItemTensor* stated(const std::string& name) const;
  void check_part(const std::string& name, const DTensorPart& part, std::int64_t rank) const;
  void place(const FoundFile& file, const TorchSave& saved, Placed& out) const;
  void require_stated(const FoundFile& file, Placed& out) const;
  std::string named(const std::string& name) const;

  const SavedItem& item_;
  bool stated_;
  std::unordered_map<std::string_view, const ItemTensor*> tensors_;
};

}  // namespace reshardfs
