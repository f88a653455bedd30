// SPDX-License-Identifier: Apache-2.0
#include "export/upload_job.h"

#include <algorithm>
#include <utility>

#include "transport/s3_checksum.h"
#include "transport/s3_objects.h"

namespace reshardfs {
namespace {

std::size_t parts_of(std::uint64_t file_bytes) {
  const std::uint64_t part = s3_part_bytes(file_bytes);
  return static_cast<std::size_t>(file_bytes / part + (file_bytes % part != 0 ? 1 : 0));
}

}  // namespace

UploadJob::UploadJob(const ObjectFolder& folder, const OutputFile& output, ObjectManifest& manifest,
                     std::optional<S3BegunUpload> begun)
    : folder_(folder), output_(output), manifest_(manifest) {
  if (begun) upload_.emplace(folder_.name(name()), parts_of(file().size()), std::move(*begun));
}

std::size_t UploadJob::block_bytes() const {
  return static_cast<std::size_t>(s3_part_bytes(file().size()));
}

std::uint64_t UploadJob::memory_for(std::uint64_t file_bytes) noexcept {
  return std::min(file_bytes, s3_part_bytes(file_bytes));
}

void UploadJob::begin() {
  const std::size_t parts = parts_of(file().size());
  if (!upload_ && parts > 1) upload_.emplace(folder_.name(name()), parts);
}

void UploadJob::write(std::uint64_t offset, std::span<const std::byte> bytes) {
  if (!upload_) {
    etag_ = write_s3_object(folder_.name(name()), bytes);
    return;
  }
  const auto part = static_cast<std::size_t>(offset / block_bytes());
  if (!upload_->send(part, bytes)) {
    resumed_bytes_ += bytes.size();
  } else if (upload_->was_begun(part)) {
    ++replaced_parts_;
  }
}

void UploadJob::finish(const std::string& sha256) {
  if (file().size() == 0) etag_ = write_s3_object(folder_.name(name()), {});
  manifest_.add(name(), {file().size(), sha256, upload_ ? upload_->complete() : etag_});
  upload_.reset();
}

void UploadJob::abandon() noexcept {
  if (upload_) upload_->abandon();
}

bool UploadJob::leave() noexcept {
  if (upload_ && upload_->has_parts()) return true;
  abandon();
  return false;
}

}  // namespace reshardfs
