// SPDX-License-Identifier: Apache-2.0
#include "export/hashing.h"

namespace reshardfs {
namespace {

using Done = std::function<void(const OutputFile& file, const std::string& sha256)>;

/// Holds results back until those before them are there.
class InOrder {
 public:
  InOrder(const std::vector<const OutputFile*>& files, const Done& done)
      : files_(files), done_(done), results_(files.size()) {}

  void add(std::size_t index, const std::string& sha256) {
    const std::lock_guard lock(mutex_);
    results_[index] = sha256;
    for (; next_ < results_.size() && !results_[next_].empty(); ++next_) {
      done_(*files_[next_], results_[next_]);
    }
  }

 private:
  const std::vector<const OutputFile*>& files_;
  const Done& done_;
  std::mutex mutex_;  // guards the two below, and calls of done_
  std::vector<std::string> results_;
  std::size_t next_ = 0;
};

class ViewJob final : public BlockJob {
 public:
  ViewJob(const OutputFile& output, std::size_t index, InOrder& results)
      : output_(output), index_(index), results_(results) {}

  const VirtualFile& file() const override { return *output_.file; }
  const std::string& name() const override { return output_.path; }
  void finish(const std::string& sha256) override { results_.add(index_, sha256); }

 private:
  const OutputFile& output_;
  std::size_t index_;
  InOrder& results_;
};

}  // namespace

void hash_files(const std::vector<const OutputFile*>& files, const BlockEngineOptions& options,
                const Done& done) {
  InOrder results(files, done);
  std::vector<std::unique_ptr<BlockJob>> jobs;
  jobs.reserve(files.size());
  for (const OutputFile* file : files) {
    jobs.push_back(std::make_unique<ViewJob>(*file, jobs.size(), results));
  }
  run_blocks(jobs, options);
}

}  // namespace reshardfs
