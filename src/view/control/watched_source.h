// SPDX-License-Identifier: Apache-2.0
/// Detects changes of source files since they were opened.
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/text/metrics_text.h"
#include "checkpoint/checkpoint_set.h"

namespace reshardfs {

struct SourceChange {
  std::string file;
  std::string what;  ///< the whole line, with the file and what to do
};

/// The files of one checkpoint. Every member function may be called from any number of threads at
/// once.
class WatchedSource {
 public:
  /// Asks the kernel which file systems the files are on, and so may wait for their storage.
  explicit WatchedSource(std::shared_ptr<const CheckpointSet> checkpoint);

  /// Examines every file; waits for storage.
  /// @return the first change. @throws Error if a file cannot be examined.
  std::optional<SourceChange> look() const;
  /// The same without waiting for a network or another process: examines files on local disks, uses
  /// what reads of remote objects have found, and for all other files what look() has found.
  std::optional<SourceChange> known() const noexcept;

 private:
  std::optional<SourceChange> found() const;
  std::optional<SourceChange> keep(const Error& change) const;

  const std::shared_ptr<const CheckpointSet> checkpoint_;
  std::vector<const ByteSource*> at_once_;  ///< sources that can be examined without waiting
  mutable std::mutex mutex_;
  mutable std::optional<SourceChange> found_;  ///< guarded by mutex_; final once it is set
};

/// All sources that the process has opened and still shows.
class OpenedSources {
 public:
  void add(const std::shared_ptr<const WatchedSource>& source);
  /// Like WatchedSource::look(), for all sources.
  std::optional<SourceChange> look();
  std::optional<SourceChange> known() noexcept;

 private:
  std::vector<std::shared_ptr<const WatchedSource>> all();

  std::mutex mutex_;
  std::vector<std::weak_ptr<const WatchedSource>> sources_;  ///< guarded by mutex_
};

OpenedSources& opened_sources();

/// reshardfs_source_changed, and the file's name.
void write_source_change(MetricsText& text, const std::optional<SourceChange>& change);

}  // namespace reshardfs
