// SPDX-License-Identifier: Apache-2.0
#include "export/upload_job.h"

#include <algorithm>
#include <cstddef>
#include <span>
#include <string>
#include <utility>

#include "transport/s3_checksum.h"
#include "transport/s3_objects.h"
#include "transport/s3_upload.h"

namespace reshardfs {
namespace {

std::size_t parts_of(std::uint64_t file_bytes) {
  const std::uint64_t part = s3_part_bytes(file_bytes);
  return static_cast<std::size_t>(file_bytes / part + (file_bytes % part != 0 ? 1 : 0));
}

class UploadJob final : public WriteJob {
 public:
  UploadJob(const ObjectTarget& target, const OutputFile& output, Manifest& manifest,
            std::optional<S3BegunUpload> begun)
      : WriteJob(output), target_(target), manifest_(manifest) {
    if (begun) upload_.emplace(target_.name(name()), parts_of(file().size()), std::move(*begun));
  }

  std::size_t block_bytes() const override {
    return static_cast<std::size_t>(s3_part_bytes(file().size()));
  }
  SumKinds sums() const override { return SumKinds::kSha256; }
  void begin() override {
    const std::size_t parts = parts_of(file().size());
    if (!upload_ && parts > 1) upload_.emplace(target_.name(name()), parts);
  }
  void write(std::uint64_t offset, std::span<const std::byte> bytes) override {
    if (!upload_) {
      etag_ = write_s3_object(target_.name(name()), bytes);
      return;
    }
    const auto part = static_cast<std::size_t>(offset / block_bytes());
    if (!upload_->send(part, bytes)) {
      resumed_bytes_ += bytes.size();
    } else if (upload_->was_begun(part)) {
      ++damaged_blocks_;
    }
  }
  void finish(const ContentSums& sums) override {
    if (file().size() == 0) etag_ = write_s3_object(target_.name(name()), {});
    manifest_.add(name(), {file().size(), sums.sha256, upload_ ? upload_->complete() : etag_});
    upload_.reset();
  }
  void abandon() noexcept override {
    if (upload_) upload_->abandon();
  }
  bool leave() noexcept override {
    if (upload_ && upload_->has_parts()) return true;
    abandon();
    return false;
  }

 private:
  const ObjectTarget& target_;
  Manifest& manifest_;
  std::optional<S3Upload> upload_;  ///< of a file that has several parts
  std::string etag_;                ///< of one that has not
};

}  // namespace

std::unique_ptr<WriteJob> upload_job(const ObjectTarget& target, const OutputFile& output,
                                     Manifest& manifest, std::optional<S3BegunUpload> begun) {
  return std::make_unique<UploadJob>(target, output, manifest, std::move(begun));
}

std::uint64_t upload_memory(std::uint64_t file_bytes) noexcept {
  return std::min(file_bytes, s3_part_bytes(file_bytes));
}

}  // namespace reshardfs
