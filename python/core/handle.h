// SPDX-License-Identifier: Apache-2.0
/// What Python holds of an opened checkpoint. All of it may be used by any number of threads.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "reshardfs/conversion.h"
#include "reshardfs/tensor.h"

#include "core/opening.h"
#include "core/process.h"

namespace reshardfs::python {

/// Whether a checkpoint can still be used: all that comes from it asks.
class Access {
 public:
  void close() noexcept { closed_ = true; }
  bool is_closed() const noexcept { return closed_; }
  /// @throws Error kUsage if it is closed, or was opened before a fork.
  void require() const;

 private:
  std::atomic<bool> closed_{false};
  ProcessMark mark_;
};

using AccessPtr = std::shared_ptr<const Access>;

class TensorHandle {
 public:
  TensorHandle(AccessPtr access, Tensor tensor)
      : access_(std::move(access)), tensor_(kept_here(std::move(tensor))) {}

  /// @throws Error kUsage as Access::require().
  const Tensor& get() const {
    access_->require();
    return *tensor_;
  }
  /// What is known without the source, of a closed one too.
  const Tensor& facts() const noexcept { return *tensor_; }
  TensorHandle box(const Shape& begin, const Shape& end) const {
    return {access_, get().box(begin, end)};
  }
  /// The reads of a part; it keeps the tensor.
  std::function<void(std::uint64_t, std::span<std::byte>)> reader() const;

 private:
  AccessPtr access_;
  std::shared_ptr<const Tensor> tensor_;
};

class TensorSetHandle {
 public:
  TensorSetHandle(AccessPtr access, TensorSet set)
      : access_(std::move(access)), set_(kept_here(std::move(set))) {}

  const TensorSet& get() const {
    access_->require();
    return *set_;
  }
  const TensorSet& facts() const noexcept { return *set_; }
  /// Those that match any of the globs, in the set's order.
  std::vector<std::string> names(const std::vector<std::string>& globs) const;
  TensorHandle at(const std::string& name) const { return {access_, get().at(name)}; }

 private:
  AccessPtr access_;
  std::shared_ptr<const TensorSet> set_;
};

class FileHandle {
 public:
  /// @param conversion keeps what the file reads.
  FileHandle(AccessPtr access, std::shared_ptr<const VirtualFile> file)
      : access_(std::move(access)), file_(kept_here(std::move(file))) {}

  std::uint64_t size() const { return (*file_)->size(); }
  std::function<void(std::uint64_t, std::span<std::byte>)> reader() const;

 private:
  AccessPtr access_;
  std::shared_ptr<const std::shared_ptr<const VirtualFile>> file_;
};

/// What is known of a checkpoint once it is closed, too.
struct CheckpointFacts {
  std::vector<Rank> ranks;  ///< those that are shown, ascending
  std::int64_t rank_count = 0;
  std::vector<std::string> warnings;
  std::vector<std::string> notes;
  std::string step;
  std::vector<std::string> steps;
};

class CheckpointHandle {
 public:
  /// Blocks on source I/O; needs no GIL.
  /// @throws Error as open_source().
  explicit CheckpointHandle(const KeptOpening& opening);

  /// Tensors and files that are in use keep the sources open, but cannot be read any more.
  void close();
  bool is_closed() const noexcept { return access_->is_closed(); }

  /// @throws Error kUsage as Access::require().
  std::shared_ptr<const Conversion> get() const;
  const CheckpointFacts& facts() const noexcept { return facts_; }

  /// To open it again elsewhere.
  /// @throws Error kUsage as kept_opening().
  KeptOpening kept(KeptFor use) const;
  /// Those that are listed, with their sizes.
  std::vector<std::pair<std::string, std::uint64_t>> files() const;
  TensorSetHandle tensors(std::int64_t rank) const;
  TensorSetHandle whole_tensors() const;
  /// The texts in the headers of the source's files.
  std::map<std::string, std::string> metadata() const;
  /// @throws Error kMissing if there is no such file.
  FileHandle file(const std::string& path) const;

 private:
  explicit CheckpointHandle(OpenedSource opened);

  std::shared_ptr<Access> access_ = std::make_shared<Access>();
  mutable std::mutex mutex_;  // guards conversion_
  std::shared_ptr<const Conversion> conversion_;
  const Given given_;
  const ConversionOptions options_;
  const CheckpointFacts facts_;
};

}  // namespace reshardfs::python
