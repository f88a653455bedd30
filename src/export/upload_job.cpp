// SPDX-License-Identifier: Apache-2.0
#include "export/upload_job.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>

#include "reshardfs/error.h"

#include "transport/s3_checksum.h"
#include "transport/s3_objects.h"
#include "transport/s3_upload.h"

namespace reshardfs {
namespace {

/// How many parts have the size that they are to have. None if there is one beyond the end of the
/// object: stores such as Ceph's gateway complete no upload that has parts which are not named.
std::size_t fitting_parts(const S3BegunUpload& upload, std::uint64_t size) {
  const std::uint64_t most = s3_part_bytes(size);
  std::size_t fitting = 0;
  for (const auto& [number, part] : upload.parts) {
    const std::uint64_t offset = number * most;
    if (offset >= size) return 0;
    if (part.size == std::min(most, size - offset)) ++fitting;
  }
  return fitting;
}

class Taker {
 public:
  Taker(const ObjectTarget& target, std::vector<std::string>& warnings)
      : target_(target), warnings_(warnings) {}

  std::map<std::string, std::vector<std::string>> ids_by_path(const OutputFiles& files) {
    std::map<std::string, std::string> paths;
    for (const OutputFile* file : files) paths.emplace(target_.name(file->path).key, file->path);
    std::map<std::string, std::vector<std::string>> ids;
    try {
      list_s3_uploads(target_.name(""), [&](S3OpenUpload& upload) {
        const auto path = paths.find(upload.key);
        if (path != paths.end()) ids[path->second].push_back(std::move(upload.id));
      });
    } catch (const Error& error) {
      warn_of_left(error);
      ids.clear();
    }
    return ids;
  }

  /// @return the best of them; the others are aborted.
  std::optional<S3BegunUpload> choose(const OutputFile& file, const std::vector<std::string>& ids) {
    std::optional<S3BegunUpload> best;
    std::size_t most = 0;
    for (const std::string& id : ids) {
      auto upload = look_at(file, id);
      const std::size_t fitting = upload ? fitting_parts(*upload, file.file->size()) : 0;
      if (fitting <= most) {
        abort(file.path, id);
        continue;
      }
      if (best) abort(file.path, best->id);
      best = std::move(upload);
      most = fitting;
    }
    return best;
  }

  void abort(const std::string& path, const std::string& id) {
    if (!may_abort_) return;
    try {
      abort_s3_upload(target_.name(path), id);
    } catch (const Error& error) {
      warn_of_left(error);
    }
  }

 private:
  /// @return nothing if there is none that can be gone on with.
  std::optional<S3BegunUpload> look_at(const OutputFile& file, const std::string& id) {
    // One request has no parts. Of a store that does not list those of one upload, no other is
    // asked for.
    const bool has_parts = file.file->size() > s3_part_bytes(file.file->size());
    if (!has_parts || !may_list_parts_) return std::nullopt;
    try {
      S3BegunUpload upload = look_at_s3_upload(target_.name(file.path), id);
      if (!upload.needs_checksums) return upload;
    } catch (const Error& error) {
      // Aborted meanwhile.
      if (error.kind() == ErrorKind::kMissing) return std::nullopt;
      may_list_parts_ = false;
      warnings_.push_back(
          std::string("the parts that an interrupted export has sent cannot be listed, and are "
                      "sent again: ") +
          error.what());
    }
    return std::nullopt;
  }

  void warn_of_left(const Error& error) {
    may_abort_ = false;
    warnings_.push_back(std::string("incomplete uploads may be left in the store: ") +
                        error.what());
  }

  const ObjectTarget& target_;
  std::vector<std::string>& warnings_;
  bool may_list_parts_ = true;
  bool may_abort_ = true;
};

}  // namespace

BegunUploads take_begun_uploads(const ObjectTarget& target, const OutputFiles& files,
                                const OutputFiles& pending, std::vector<std::string>& warnings) {
  Taker taker(target, warnings);
  auto ids = taker.ids_by_path(files);
  BegunUploads begun;
  for (const OutputFile* file : pending) {
    const auto found = ids.find(file->path);
    if (found == ids.end()) continue;
    if (auto upload = taker.choose(*file, found->second)) {
      begun.emplace(file->path, std::move(*upload));
    }
    ids.erase(found);
  }
  for (const auto& [path, left] : ids) {
    for (const std::string& id : left) taker.abort(path, id);
  }
  return begun;
}

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
