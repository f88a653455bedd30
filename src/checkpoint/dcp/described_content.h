// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <vector>

#include "base/byte_range.h"
#include "format/file_index.h"
#include "format/input_format.h"
#include "format/listed_items.h"
#include "storage/byte_source.h"

namespace reshardfs {

/// The archives of torch.save in one file.
struct SavedArchives {
  ByteSourcePtr file;
  std::vector<ByteRange> places;
};

/// The description of one file in a set's metadata, which need not be read from the file.
class DescribedContent {
 public:
  DescribedContent() = default;
  DescribedContent(const DescribedContent&) = delete;
  DescribedContent& operator=(const DescribedContent&) = delete;
  virtual ~DescribedContent() = default;

  /// Its extents are ranges of tensors().
  virtual std::shared_ptr<const FileIndex> index() const = 0;
  /// The contents of the file's tensors, one after the other. This call reads nothing: the first
  /// read of each tensor finds contradictions to the metadata.
  virtual ByteSourcePtr tensors(ByteSourcePtr file) const = 0;

  /// The source that tensors() gives, if it is open already: the file is not opened then. nullptr:
  /// it is not.
  virtual ByteSourcePtr opened() const { return nullptr; }

  /// Whether it is a file of torch.save; others have the format that their names tell.
  virtual bool is_torch(const std::filesystem::path& file) const { return has_torch_name(file); }

  /// The number of places in the file that examine() reads.
  virtual std::size_t places() const = 0;
  /// The tensors that cannot be read from the file because of its size.
  /// @param tensors the result of tensors(), which keeps the findings for its reads.
  /// @param read_all also make the checks that the first read of each tensor makes.
  virtual std::vector<RefusedTensor> examine(const ByteSource& tensors, bool read_all) const = 0;
  /// The archives from which the content is read, each once, by file.
  /// @param tensors the result of tensors().
  virtual std::vector<SavedArchives> archives(const ByteSource& tensors) const = 0;
};

}  // namespace reshardfs
