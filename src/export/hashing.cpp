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

}  // namespace

void hash_files(const std::vector<const OutputFile*>& files, const BlockEngineOptions& options,
                const Done& done) {
  InOrder results(files, done);
  std::vector<std::unique_ptr<BlockJob>> jobs;
  jobs.reserve(files.size());
  for (const OutputFile* file : files) {
    jobs.push_back(
        std::make_unique<HashJob>(file->file, file->path, SumKinds::kSha256,
                                  [&results, index = jobs.size()](const ContentSums& sums) {
                                    results.add(index, sums.sha256);
                                  }));
  }
  run_blocks(jobs, options);
}

}  // namespace reshardfs
