// SPDX-License-Identifier: Apache-2.0
#include "export/file_job.h"

#include <atomic>
#include <cerrno>
#include <exception>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "reshardfs/error.h"

#include "base/sha256.h"
#include "export/block_journal.h"
#include "export/contents.h"
#include "export/page_sharing.h"

namespace reshardfs {
namespace {

std::string subject_of(const std::string& identity, const OutputFile& output) {
  const std::string text = identity + "\n" + output.path + "\n" + version_of(*output.file);
  return sha256_of(std::as_bytes(std::span(text)));
}

class FileJob final : public WriteJob {
 public:
  FileJob(const OutputFile& output, const FileWriting& writing, bool is_begun)
      : WriteJob(output),
        writing_(writing),
        path_(output.path),
        subject_{subject_of(writing.identity, output), output.file->size()},
        block_bytes_(writing.block_bytes) {
    // Sharing blocks is quick, so a shared file begins anew.
    if (is_begun && !writing.reflink) resume();
    if (is_begun && writing.reflink) remove_begun();
  }
  ~FileJob() override {
    if (journal_) journal_->remove();
  }

  std::size_t block_bytes() const override { return block_bytes_; }
  bool takes_pieces() const override { return true; }
  bool finishes_beside() const override { return true; }
  SumKinds sums() const override {
    if (writing_.manifest == nullptr) return SumKinds::kNone;
    return writing_.checksums ? SumKinds::kSha256 : SumKinds::kXxh3;
  }
  void begin() override {
    if (journal_) return;
    const TargetCall call(*this);
    const std::filesystem::path parent = path_.parent_path();
    // Of a worker that could not begin: its lock would be taken for another process's.
    partial_.reset();
    partial_ = std::make_unique<PartialFile>(writing_.root.make(parent), path_.filename(),
                                             file().size(), writing_.writers);
    if (writing_.reflink) {
      sharing_.emplace(file(), partial_->descriptor());
      shared_bytes_ = sharing_->shared_bytes();
      return;
    }
    // Losing a file of one block costs too little for a journal.
    if (writing_.writers != Writers::kOne || file().size() <= block_bytes_) return;
    journal_ = std::make_unique<BlockJournal>(writing_.root.make(parent), path_.filename(),
                                              subject_, block_bytes_);
  }
  bool restore(std::uint64_t offset, std::span<std::byte> out) override {
    if (!journal_ || !journal_->knows(offset)) return false;
    if (partial_->read_at(offset, out) && journal_->matches(offset, out)) {
      resumed_bytes_ += out.size();
      return true;
    }
    ++damaged_blocks_;
    return false;
  }
  std::vector<ByteRange> lacking(const ByteRange& range) const override {
    if (!sharing_ || writing_.checksums) return {range};
    return sharing_->lacking(range);
  }
  void write(std::uint64_t offset, std::span<const std::byte> bytes) override {
    const TargetCall call(*this);
    if (!sharing_) return partial_->write_at(offset, bytes);
    for (const ByteRange& part : sharing_->lacking({offset, bytes.size()})) {
      partial_->write_at(part.offset(),
                         bytes.subspan(static_cast<std::size_t>(part.offset() - offset),
                                       static_cast<std::size_t>(part.length())));
    }
  }
  void written(std::uint64_t offset, std::span<const std::byte> block) override {
    partial_->begin_sync(offset, block.size());
    if (journal_) journal_->add(offset, block);
  }
  void finish(const ContentSums& sums) override {
    if (sharing_) sharing_->check_sources();
    const TargetCall call(*this);
    partial_->sync();
    if (writing_.manifest != nullptr) {
      if (writing_.writers == Writers::kMany) writing_.manifest->require_own();
      // The entry first: a file that has its name is known then, whenever the process is killed.
      writing_.manifest->add(name(),
                             {.size = file().size(), .sha256 = sums.sha256, .xxh3 = sums.xxh3});
    }
    commit();
    partial_.reset();
    if (journal_) journal_->remove();
    journal_.reset();
  }
  bool leave() noexcept override {
    if (!journal_ || !partial_ || !journal_->has_blocks()) return false;
    partial_->leave();
    journal_.reset();
    return true;
  }
  void abandon() noexcept override {}
  bool has_failed_to_write() const noexcept override { return has_failed_to_write_; }

 private:
  /// Takes note if a call ends with an exception.
  class TargetCall {
   public:
    explicit TargetCall(FileJob& job) noexcept
        : job_(job), exceptions_(std::uncaught_exceptions()) {}
    TargetCall(const TargetCall&) = delete;
    TargetCall& operator=(const TargetCall&) = delete;
    ~TargetCall() {
      if (std::uncaught_exceptions() > exceptions_) job_.has_failed_to_write_ = true;
    }

   private:
    FileJob& job_;
    int exceptions_;
  };

  void resume() {
    const auto folder = writing_.root.find(path_.parent_path());
    if (!folder) return;
    const std::string name = path_.filename();
    partial_ = PartialFile::resume(*folder, name, subject_.size);
    if (partial_) journal_ = BlockJournal::resume(*folder, name, subject_, block_bytes_);
    if (journal_) {
      block_bytes_ = journal_->block_bytes();
      return;
    }
    partial_.reset();
    remove_partial_files(*folder, {name}, Writers::kMany);
  }
  void remove_begun() {
    const auto folder = writing_.root.find(path_.parent_path());
    if (folder) remove_partial_files(*folder, {path_.filename()}, Writers::kMany);
  }

  void commit() {
    try {
      partial_->commit(writing_.replace || writing_.writers == Writers::kMany);
    } catch (Error& error) {
      if (writing_.writers != Writers::kMany || error.os_error() != ENOENT) throw;
      throw Error(ErrorKind::kIo, "another process has removed the partial file")
          .in_file(writing_.root.path() / path_)
          .os_error(ENOENT)
          .hint("it exports the same share; let only one of them run");
    }
  }

  const FileWriting writing_;
  const std::filesystem::path path_;
  const BlockJournal::Subject subject_;
  std::size_t block_bytes_;
  std::unique_ptr<BlockJournal> journal_;
  std::unique_ptr<PartialFile> partial_;
  std::optional<PageSharing> sharing_;
  std::atomic<bool> has_failed_to_write_{false};
};

}  // namespace

std::unique_ptr<WriteJob> file_job(const OutputFile& output, const FileWriting& writing,
                                   bool is_begun) {
  return std::make_unique<FileJob>(output, writing, is_begun);
}

}  // namespace reshardfs
