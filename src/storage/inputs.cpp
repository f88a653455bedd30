// SPDX-License-Identifier: Apache-2.0
#include "storage/inputs.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <span>
#include <utility>

#include <fmt/format.h>

#include "reshardfs/error.h"

#include "cache/checksum.h"
#include "storage/local/linkless_tree.h"

namespace reshardfs {
namespace {

std::string version_of(const ByteSource& file) {
  const FileStamp stamp = file.stamp();
  return fmt::format("{} {} {} {}", file.size(), file.mtime_ns(), stamp.ctime_ns, stamp.inode);
}

std::string sum_of(std::string_view content) {
  LongChecksum sum;
  sum.update(std::as_bytes(std::span(content)));
  return sum.finish();
}

Error changed_meanwhile(const std::filesystem::path& path) {
  return Error(ErrorKind::kChanged, "has been changed while the source was opened")
      .in_file(path)
      .hint("run the same command again when nothing writes it");
}

/// A file as it was when another opening read it.
class SavedSource final : public ByteSource {
 public:
  explicit SavedSource(const SavedInput& file) : file_(file), name_(file.path.string()) {}

  const std::string& name() const override { return name_; }
  std::uint64_t size() const override { return file_.bytes.size(); }
  std::int64_t mtime_ns() const override { return file_.mtime_ns; }
  FileStamp stamp() const override { return file_.stamp; }
  void read_at(std::uint64_t offset, std::span<std::byte> out) const override {
    require_in_source(*this, offset, out.size());
    if (!out.empty()) std::memcpy(out.data(), file_.bytes.data() + offset, out.size());
  }
  void check_unchanged() const override {}

 private:
  const SavedInput file_;
  const std::string name_;
};

class RecordingTree final : public SourceTree {
 public:
  RecordingTree(SourceTreePtr tree, InputsPtr inputs)
      : tree_(std::move(tree)), inputs_(std::move(inputs)) {}

  ByteSourcePtr open_source(const std::filesystem::path& path) const override {
    if (ByteSourcePtr saved = inputs_->find_saved(path)) return saved;
    return open_file(path, tree_);
  }
  std::vector<DirectoryEntry> list(const std::filesystem::path& path) const override {
    return list_directory(path, tree_);
  }
  PathKind kind(const std::filesystem::path& path) const override {
    return inputs_->find_saved(path) ? PathKind::kOther : path_kind(path, tree_);
  }
  std::int64_t known_mtime_ns(const std::filesystem::path& path) const override {
    return reshardfs::known_mtime_ns(path, tree_);
  }
  void foresee_lists(std::span<const std::filesystem::path> paths) const override {
    if (tree_) tree_->foresee_lists(paths);
  }

  const SourceTreePtr& tree() const noexcept { return tree_; }
  const InputsPtr& inputs() const noexcept { return inputs_; }

 private:
  const SourceTreePtr tree_;
  const InputsPtr inputs_;
};

}  // namespace

Inputs::Inputs(const std::vector<SavedInput>& saved) {
  for (const SavedInput& file : saved) as_they_were_.emplace(file.path, file);
}

Inputs::Known& Inputs::known(const std::filesystem::path& path, const ByteSource& file) {
  Known& entry = files_[path];
  // Lists and answers of a server give times of different precision.
  if (file.is_remote()) return entry;
  std::string version = version_of(file);
  if (!entry.local_version.empty() && entry.local_version != version) throw changed_meanwhile(path);
  entry.local_version = std::move(version);
  return entry;
}

void Inputs::add_read(const std::filesystem::path& path, const ByteSource& file,
                      std::string_view content) {
  std::string sum = sum_of(content);
  const std::lock_guard lock(mutex_);
  Known& entry = known(path, file);
  if (!entry.content.empty() && entry.content != sum) throw changed_meanwhile(path);
  entry.content = std::move(sum);
  if (entry.saved || content.size() > std::min(kMostBytesOfFile, kMostSavedBytes - saved_bytes_)) {
    return;
  }
  entry.saved = {path, std::string(content), file.mtime_ns(), file.stamp()};
  saved_bytes_ += content.size();
}

void Inputs::add_open(const std::filesystem::path& path, const ByteSource& file) {
  const std::lock_guard lock(mutex_);
  known(path, file).version = version_of(file);
}

void Inputs::add_derived(const std::string& name, std::string sum) {
  const std::lock_guard lock(mutex_);
  files_[name].content = std::move(sum);
}

std::vector<Input> Inputs::list() const {
  std::vector<Input> all;
  const std::lock_guard lock(mutex_);
  for (const auto& [path, file] : files_) {
    all.push_back({path, file.content, file.version});
  }
  return all;
}

std::vector<SavedInput> Inputs::saved() const {
  std::vector<SavedInput> all;
  const std::lock_guard lock(mutex_);
  for (const auto& [path, file] : files_) {
    if (file.saved) all.push_back(*file.saved);
  }
  return all;
}

ByteSourcePtr Inputs::find_saved(const std::filesystem::path& path) const {
  const auto found = as_they_were_.find(path);
  if (found == as_they_were_.end()) return nullptr;
  return std::make_shared<const SavedSource>(found->second);
}

SourceTreePtr recording(SourceTreePtr tree, InputsPtr inputs) {
  if (!inputs) return tree;
  return std::make_shared<const RecordingTree>(std::move(tree), std::move(inputs));
}

SourceTreePtr unrecorded(const SourceTreePtr& tree) {
  const auto* const recording = dynamic_cast<const RecordingTree*>(tree.get());
  return recording == nullptr ? tree : recording->tree();
}

InputsPtr inputs_of(const SourceTreePtr& tree) {
  const auto* const recording = dynamic_cast<const RecordingTree*>(tree.get());
  return recording == nullptr ? nullptr : recording->inputs();
}

bool refuses_links(const SourceTreePtr& tree) {
  return dynamic_cast<const LinklessTree*>(unrecorded(tree).get()) != nullptr;
}

void record_open(const std::filesystem::path& path, const ByteSource& file,
                 const SourceTreePtr& tree) {
  if (const InputsPtr inputs = inputs_of(tree)) inputs->add_open(path, file);
}

}  // namespace reshardfs
