// SPDX-License-Identifier: Apache-2.0
#include "export/object_target.h"

#include <algorithm>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "reshardfs/error.h"

#include "base/text/url_path.h"
#include "export/checksums.h"
#include "export/contents.h"
#include "export/folder.h"
#include "export/manifest.h"
#include "export/manifest_text.h"
#include "export/planned_files.h"
#include "export/share.h"
#include "export/upload_job.h"
#include "transport/s3_objects.h"

namespace reshardfs {
namespace {

class ObjectClaim final : public Claim {
 public:
  ObjectClaim(const ObjectTarget& target, const std::optional<Share>& share)
      : target_(target), name_(manifest_name(share)) {}

  std::string read() override { return seen_ = now(); }
  void begin(std::uint64_t good, const std::string& header,
             const std::string& /*opening*/) override {
    header_ = header;
    begun_ = good > 0;
  }
  bool appends() const noexcept override { return false; }
  void append(const std::string& /*line*/) override {}
  void save(const std::function<std::string()>& text) override {
    const std::lock_guard lock(mutex_);
    store(text(), /*is_complete=*/false);
  }
  void complete(const std::string& text) override {
    const std::lock_guard lock(mutex_);
    store(text, /*is_complete=*/true);
  }
  void require_own() const override { require_own(now()); }

 private:
  std::string now() const { return target_.read(name_, {}).value_or(""); }

  void require_own(const std::string& there) const {
    if (begun_ && !there.starts_with(header_)) throw another_export_error(target_.shown(name_));
  }

  void store(const std::string& text, bool is_complete) {
    const std::string there = now();
    require_own(there);
    // The same share in another process: after the failure of a node, for example.
    const bool was_completed = there != seen_ && there.starts_with(header_) &&
                               there.ends_with(manifest_last_line(header_));
    if (there != text && (is_complete || !was_completed)) {
      write_s3_object(target_.name(name_), std::as_bytes(std::span(text)));
      seen_ = text;
    }
    begun_ = true;
  }

  const ObjectTarget& target_;
  const std::string name_;
  std::string header_;
  bool begun_ = false;  ///< whether the one that is there is this export's
  std::string seen_;
  std::mutex mutex_;  // guards both, and keeps writers apart
};

/// Target::claim() in an object store, which has no locks: if another process has started a
/// manifest in the same place, the next write notices it.
/// @param target must outlive the claim.
std::unique_ptr<Claim> claim_in(const ObjectTarget& target, const std::optional<Share>& share) {
  return std::make_unique<ObjectClaim>(target, share);
}

/// What the names of objects begin with in which an export records what it does.
constexpr const char* kOwnNames = ".reshardfs-export";
/// Texts such as manifests are not read if they are larger.
constexpr std::size_t kMaxTextBytes = std::size_t{256} << 20U;

/// Whether an entry is of the bytes that a companion has now.
bool has_bytes(const Manifest::Entry& entry, const OutputFile& file) {
  return !is_companion(*file.file) || entry.sha256 == sums_of(*file.file, SumKinds::kSha256).sha256;
}

S3Name prefix_of(const std::filesystem::path& url) {
  if (!url.native().starts_with("s3://")) {
    throw Error(ErrorKind::kUsage, "cannot be written to")
        .in_file(url)
        .hint("export to a directory, or to s3://BUCKET/PREFIX");
  }
  S3Name name = S3Name::of(url.native());
  while (name.key.ends_with('/')) name.key.pop_back();
  if (name.key.empty()) return name;
  // Tools that copy the objects to a directory would not find the names again.
  const bool is_plain = is_plain_path(name.key) && name.key.find("//") == std::string::npos &&
                        ("/" + name.key + "/").find("/./") == std::string::npos;
  if (!is_plain) {
    throw Error(ErrorKind::kUsage, "the prefix is not a plain path")
        .in_file(url)
        .hint("leave out '.', '..' and empty names");
  }
  name.key += '/';
  return name;
}

/// Names the target in an error about an object that the user has not named.
template <typename Work>
auto of_target(const S3Name& prefix, Work&& work) {
  try {
    return work();
  } catch (const Error& error) {
    if (error.file().find(kOwnNames) == std::string::npos) throw;
    throw Error(error.kind(), error.message())
        .in_file(shown_s3(prefix))
        .os_error(error.os_error())
        .hint(error.hint());
  }
}

}  // namespace

ObjectTarget::ObjectTarget(const std::filesystem::path& url, const std::filesystem::path& source)
    : prefix_(prefix_of(url)) {
  if (!source.native().starts_with("s3://")) return;
  const S3Name from = S3Name::of(source.native());
  const std::string key = from.key + "/";
  if (from.bucket != prefix_.bucket) return;
  if (from.key.empty() || prefix_.key.starts_with(key)) {
    throw Error(ErrorKind::kUsage, "the target lies inside the source " + source.native())
        .in_file(url)
        .hint("choose a prefix outside the source");
  }
  if (key.starts_with(prefix_.key)) {
    throw Error(ErrorKind::kUsage, "the source " + source.native() + " lies inside the target")
        .in_file(url)
        .hint("choose a prefix outside the source");
  }
}

const Target::Words& ObjectTarget::words() const {
  static constexpr Words kWords{"prefix", "under the prefix",
                                "the parts that were sent stay in the store", "part", "sent"};
  return kWords;
}

std::filesystem::path ObjectTarget::shown(const std::string& path) const {
  return shown_s3(name(path));
}

Target::Listing ObjectTarget::list(const std::set<std::string>& paths) const {
  Listing there;
  list_s3_objects(prefix_, [&](S3Object& object) {
    std::string path = object.key.substr(prefix_.key.size());
    if (path.starts_with(kRankPrefix)) there.ranks.insert(top_of(path));
    if (paths.contains(path)) {
      there.files.insert_or_assign(std::move(path), Found{object.size, std::move(object.etag)});
    }
    return true;
  });
  return there;
}

std::vector<std::string> ObjectTarget::names(const std::string& prefix) const {
  std::set<std::string> names;
  of_target(prefix_, [&] {
    list_s3_objects(name(prefix), [&](S3Object& object) {
      names.insert(top_of(object.key.substr(prefix_.key.size())));
      return true;
    });
  });
  return {names.begin(), names.end()};
}

std::optional<std::string> ObjectTarget::read(const std::string& name, std::string_view end) const {
  auto text = of_target(prefix_, [&] { return read_s3_text(this->name(name), kMaxTextBytes); });
  if (text && !text->ends_with(end)) return std::nullopt;
  return text;
}

void ObjectTarget::put(const std::string& name, const std::string& text) const {
  const S3Name object = this->name(name);
  of_target(prefix_, [&] {
    const auto there = look_at_s3_object(object);
    // What the store says is not read: its checksum may be of another kind.
    if (there && there->size == text.size() && read_s3_text(object, text.size()) == text) return;
    write_s3_object(object, std::as_bytes(std::span(text)));
  });
}

void ObjectTarget::remove(const std::string& name) const {
  of_target(prefix_, [&] { remove_s3_object(this->name(name)); });
}

std::unique_ptr<Claim> ObjectTarget::claim(const std::optional<Share>& share) const {
  return claim_in(*this, share);
}

bool ObjectTarget::revoke(const std::string& name) const {
  remove(name);
  return true;
}

/// A worker has one part in memory.
BlockEngineOptions ObjectTarget::engine(const OutputFiles& files, BlockEngineOptions options,
                                        std::uint64_t memory) const {
  const OutputFile* largest = nullptr;
  std::uint64_t most = 1;
  for (const OutputFile* file : files) {
    const std::uint64_t bytes = upload_memory(file->file->size());
    if (bytes > most) {
      most = bytes;
      largest = file;
    }
  }
  if (most > memory) {
    const std::uint64_t mebibytes = (most + (1U << 20U) - 1) >> 20U;
    throw Error(
        ErrorKind::kUsage,
        fmt::format("is written in parts of {} MiB, for which the memory is not enough", mebibytes))
        .in_file(shown(largest->path))
        .hint(fmt::format("use --memory {}MiB or more", mebibytes));
  }
  options.workers =
      static_cast<std::size_t>(std::min<std::uint64_t>(options.workers, memory / most));
  return options;
}

OutputFiles ObjectTarget::choose(const OutputFiles& files, const Listing& there, bool force,
                                 Manifest& manifest, const BlockEngineOptions& /*engine*/) const {
  OutputFiles pending;
  for (const OutputFile* file : files) {
    const auto known = manifest.find(file->path);
    const bool is_there = known && is_recorded(there, file->path, *known);
    const bool is_same = is_there && known->size == file->file->size() && has_bytes(*known, *file);
    if (is_same) continue;
    // An entry without an ETag says that the export was about to write it.
    const bool is_own = known && known->etag.empty();
    if (there.files.contains(file->path) && !is_own && !force) {
      throw_in_the_way(*this, file->path,
                       is_there ? "already exists with different contents"
                       : known  ? "is no longer the object that the export wrote"
                                : "already exists, and this export has not written it");
    }
    pending.push_back(file);
  }
  return pending;
}

WriteJobs ObjectTarget::jobs(const OutputFiles& files, const OutputFiles& pending, bool /*replace*/,
                             Manifest& manifest, const BlockEngineOptions& /*engine*/,
                             std::vector<std::string>& warnings) const {
  BegunUploads begun = take_begun_uploads(*this, files, pending, warnings);
  WriteJobs jobs;
  for (const OutputFile* file : pending) {
    auto left = begun.extract(file->path);
    jobs.push_back(upload_job(*this, *file, manifest,
                              left ? std::optional(std::move(left.mapped())) : std::nullopt));
  }
  return jobs;
}

}  // namespace reshardfs
