// SPDX-License-Identifier: Apache-2.0
#include "core/handle.h"

#include <algorithm>
#include <utility>

#include "reshardfs/error.h"

#include "base/text/glob.h"
#include "cli/shown_file.h"
#include "view/view.h"

namespace reshardfs::python {
namespace {

std::vector<Rank> shown_ranks(const ConversionOptions& options, const Conversion& conversion) {
  std::vector<Rank> ranks = options.ranks;
  const RankRange all(Rank(), conversion.rank_count());
  if (ranks.empty()) return {all.begin(), all.end()};
  std::sort(ranks.begin(), ranks.end());
  ranks.erase(std::unique(ranks.begin(), ranks.end()), ranks.end());
  return ranks;
}

}  // namespace

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

std::vector<std::string> TensorSetHandle::names(const std::vector<std::string>& globs) const {
  std::vector<std::string> names;
  for (std::size_t i = 0; i < set_->size(); ++i) {
    std::string name = set_->info(i).name;
    if (matches_any(globs, name)) names.push_back(std::move(name));
  }
  return names;
}

CheckpointHandle::CheckpointHandle(const KeptOpening& opening)
    : CheckpointHandle(open_source(opening)) {}

CheckpointHandle::CheckpointHandle(OpenedSource opened)
    : conversion_(kept_here(std::move(opened.conversion))),
      given_(std::move(opened.given)),
      options_(std::move(opened.options)),
      facts_{shown_ranks(options_, *conversion_),
             conversion_->rank_count(),
             conversion_->warnings(),
             conversion_->notes(),
             conversion_->step(),
             conversion_->steps()} {}

KeptOpening CheckpointHandle::kept(KeptFor use) const {
  return kept_opening(given_, options_, *get(), use);
}

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

std::map<std::string, std::string> CheckpointHandle::metadata() const {
  return ConversionAccess::metadata(*get());
}

FileHandle CheckpointHandle::file(const std::string& path) const {
  const std::shared_ptr<const VirtualFile> shown = shown_file(*get(), path).file;
  const std::shared_ptr<const VirtualFile> live = shown->snapshot();
  return {access_, live != nullptr ? live : shown};
}

}  // namespace reshardfs::python
