// SPDX-License-Identifier: Apache-2.0
#include "export/upload_job.h"

#include <algorithm>

#include "transport/s3_checksum.h"
#include "transport/s3_objects.h"

namespace reshardfs {

std::size_t UploadJob::block_bytes() const {
  return static_cast<std::size_t>(s3_part_bytes(file().size()));
}

std::uint64_t UploadJob::memory_for(std::uint64_t file_bytes) noexcept {
  return std::min(file_bytes, s3_part_bytes(file_bytes));
}

void UploadJob::begin() {
  const std::uint64_t size = file().size();
  const std::uint64_t part = s3_part_bytes(size);
  if (size <= part) return;
  const std::uint64_t parts = size / part + (size % part != 0 ? 1 : 0);
  upload_.emplace(folder_.name(name()), static_cast<std::size_t>(parts));
}

void UploadJob::write(std::uint64_t offset, std::span<const std::byte> bytes) {
  if (upload_) {
    upload_->send(static_cast<std::size_t>(offset / block_bytes()), bytes);
  } else {
    etag_ = write_s3_object(folder_.name(name()), bytes);
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

}  // namespace reshardfs
