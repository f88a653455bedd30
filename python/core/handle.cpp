// SPDX-License-Identifier: Apache-2.0
#include "core/handle.h"

#include <utility>

#include "reshardfs/error.h"

#include "cli/shown_file.h"
#include "core/opening.h"

namespace reshardfs::python {

void Access::require() const {
  if (closed_) throw Error(ErrorKind::kUsage, "the checkpoint is closed");
  if (mark_.is_here()) return;
  throw Error(ErrorKind::kUsage, "the checkpoint was opened before this process was forked")
      .hint("open it again here, or start processes with multiprocessing's 'spawn'");
}

std::function<void(std::uint64_t, std::span<std::byte>)> TensorHandle::reader() const {
  access_->require();
  return [tensor = tensor_](std::uint64_t offset, std::span<std::byte> out) {
    tensor->read(offset, out);
  };
}

std::function<void(std::uint64_t, std::span<std::byte>)> FileHandle::reader() const {
  access_->require();
  return [file = file_](std::uint64_t offset, std::span<std::byte> out) {
    (*file)->read_at(offset, out);
  };
}

std::shared_ptr<CheckpointHandle> CheckpointHandle::open(const std::vector<std::string>& words) {
  OpenedSource opened = open_source(words);
  return std::make_shared<CheckpointHandle>(std::move(opened.conversion), std::move(opened.ranks));
}

CheckpointHandle::CheckpointHandle(Conversion conversion, std::vector<Rank> ranks)
    : conversion_(kept_here(std::move(conversion))), ranks_(std::move(ranks)) {}

void CheckpointHandle::close() {
  access_->close();
  std::shared_ptr<const Conversion> last;
  const std::lock_guard lock(mutex_);
  last.swap(conversion_);
}

std::shared_ptr<const Conversion> CheckpointHandle::get() const {
  access_->require();
  const std::lock_guard lock(mutex_);
  if (conversion_ == nullptr) access_->require();
  return conversion_;
}

std::vector<std::pair<std::string, std::uint64_t>> CheckpointHandle::files() const {
  std::vector<std::pair<std::string, std::uint64_t>> files;
  for (const OutputFile& file : get()->files()) {
    if (!file.hidden) files.emplace_back(file.path, file.file->stat_size());
  }
  return files;
}

TensorSetHandle CheckpointHandle::tensors(std::int64_t rank) const {
  return {access_, get()->tensors(Rank(rank))};
}

TensorSetHandle CheckpointHandle::whole_tensors() const {
  return {access_, get()->whole_tensors()};
}

FileHandle CheckpointHandle::file(const std::string& path) const {
  const std::shared_ptr<const VirtualFile> shown = shown_file(*get(), path).file;
  const std::shared_ptr<const VirtualFile> live = shown->snapshot();
  return {access_, live != nullptr ? live : shown};
}

}  // namespace reshardfs::python
