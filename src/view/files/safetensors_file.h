// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "base/process/retry_once.h"
#include "format/safetensors/safetensors_writer.h"
#include "plan/target/target_table.h"
#include "view/files/parted_file.h"

namespace reshardfs {

/// What the tensors of the last file take. Several files mostly hold the whole model one after the
/// other, and differ in what does not depend on the tensors. Any number of threads may use it.
class SafetensorsSizes {
 public:
  /// @param table outlives the views. @param measure what makes it for other tensors. Whoever asks
  /// for the same tensors meanwhile waits.
  template <typename Measure>
  safetensors::TensorBytes of(const TargetTable& table, Rank rank,
                              const std::vector<const TargetParameter*>& parameters,
                              Measure&& measure) {
    const std::shared_ptr<Tensors> tensors = last_of(table, rank, parameters);
    tensors->measured.call([&] { tensors->bytes = measure(); });
    return tensors->bytes;
  }

  /// Once there are all files.
  void forget() {
    const std::lock_guard lock(mutex_);
    last_.reset();
  }

 private:
  struct Tensors {
    const TargetTable* table = nullptr;
    Rank rank{};
    std::vector<const TargetParameter*> parameters{};
    RetryOnce measured{};
    safetensors::TensorBytes bytes{};
  };

  std::shared_ptr<Tensors> last_of(const TargetTable& table, Rank rank,
                                   const std::vector<const TargetParameter*>& parameters) {
    const std::lock_guard lock(mutex_);
    const bool is_same =
        last_ && last_->table == &table && last_->rank == rank && last_->parameters == parameters;
    if (is_same) return last_;
    last_ = std::make_shared<Tensors>();
    last_->table = &table;
    last_->rank = rank;
    last_->parameters = parameters;
    return last_;
  }

  std::mutex mutex_;
  std::shared_ptr<Tensors> last_;
};

/// Parameters of one destination rank as a .safetensors file.
class SafetensorsFile : public PartedFile {
 public:
  /// The parts that all files of one table have in common, apart from tensors.
  struct Common {
    safetensors::Metadata metadata;
    std::uint64_t align = 8;
    /// The data begins where it begins in the source's pages, if that is the same for most bytes.
    bool as_in_source = false;
    /// Of all files that are made together; nullptr: of this one alone.
    std::shared_ptr<SafetensorsSizes> sizes{};
  };

  /// @param parameters arrays that the rank has, in any order.
  /// @throws Error kUnsupported for names that the format cannot hold; kBadInput if the file would
  ///         be too large.
  SafetensorsFile(std::shared_ptr<const TargetTable> target, Rank rank,
                  std::vector<const TargetParameter*> parameters,
                  std::shared_ptr<const Common> common);
  ~SafetensorsFile() override;

 protected:
  /// For derived classes with tensors or metadata that differ from a rank's. Their constructors
  /// must call measure().
  SafetensorsFile(std::shared_ptr<const TargetTable> target, Rank rank,
                  std::shared_ptr<const Common> common);
  void measure();
  virtual safetensors::Metadata metadata() const { return common_->metadata; }

 private:
  /// append_to() refers to them by their indices.
  virtual std::vector<safetensors::HeaderTensor> tensors() const { return slices(); }
  void append_to(FileImage& image, std::size_t number) const override;
  std::vector<const TargetParameter*> parameters() const override { return parameters_; }

  std::vector<safetensors::HeaderTensor> slices() const;
  void set_sizes(const safetensors::TensorBytes& tensors);
  safetensors::Header header() const;
  /// See Common::as_in_source. @param head with the same tensors.
  std::uint64_t place_in_source(const safetensors::Header& head) const;
  std::vector<Stretch> stretches() const final;
  void read_frame(std::uint64_t offset, std::span<std::byte> out) const final;

  std::vector<const TargetParameter*> parameters_;
  std::shared_ptr<const Common> common_;
  std::uint64_t place_ = 0;  ///< see make_header()
};

/// The arrays of a destination rank, in the table's order.
std::vector<const TargetParameter*> arrays_of(const TargetTable& target, Rank rank);

}  // namespace reshardfs
