// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <memory>
#include <vector>

#include "reshardfs/virtual_file.h"

#include "storage/byte_source.h"
#include "storage/inputs.h"
#include "storage/source_tree.h"

namespace reshardfs {

/// A file that is shown unchanged. If it changes while it is shown, reads fail.
class PassedFile final : public VirtualFile {
 public:
  /// @throws Error as open_file().
  PassedFile(const std::filesystem::path& path, const SourceTreePtr& tree)
      : source_(open_file(path, tree)) {
    record_open(path, *source_, tree);
  }

  std::uint64_t size() const override { return source_->size(); }
  void read_at(std::uint64_t offset, std::span<std::byte> out) const override {
    source_->read_at(offset, out);
    source_->check_unchanged();
  }
  std::shared_ptr<const ByteSource> equal_source() const override { return source_; }
  std::vector<StoredRange> stored_ranges(std::uint64_t offset, std::uint64_t length,
                                         std::uint64_t least) const override {
    if (length < least) return {};
    return {{offset, length, offset, source_}};
  }

 private:
  ByteSourcePtr source_;
};

}  // namespace reshardfs
