// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "storage/byte_source.h"
#include "storage/local/file_system_speed.h"
#include "storage/local/local_readers.h"
#include "storage/pool/range_fetcher.h"

namespace reshardfs {

/// Fetches ranges of a file on a mounted file system with LocalReaders.
class LocalFetcher final : public RangeFetcher {
 public:
  /// The size of one thread's read: small enough that a reader gets its first bytes soon, and
  /// several threads share its reads.
  static constexpr std::uint64_t kUnitBytes = 512 << 10;

  /// @param identity as RangeFetcher has it.
  /// @param file_system records the duration of reads.
  /// @param readers those of the process that asks; what they are must not change in it.
  LocalFetcher(ByteSourcePtr file, std::string identity,
               std::shared_ptr<FileSystemSpeed> file_system,
               std::function<LocalReaders&()> readers = LocalReaders::process);

  const std::string& name() const noexcept override { return file_->name(); }
  std::uint64_t size() const noexcept override { return file_->size(); }
  std::int64_t mtime_ns() const noexcept override { return file_->mtime_ns(); }
  FileStamp stamp() const noexcept override { return file_->stamp(); }
  const std::string& identity() const noexcept override { return identity_; }
  bool is_remote() const noexcept override { return false; }
  void check_unchanged() const override { file_->check_unchanged(); }
  Answering answering() const noexcept override { return readers_().answering(reading_); }
  std::chrono::steady_clock::duration patience() const noexcept override {
    return readers_().patience(reading_);
  }
  void fetch(const ByteRange& range, std::vector<std::span<std::byte>> out, Foresight when,
             Done done) const override;
  /// Like check_unchanged(), but does not wait. @throws std::bad_alloc
  void check(Done done) const;

 private:
  /// One read of all bytes of `parts`.
  void submit(std::uint64_t offset, std::span<std::byte> unit, Foresight when,
              const std::shared_ptr<FetchParts>& parts) const;

  const ByteSourcePtr file_;
  const std::string identity_;
  const std::shared_ptr<FileSystemSpeed> file_system_;
  const std::function<LocalReaders&()> readers_;
  const LocalReaders::FilePtr reading_;
};

}  // namespace reshardfs
