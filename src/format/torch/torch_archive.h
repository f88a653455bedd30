// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>
#include <string_view>

#include "format/torch/pickle_tree.h"
#include "format/torch/torch_stream.h"
#include "format/torch/torch_tensor.h"
#include "format/torch/torch_values.h"
#include "format/torch/torch_zip.h"
#include "storage/byte_source.h"

namespace reshardfs {

/// A file of torch.save in either of its forms: a ZIP archive, or what releases before 1.6 wrote.
/// Its pickle is read as values, whatever classes they are of, and nothing of it is called.
class TorchArchive {
 public:
  /// @param source must outlive it.
  /// @throws Error kBadInput with the offset if it is no such file or cut off; kUnsupported if it
  ///         is compressed, big-endian, or a program of TorchScript.
  explicit TorchArchive(const ByteSource& source);

  const PickleTree& tree() const noexcept { return *tree_; }
  /// See TorchValues.
  bool is_tensor(PickleValue value) const noexcept { return values_->is_tensor(value); }
  TorchTensor tensor(PickleValue value) const { return values_->tensor(value); }
  const ByteSource& source() const noexcept { return source_; }
  /// The folder in the archive, which has the name that the file was saved under; empty if it is no
  /// ZIP archive.
  std::string_view folder() const noexcept { return zip_ ? zip_->folder() : std::string_view(); }

 private:
  std::unique_ptr<const PickleTree> read_zip();
  ByteRange storage(std::string_view key) const;

  const ByteSource& source_;
  std::optional<TorchZip> zip_;
  TorchStream stream_;
  std::unique_ptr<const PickleTree> tree_;
  std::optional<TorchValues> values_;
};

/// Whether a file begins as torch.save begins it.
/// @param begin the file's first bytes; 32 are enough.
bool begins_like_torch(std::string_view begin) noexcept;
/// Whether a file begins as a ZIP archive. @throws errors of reading it.
bool begins_like_torch_zip(const ByteSource& source);
/// Whether a file begins as torch.save begins it. @throws errors of reading it.
bool begins_like_torch(const ByteSource& source);

}  // namespace reshardfs
