// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "unit/vfs/sized_file.h"
#include "vfs/step_tree.h"

namespace reshardfs::testing_vfs {

using namespace std::chrono_literals;
using Names = std::vector<std::string>;

/// A source whose steps a test makes and deletes. A file is as large as its step's name is long.
class Source {
 public:
  StepTree::Callbacks callbacks() {
    return {[this](const std::set<std::string>& open) {
              if (list_error) throw *list_error;
              listed_as_open = {open.begin(), open.end()};
              StepTree::Listing listing;
              for (const std::string& name : names) {
                listing.steps.push_back({name, tells_contents ? name + version : ""});
              }
              listing.has_more = has_more;
              return listing;
            },
            [this](const std::string& step, TreeBuilder& builder) {
              open(step, builder);
              return step + version;
            },
            [this](const std::string& step, const Error& error) {
              reports.push_back(step + ": " + error.what());
            },
            [this] { return now.load(); }};
  }

  Names names;
  bool tells_contents = false;  ///< when it lists its steps
  bool has_more = false;
  Names listed_as_open;  ///< by the tree, at the last list
  std::optional<Error> list_error;
  std::optional<Error> open_error;
  Names opened;
  std::string version;  ///< of what all files hold
  Names reports;
  std::function<void()> while_opening = [] {};
  std::weak_ptr<const VirtualFile> last_file;
  std::atomic<StepTree::Clock::time_point> now{StepTree::Clock::time_point(100s)};

 private:
  void open(const std::string& step, TreeBuilder& builder) {
    const auto file = file_of(step.size());
    {
      const std::lock_guard lock(mutex_);
      opened.push_back(step);
      last_file = file;
    }
    while_opening();
    if (open_error) throw *open_error;
    builder.add_file("rank_0/a", file);
    builder.set_mtime(42);
  }

  std::mutex mutex_;
};

class StepTreeTest : public testing::Test {
 protected:
  std::unique_ptr<StepTree> make(Names names) {
    source.names = std::move(names);
    return std::make_unique<StepTree>(source.callbacks());
  }

  static Names shown(const StepTree& steps) {
    const auto tree = steps.current();
    return child_names(*tree, *resolve(*tree, {"steps"}));
  }
  static InodeNumber number(const StepTree& steps, const Names& names) {
    const auto tree = steps.current();
    const Node* node = resolve(*tree, names);
    return node == nullptr ? 0 : node->inode;
  }
  static std::string latest(const StepTree& steps) {
    const auto tree = steps.current();
    const Node* node = resolve(*tree, {"latest"});
    return std::string(node == nullptr ? std::string_view() : node->link);
  }
  static void open(StepTree& steps, const std::string& step) {
    steps.open_directory(number(steps, {"steps", step}));
  }

  Source source;
};

}  // namespace reshardfs::testing_vfs
