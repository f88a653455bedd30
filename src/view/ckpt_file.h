// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <memory>

#include "base/retry_once.h"
#include "view/tensor_file.h"

namespace reshardfs {

/// One destination rank as a .ckpt file.
class CkptFile final : public TensorFile {
 public:
  /// @param crc whether MindSpore's CRC trailer ends the file. It is computed when its bytes are
  ///        first read, by reading the whole file once.
  /// @throws Error kBadInput if the file would exceed 2^63-1 bytes; kUnsupported for element types
  ///         that .ckpt files cannot hold.
  CkptFile(std::shared_ptr<const TargetTable> target, std::int64_t rank, bool crc = false);

  void read_at(std::uint64_t offset, std::span<std::byte> out) const override;

 private:
  std::uint64_t records_bytes() const;
  std::unique_ptr<FileImage> build() const override;
  std::vector<const TargetParameter*> parameters() const override;
  const std::string& trailer() const;

  bool crc_;
  mutable RetryOnce trailer_once_;
  mutable std::string trailer_;
};

}  // namespace reshardfs
