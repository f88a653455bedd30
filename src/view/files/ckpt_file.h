// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "base/process/retry_once.h"
#include "view/files/parted_file.h"

namespace reshardfs {

/// One destination rank as a .ckpt file.
class CkptFile final : public PartedFile {
 public:
  /// @param crc whether MindSpore's CRC trailer ends the file. The first read of the trailer reads
  ///        the whole file to compute it.
  /// @throws Error kBadInput if the file would exceed 2^63-1 bytes; kUnsupported for element types
  ///         that .ckpt files cannot hold.
  /// @param keeps_int4 whether records state Int4 where an Int8 holds one.
  CkptFile(std::shared_ptr<const TargetTable> target, Rank rank, bool crc = false,
           bool keeps_int4 = false);

  /// nullptr if there is a trailer, because computing it requires reading the file.
  std::shared_ptr<const ByteSource> equal_source() const override;

 private:
  DType type_of(const TargetParameter& parameter) const noexcept;
  std::uint64_t records_bytes(const TargetParameter& parameter, const Shape& slice) const;
  std::uint64_t trailer_bytes() const noexcept;
  std::vector<Stretch> stretches() const override;
  void append_to(FileImage& image, std::size_t number) const override;
  void read_frame(std::uint64_t offset, std::span<std::byte> out) const override;
  std::vector<const TargetParameter*> parameters() const override;
  const std::string& trailer() const;

  bool crc_;
  bool keeps_int4_;
  mutable RetryOnce trailer_once_;
  mutable std::string trailer_;
};

}  // namespace reshardfs
