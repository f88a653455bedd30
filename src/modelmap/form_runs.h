// SPDX-License-Identifier: Apache-2.0
/// Reading a tensor in its own order: which elements of which sources a range of it is.
///
/// A tree over the axes: on each axis the boxes that contain the indices so far give the points at
/// which the others begin. Its nodes are made when a read first needs them.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "modelmap/normal_form.h"

namespace reshardfs::modelmap {

/// `count` elements of a source, `stride` elements from one to the next (0: one element again and
/// again); elements [target, target + count) of the tensor.
struct Run {
  std::int64_t source = 0;  ///< a number of the form, or as Box::source of literals
  std::int64_t first = 0;   ///< the first element, or as Box::base of literals
  std::int64_t count = 0;
  std::int64_t stride = 0;
  std::int64_t target = 0;
};

/// Nested loops over one source, for elements [target, target + count) of the tensor in C order.
struct RunBlock {
  struct Loop {
    std::int64_t count = 1;
    std::int64_t stride = 0;  ///< elements of the source
  };

  std::int64_t source = 0;  ///< as of a Run
  std::int64_t first = 0;
  std::int64_t target = 0;
  std::int64_t count = 0;
  /// Outermost first; the innermost is what a Run is. No two of them could be one.
  std::array<Loop, kMaxAxes + 1> loops{};
  std::size_t loop_count = 1;
};

class RunTree {
 public:
  using VisitRun = std::function<void(const Run&)>;
  using VisitBlock = std::function<void(const RunBlock&)>;

  /// Costs nothing until the first visit.
  explicit RunTree(std::shared_ptr<const NormalForm> form);
  RunTree(const RunTree&) = delete;
  RunTree& operator=(const RunTree&) = delete;
  ~RunTree();

  const NormalForm& form() const noexcept { return *form_; }

  /// Calls `visit` for what elements [begin, end) of the tensor are made of, in their order. Any
  /// number of threads may do so at once. Costs O(log boxes) an axis and what is visited; keeps at
  /// most some 40 MiB.
  /// @throws Error kInternal if the range leaves the tensor.
  void for_each_block(std::int64_t begin, std::int64_t end, const VisitBlock& visit) const;
  /// The same by innermost loops.
  void for_each_run(std::int64_t begin, std::int64_t end, const VisitRun& visit) const;

 private:
  struct Node;
  struct Walk;

  std::unique_ptr<Node> make_node(std::vector<std::uint32_t> boxes, std::size_t axis) const;
  void visit_node(const Node& node, std::int64_t begin, std::int64_t end, Walk& walk) const;
  void visit_interval(const Node& node, std::size_t interval, std::int64_t begin, std::int64_t end,
                      Walk& walk) const;
  void visit_box(const Box& box, std::size_t axis, std::int64_t begin, std::int64_t end,
                 Walk& walk) const;
  void emit(const Box& box, std::size_t axis, std::int64_t rows, Walk& walk) const;

  std::shared_ptr<const NormalForm> form_;
  std::vector<std::int64_t> axes_;
  std::vector<std::int64_t> behind_;  ///< elements of one index of each axis
  mutable std::atomic<Node*> root_ = nullptr;
  mutable std::atomic<std::size_t> kept_ = 0;  ///< numbers that the kept nodes hold
};

}  // namespace reshardfs::modelmap
