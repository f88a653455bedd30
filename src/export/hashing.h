// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "reshardfs/conversion.h"

#include "export/block_engine.h"

namespace reshardfs {

/// Hashes one file without writing it. Lets go of it when that is done.
class HashJob final : public BlockJob {
 public:
  using Done = std::function<void(const ContentSums& sums)>;

  /// @param name must outlive this.
  /// @param done called once, from any thread.
  HashJob(std::shared_ptr<const VirtualFile> file, const std::string& name, SumKinds sums,
          Done done)
      : file_(std::move(file)), name_(name), sums_(sums), done_(std::move(done)) {}

  const VirtualFile& file() const override { return *file_; }
  const std::string& name() const override { return name_; }
  bool takes_pieces() const override { return true; }
  SumKinds sums() const override { return sums_; }
  void finish(const ContentSums& sums) override {
    done_(sums);
    file_.reset();
  }

 private:
  std::shared_ptr<const VirtualFile> file_;
  const std::string& name_;
  const SumKinds sums_;
  Done done_;
};

/// Hashes files of a conversion without writing them.
/// @param done called for each file in their order, as soon as those before it are done; never
///        from two threads at once.
/// @throws Error of a file's read_at(); Interrupted.
void hash_files(const std::vector<const OutputFile*>& files, const BlockEngineOptions& options,
                const std::function<void(const OutputFile& file, const std::string& sha256)>& done);

}  // namespace reshardfs
