// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "format/file_index.h"
#include "format/listed_items.h"
#include "storage/byte_source.h"

namespace reshardfs {

/// What a set's metadata tells of one of its files, where that need not be read from the file.
class DescribedContent {
 public:
  DescribedContent() = default;
  DescribedContent(const DescribedContent&) = delete;
  DescribedContent& operator=(const DescribedContent&) = delete;
  virtual ~DescribedContent() = default;

  /// Its extents are places in what tensors() gives.
  virtual std::shared_ptr<const FileIndex> index() const = 0;
  /// The contents of the file's tensors, one behind the other. Reads nothing yet: what contradicts
  /// the metadata is found by the first read of each tensor.
  virtual ByteSourcePtr tensors(ByteSourcePtr file) const = 0;

  /// How many places of the file examine() reads.
  virtual std::size_t places() const = 0;
  /// The tensors that cannot be read from the file as it is, by its size.
  /// @param tensors as tensors() gives it, which keeps what is found for its reads.
  /// @param read_all also by what is at each place: the same that the first read of each finds.
  virtual std::vector<RefusedTensor> examine(const ByteSource& tensors, bool read_all) const = 0;
};

}  // namespace reshardfs
