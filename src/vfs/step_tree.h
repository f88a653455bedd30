// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <unordered_set>
#include <vector>

#include "reshardfs/error.h"

#include "vfs/saved_steps.h"
#include "vfs/tree_source.h"

namespace reshardfs {

/// steps/<step>/... for each step of a source, `latest`, a link to the newest one, and files that
/// are common to all. Steps come and go; each is opened when something first looks into its
/// directory. One that nothing uses any more is folded again, so that a week's steps do not hold
/// the memory, descriptors and watches of their sources: when something looks into it again, it
/// has the same numbers.
///
/// A generation is a small trunk (the root, steps, latest) with a branch for each step; branches
/// are passed on from one generation to the next. A step that has vanished while a file of it is
/// open keeps its branch, out of sight, until the last one is closed: until then its source files
/// are open, too, and their space in use. A step that comes back, or that was saved again while it
/// was shown, is another one, with other inode numbers, so that nothing which the kernel has kept
/// of the old one is taken for the new one's.
class StepTree final : public TreeSource {
 public:
  using Clock = std::chrono::steady_clock;

  struct Listed {
    std::string name;
    /// What tells its files from others': the first word of what `open` returns; empty: not known.
    std::string contents{};
  };
  struct Listing {
    std::vector<Listed> steps{};  ///< those to show, oldest first
    bool has_more = false;        ///< others may follow, if it is asked again
  };

  /// What it asks, never with a lock held.
  struct Callbacks {
    /// @param open the steps whose sources are open. @throws Error
    std::function<Listing(const std::set<std::string>& open)> list;
    /// Adds a step's files. @return what tells them from others'. @throws Error
    std::function<std::string(const std::string& step, TreeBuilder& builder)> open;
    /// Is told of problems, once of each: those of list() with an empty step.
    std::function<void(const std::string& step, const Error& error)> report;
    std::function<Clock::time_point()> now = Clock::now;
    /// Adds what stands beside steps/ in every generation; may be empty. The files must outlive the
    /// tree's readers, as those of one tree do.
    std::function<void(TreeBuilder& builder)> common{};
  };

  /// For how long a step that cannot be opened is not tried again.
  static constexpr std::chrono::seconds kRetryAfter{10};
  /// How many steps stay open though no file of theirs is, and for how long.
  static constexpr std::size_t kMostIdle = 16;
  static constexpr std::chrono::minutes kIdleFor{60};

  /// The link to the newest step.
  static constexpr const char* kLatest = "latest";

  /// Lists the steps. @throws Error as list() does.
  explicit StepTree(Callbacks callbacks);
  /// Where another process has stopped.
  struct GoingOn {
    std::string saved;    ///< by that process
    CountOpenings count;  ///< its openings
    bool after_crash = false;
  };
  /// Goes on with what it has shown, and opens the steps that it had opened; after a crash those in
  /// use, since readers wait. A step that has changed meanwhile is shown as another one.
  /// @throws Error as list() does, and if a step in use has changed or gone; after a crash that is
  ///         reported, and openings of it are stale.
  StepTree(Callbacks callbacks, const GoingOn& before);

  std::shared_ptr<const Tree> current() const override;
  bool changes() const noexcept override { return true; }
  bool refresh() noexcept override;
  void open_directory(InodeNumber inode) override;
  bool can_reopen(InodeNumber inode) const noexcept override;
  bool file_opened(InodeNumber inode) override;
  void closed(std::uint64_t tree) noexcept override;
  std::uint64_t tree_of(InodeNumber inode) const noexcept override;
  std::uint64_t tree_of_listing(InodeNumber inode) const noexcept override;
  void recall(const std::string& saved, const CountOpenings& count) override;
  void save_through(const std::function<void(const std::string&)>& keep) override;
  std::string save_listing(const Tree& tree) const override;
  std::shared_ptr<const Tree> restore_listing(const std::string& text) const override;

 private:
  struct Step {
    std::string name;
    std::shared_ptr<const Tree> tree;  ///< pending, or with all files
    std::string identity;              ///< of its files, once they are known
    std::string listed;                ///< its contents as they were last listed
    bool shown = true;
    bool folded = false;  ///< pending again, see kMostIdle
    std::uint64_t open_files = 0;
    Clock::time_point used_at{};   ///< when it was opened, or a file of it opened or closed
    std::optional<Error> failure;  ///< of the last attempt to open it
    std::string reported;          ///< the text of the last failure that was told of
    Clock::time_point retry_at{};
  };
  using Steps = std::map<BranchNumber, Step>;

  using TreePtr = std::shared_ptr<const Tree>;

  // Numbers for openings: of a step's files, and of listings in it.
  static std::uint64_t number_of_files(BranchNumber branch) noexcept { return branch; }
  static std::uint64_t number_of_listings(BranchNumber branch) noexcept {
    return std::uint64_t{1} << 32 | branch;
  }

  bool look();
  void look_into_known();
  std::set<std::string> open_steps() const;
  // These need steps_mutex_. What they return is the generation before, for the caller to drop when
  // the lock is free: the last one to hold it closes the sources that no other generation has.
  [[nodiscard]] TreePtr show(const std::vector<Listed>& steps);
  static bool may_be(const Step& step, const std::string& contents);
  bool fold_idle();
  [[nodiscard]] TreePtr publish();
  void add_step(const std::string& name);
  void save() noexcept;

  struct Opened {
    TreePtr tree;
    std::string identity;
  };
  Opened open_step(BranchNumber branch, const std::string& name) const;
  TreePtr pending_step(BranchNumber branch, const std::string& name, std::int64_t changed_ns) const;
  TreeBuilder begin_trunk(std::int64_t changed_ns, const std::string& newest) const;
  // In saved_steps.cpp, with steps_mutex_ held. Callbacks may also run with it, because no other
  // thread uses the tree yet.
  void adopt(const SavedSteps& saved, const CountOpenings& count, bool open_all);
  Step again(const SavedSteps::Step& saved) const;
  bool open_again(const SavedSteps::Step& saved, Step& step, bool in_use) const;
  void remember_failure(BranchNumber branch, const Error& error);

  const Callbacks callbacks_;
  /// Where the branches hang.
  const InodeNumber directory_;
  const bool after_crash_ = false;
  std::string list_problem_;  ///< what was told last of list(); for refresh() alone

  mutable std::mutex steps_mutex_;  ///< before tree_mutex_
  Steps steps_;
  std::unordered_set<BranchNumber> used_;  ///< all numbers that were ever given to a step
  std::string newest_;
  std::int64_t changed_ns_ = 0;  ///< when the shown steps last changed
  std::function<void(const std::string&)> keep_;

  /// Held for the time of copying a pointer only: every request needs it.
  mutable std::mutex tree_mutex_;
  std::shared_ptr<const Tree> tree_;
};

}  // namespace reshardfs
