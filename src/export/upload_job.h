// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "reshardfs/conversion.h"

#include "export/block_engine.h"
#include "export/object_folder.h"
#include "export/object_manifest.h"
#include "transport/s3_upload.h"

namespace reshardfs {

/// Writes a file as an object: small ones by one request, others in parts, one a block.
class UploadJob final : public BlockJob {
 public:
  /// @param begun an upload of the file to go on with, if a process before this one has left one.
  UploadJob(const ObjectFolder& folder, const OutputFile& output, ObjectManifest& manifest,
            std::optional<S3BegunUpload> begun);

  const VirtualFile& file() const override { return *output_.file; }
  const std::string& name() const override { return output_.path; }
  std::size_t block_bytes() const override;
  void begin() override;
  void write(std::uint64_t offset, std::span<const std::byte> bytes) override;
  void finish(const std::string& sha256) override;
  /// After a failure, when nothing writes any more: leaves no parts in the store.
  void abandon() noexcept;
  /// As abandon(), but leaves parts for a process after this one to go on with.
  /// @return whether there are any.
  bool leave() noexcept;

  /// Of parts that a process before this one had sent, what was right: not sent.
  std::uint64_t resumed_bytes() const { return resumed_bytes_; }
  /// How many of them had other bytes, or could not be compared.
  std::uint64_t replaced_parts() const { return replaced_parts_; }

  /// The memory that a block of a file takes.
  static std::uint64_t memory_for(std::uint64_t file_bytes) noexcept;

 private:
  const ObjectFolder& folder_;
  const OutputFile& output_;
  ObjectManifest& manifest_;
  std::optional<S3Upload> upload_;  ///< of a file that has several parts
  std::string etag_;                ///< of one that has not
  std::atomic<std::uint64_t> resumed_bytes_{0};
  std::atomic<std::uint64_t> replaced_parts_{0};
};

}  // namespace reshardfs
