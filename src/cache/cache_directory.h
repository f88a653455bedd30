// SPDX-License-Identifier: Apache-2.0
/// The files of a cache:
///
///   PARENT/reshardfs-UID/  0700
///     a/bcdef...           records: 16 directories, names as record_path()
///     filling/...          records that are being written, each locked by who does
///     held                 the ledger
///     sweep                locked by who recounts and evicts
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <mutex>
#include <optional>

#include "base/posix/descriptor.h"
#include "cache/ledger.h"
#include "cache/record.h"

namespace reshardfs {

/// A record that has no name yet.
struct Filling {
  std::array<char, 41> path{};  ///< "filling/...", with a NUL at its end
  Descriptor file;
};

/// The directory of one user, held open, so that operations reach it even if its path is renamed or
/// replaced. Functions return 0 or an error number unless they say otherwise.
class CacheDirectory {
 public:
  static constexpr std::size_t kFolders = 16;
  /// Where records are written.
  static constexpr const char* kFilling = "filling";
  static constexpr const char* kLedger = "held";
  /// Of records.
  static std::array<char, 2> folder_name(std::size_t number) noexcept;

  /// Opens it, or makes it.
  /// @throws Error kUsage if it is not a directory of this user alone, kIo.
  explicit CacheDirectory(const std::filesystem::path& parent);

  const std::filesystem::path& path() const noexcept { return path_; }
  int descriptor() const noexcept { return root_.get(); }
  Ledger& ledger() noexcept { return ledger_; }
  const Ledger& ledger() const noexcept { return ledger_; }
  /// What to lock for a sweep.
  int sweep_file() const noexcept { return sweep_.get(); }

  Descriptor open_record(const RecordPath& path) const noexcept;
  bool has_record(const RecordPath& path) const noexcept;
  /// Unless another one has taken its place since it was found.
  void remove_record(const RecordPath& path, const struct stat& found) const noexcept;

  /// Holds the ledger's lock, so that a process with this lock finds every file of this kind either
  /// locked or left behind.
  /// @return no file, with errno, if it fails.
  Filling make_filling(std::uint64_t size) const noexcept;
  void remove_filling(const Filling& filling) const noexcept;
  /// EEXIST if somebody else was faster.
  int give_name(const Filling& filling, const RecordPath& path) const noexcept;

  /// BlockCache::leave()
  void leave() noexcept;

 private:
  std::filesystem::path path_;
  Descriptor root_;
  Ledger ledger_;
  Descriptor sweep_;
  /// Of the filling that is locked: one thread writes them, one after the other. -1: there is none.
  mutable std::atomic<int> filling_ = -1;
};

/// The directory that is in use. Somebody may remove it at any time, to empty the cache.
class CurrentDirectory {
 public:
  /// @throws as CacheDirectory.
  explicit CurrentDirectory(const std::filesystem::path& parent);

  std::shared_ptr<CacheDirectory> get() const noexcept;
  /// Makes it again. @return whether that was possible.
  bool make_again() noexcept;
  /// BlockCache::leave(). Of a directory that is just being made again nothing is known.
  void leave() noexcept { directory_->leave(); }

 private:
  const std::filesystem::path parent_;
  mutable std::mutex mutex_;
  std::shared_ptr<CacheDirectory> directory_;  ///< guarded by mutex_; never null
};

}  // namespace reshardfs
