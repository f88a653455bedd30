// SPDX-License-Identifier: Apache-2.0
#include "view/control/watched_source.h"

#include <sys/vfs.h>

#include <exception>
#include <filesystem>
#include <map>
#include <utility>

#include "reshardfs/error.h"

#include "base/process/process_state.h"
#include "base/text/url_path.h"
#include "storage/local/file_system_type.h"

namespace reshardfs {
namespace {

/// Whether a file of this machine's file systems can be examined without a wait.
bool is_on_a_disk(const std::filesystem::path& path) noexcept {
  struct statfs system {};
  return ::statfs(path.c_str(), &system) == 0 && !is_remote_type(type_of(system));
}

ProcessState<OpenedSources> the_sources("opened sources", make_new<OpenedSources>);

}  // namespace

WatchedSource::WatchedSource(std::shared_ptr<const CheckpointSet> checkpoint)
    : checkpoint_(std::move(checkpoint)) {
  std::map<std::uint64_t, bool> on_disk;  // by device
  for (const RankFile& file : checkpoint_->files()) {
    bool at_once = is_url(file.path);
    if (!at_once) {
      const auto [known, is_new] = on_disk.try_emplace(file.source->stamp().device);
      if (is_new) known->second = is_on_a_disk(file.path);
      at_once = known->second;
    }
    if (at_once) at_once_.push_back(file.source.get());
  }
}

std::optional<SourceChange> WatchedSource::found() const {
  const std::lock_guard lock(mutex_);
  return found_;
}

std::optional<SourceChange> WatchedSource::keep(const Error& change) const {
  const std::lock_guard lock(mutex_);
  if (!found_) found_ = SourceChange{change.file(), change.what()};
  return found_;
}

std::optional<SourceChange> WatchedSource::look() const {
  try {
    for (const RankFile& file : checkpoint_->files()) file.source->check_unchanged();
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::kChanged) return keep(error);
    throw;
  }
  return std::nullopt;
}

std::optional<SourceChange> WatchedSource::known() const noexcept {
  try {
    if (auto before = found()) return before;
    for (const ByteSource* const source : at_once_) {
      try {
        source->check_unchanged();
      } catch (const Error& error) {
        if (error.kind() == ErrorKind::kChanged) return keep(error);
      }
    }
  } catch (const std::exception&) {
    // No memory: the next caller learns it.
  }
  return std::nullopt;
}

void OpenedSources::add(const std::shared_ptr<const WatchedSource>& source) {
  const std::lock_guard lock(mutex_);
  std::erase_if(sources_, [](const auto& other) { return other.expired(); });
  sources_.push_back(source);
}

std::vector<std::shared_ptr<const WatchedSource>> OpenedSources::all() {
  std::vector<std::shared_ptr<const WatchedSource>> all;
  const std::lock_guard lock(mutex_);
  for (const auto& source : sources_) {
    if (auto there = source.lock()) all.push_back(std::move(there));
  }
  return all;
}

std::optional<SourceChange> OpenedSources::look() {
  for (const auto& source : all()) {
    if (auto change = source->look()) return change;
  }
  return std::nullopt;
}

std::optional<SourceChange> OpenedSources::known() noexcept {
  try {
    for (const auto& source : all()) {
      if (auto change = source->known()) return change;
    }
  } catch (const std::exception&) {
    // No memory: the next caller learns it.
  }
  return std::nullopt;
}

OpenedSources& opened_sources() {
  return the_sources.get();
}

void write_source_change(MetricsText& text, const std::optional<SourceChange>& change) {
  text.family("source_changed", "gauge", "Whether a source file has changed since it was opened.");
  text.sample(change ? 1 : 0);
  if (!change) return;
  text.family("source_changed_file", "gauge",
              "The first source file that was found to have changed.");
  text.sample(1, {{"file", change->file}});
}

}  // namespace reshardfs
