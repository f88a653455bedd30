// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "vfs/tree_source.h"

namespace reshardfs {

/// A tree that never changes, and those before it in the same mount that programs have openings of
/// still: such an opening goes on with the contents that it began with. No new one of a former
/// tree is possible, so each of them is dropped with its last opening.
///
/// Without former trees it costs no reference counting, as FixedTree.
class TreeVersions final : public TreeSource {
 public:
  struct Version {
    std::uint64_t number = 0;
    std::shared_ptr<const Tree> tree;
  };

  /// @param versions by number; the last one is shown.
  explicit TreeVersions(std::vector<Version> versions);

  std::shared_ptr<const Tree> current() const override;
  /// The numbers are those of versions. Drops the former trees that have no openings.
  void recall(const std::string& saved, const CountOpenings& count) override;
  bool file_opened(InodeNumber inode) override;
  void closed(std::uint64_t version) noexcept override;
  std::uint64_t tree_of(InodeNumber) const noexcept override { return shown_.number; }
  std::uint64_t tree_of_listing(InodeNumber) const noexcept override { return shown_.number; }
  std::shared_ptr<const Tree> of_listing(std::uint64_t number) const override;
  bool is_former(std::uint64_t version) const noexcept override { return version != shown_.number; }

 private:
  struct Former {
    Version version;
    std::uint64_t openings = 0;
  };

  bool drop_if_last(std::uint64_t version) noexcept;
  // With mutex_.
  std::vector<Former>::const_iterator find_former(std::uint64_t version) const noexcept;
  void publish();

  const Version shown_;
  /// shown_.tree, without an owner.
  const std::shared_ptr<const Tree> alone_;
  std::atomic<bool> has_former_ = false;
  mutable std::mutex mutex_;
  std::vector<Former> former_;        ///< guarded; the newest first
  std::shared_ptr<const Tree> tree_;  ///< guarded; all of them
};

}  // namespace reshardfs
