// SPDX-License-Identifier: Apache-2.0
#include "modelmap/form_runs.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "reshardfs/error.h"

namespace reshardfs::modelmap {
namespace {

/// Nodes beyond that are made again for each visit, so that hostile boxes cost time, not memory.
constexpr std::size_t kMostKept = std::size_t{4} << 20U;

void append_loop(RunBlock& block, const RunBlock::Loop& loop) {
  if (loop.count == 1) return;
  RunBlock::Loop& last = block.loops.at(block.loop_count - 1);
  if (last.count == 1) {
    last = loop;
  } else if (last.stride == loop.stride * loop.count) {
    last = {last.count * loop.count, loop.stride};
  } else {
    block.loops.at(block.loop_count++) = loop;
  }
}

void visit_runs(const RunBlock& block, std::size_t level, Run& run,
                const RunTree::VisitRun& visit) {
  const RunBlock::Loop& loop = block.loops.at(level);
  if (level + 1 == block.loop_count) {
    run.count = loop.count;
    run.stride = loop.stride;
    visit(run);
    run.target += run.count;
    return;
  }
  const std::int64_t first = run.first;
  for (std::int64_t i = 0; i < loop.count; ++i) {
    run.first = first + i * loop.stride;
    visit_runs(block, level + 1, run, visit);
  }
}

}  // namespace

/// The boxes that contain the indices of the axes before `axis`.
struct RunTree::Node {
  std::size_t axis = 0;
  std::vector<std::uint32_t> boxes{};
  /// Empty if there is one box. Else where intervals of the axis begin, and the end of the last.
  std::vector<std::int64_t> cuts{};
  std::vector<std::uint32_t> first_member{};  ///< of each interval, in `members`, and the end
  std::vector<std::uint32_t> members{};
  mutable std::vector<std::atomic<Node*>> children{};

  Node() = default;
  Node(const Node&) = delete;
  Node& operator=(const Node&) = delete;
  ~Node() {
    for (const std::atomic<Node*>& child : children) delete child.load();
  }
  std::size_t weight() const noexcept {
    return 16 + boxes.size() + 2 * cuts.size() + members.size() + 2 * children.size();
  }
  bool is_single(std::size_t interval) const {
    return first_member[interval + 1] - first_member[interval] == 1;
  }
};

struct RunTree::Walk {
  std::array<std::int64_t, kMaxAxes> indices{};
  std::int64_t target = 0;  ///< the next element to be visited
  const VisitBlock& visit;
};

RunTree::RunTree(std::shared_ptr<const NormalForm> form)
    : form_(std::move(form)), axes_(form_->axes()), behind_(axes_.size()) {
  std::int64_t elements = 1;
  for (std::size_t axis = axes_.size(); axis-- > 0;) {
    behind_[axis] = elements;
    elements *= axes_[axis];
  }
}

RunTree::~RunTree() {
  delete root_.load();
}

std::unique_ptr<RunTree::Node> RunTree::make_node(std::vector<std::uint32_t> boxes,
                                                  std::size_t axis) const {
  auto node = std::make_unique<Node>();
  node->axis = axis;
  node->boxes = std::move(boxes);
  if (node->boxes.size() == 1) return node;
  const auto axis_of = [&](std::uint32_t box) -> const BoxAxis& {
    return form_->boxes[box].axes[axis];
  };
  std::vector<std::int64_t>& cuts = node->cuts;
  for (const std::uint32_t box : node->boxes) {
    cuts.push_back(axis_of(box).begin);
    cuts.push_back(axis_of(box).end);
  }
  std::sort(cuts.begin(), cuts.end());
  cuts.erase(std::unique(cuts.begin(), cuts.end()), cuts.end());
  const auto interval_of = [&](std::int64_t index) {
    return static_cast<std::size_t>(std::lower_bound(cuts.begin(), cuts.end(), index) -
                                    cuts.begin());
  };
  std::vector<std::uint32_t>& first = node->first_member;
  first.resize(cuts.size() + 1);
  const auto each_interval = [&](auto&& use) {
    for (const std::uint32_t box : node->boxes) {
      const std::size_t end = interval_of(axis_of(box).end);
      for (std::size_t i = interval_of(axis_of(box).begin); i < end; ++i) use(i, box);
    }
  };
  each_interval([&](std::size_t interval, std::uint32_t) { ++first[interval + 2]; });
  std::partial_sum(first.begin(), first.end(), first.begin());
  node->members.resize(first.back());
  each_interval(
      [&](std::size_t interval, std::uint32_t box) { node->members[first[interval + 1]++] = box; });
  node->children = std::vector<std::atomic<Node*>>(cuts.size() - 1);
  return node;
}

void RunTree::emit(const Box& box, std::size_t axis, std::int64_t rows, Walk& walk) const {
  RunBlock block;
  block.source = box.source;
  block.first = box.base;
  for (std::size_t a = 0; a < std::min(axis + 1, axes_.size()); ++a) {
    block.first += (walk.indices.at(a) - box.axes[a].begin) * box.axes[a].stride;
  }
  block.target = walk.target;
  block.count = axis < axes_.size() ? rows * behind_[axis] : 1;
  for (std::size_t a = axis; a < axes_.size(); ++a) {
    append_loop(block, {a == axis ? rows : axes_[a], box.axes[a].stride});
  }
  walk.target += block.count;
  walk.visit(block);
}

/// A range of the space of `axis` and those behind it, which the box covers there.
void RunTree::visit_box(const Box& box, std::size_t axis, std::int64_t begin, std::int64_t end,
                        Walk& walk) const {
  if (axis == axes_.size()) return emit(box, axis, 1, walk);
  const std::int64_t behind = behind_[axis];
  while (begin < end) {
    const std::int64_t row = begin / behind;
    walk.indices.at(axis) = row;
    const std::int64_t rows = begin % behind == 0 ? (end - begin) / behind : 0;
    if (rows > 0) {
      emit(box, axis, rows, walk);
      begin += rows * behind;
      continue;
    }
    const std::int64_t stop = std::min(end - row * behind, behind);
    visit_box(box, axis + 1, begin - row * behind, stop, walk);
    begin = row * behind + stop;
  }
}

void RunTree::visit_interval(const Node& node, std::size_t interval, std::int64_t begin,
                             std::int64_t end, Walk& walk) const {
  if (node.is_single(interval)) {
    const Box& box = form_->boxes[node.members[node.first_member[interval]]];
    return visit_box(box, node.axis, begin, end, walk);
  }
  std::atomic<Node*>& slot = node.children[interval];
  Node* child = slot.load(std::memory_order_acquire);
  std::unique_ptr<Node> made;
  if (child == nullptr) {
    const auto members = node.members.begin();
    made = make_node(
        {members + node.first_member[interval], members + node.first_member[interval + 1]},
        node.axis + 1);
    const std::size_t weight = made->weight();
    child = made.get();
    if (kept_.fetch_add(weight) + weight > kMostKept) {
      kept_.fetch_sub(weight);
    } else if (Node* other = nullptr; slot.compare_exchange_strong(other, child)) {
      (void)made.release();  // the tree's from now on
    } else {
      kept_.fetch_sub(weight);
      child = other;
    }
  }
  const std::int64_t behind = behind_[node.axis];
  while (begin < end) {
    const std::int64_t row = begin / behind;
    walk.indices.at(node.axis) = row;
    const std::int64_t stop = std::min(end - row * behind, behind);
    visit_node(*child, begin - row * behind, stop, walk);
    begin = row * behind + stop;
  }
}

void RunTree::visit_node(const Node& node, std::int64_t begin, std::int64_t end, Walk& walk) const {
  if (node.cuts.empty()) {
    return visit_box(form_->boxes[node.boxes[0]], node.axis, begin, end, walk);
  }
  const std::int64_t behind = behind_[node.axis];
  const auto next = std::upper_bound(node.cuts.begin(), node.cuts.end(), begin / behind);
  auto interval = static_cast<std::size_t>(next - node.cuts.begin()) - 1;
  while (begin < end) {
    const std::int64_t last = node.cuts[interval + 1];
    // Of the last index of all, the product may be the number of elements, which fits.
    const std::int64_t stop = std::min(end, last * behind);
    visit_interval(node, interval, begin, stop, walk);
    begin = stop;
    ++interval;
  }
}

void RunTree::for_each_block(std::int64_t begin, std::int64_t end, const VisitBlock& visit) const {
  if (begin < 0 || begin > end || end > form_->elements()) {
    throw Error(ErrorKind::kInternal, "a range of elements leaves the tensor");
  }
  if (begin == end) return;
  Node* root = root_.load(std::memory_order_acquire);
  if (root == nullptr) {
    std::vector<std::uint32_t> boxes(form_->boxes.size());
    std::iota(boxes.begin(), boxes.end(), 0U);
    std::unique_ptr<Node> made = make_node(std::move(boxes), 0);
    if (root_.compare_exchange_strong(root, made.get())) root = made.release();
  }
  Walk walk{{}, begin, visit};
  visit_node(*root, begin, end, walk);
}

void RunTree::for_each_run(std::int64_t begin, std::int64_t end, const VisitRun& visit) const {
  for_each_block(begin, end, [&](const RunBlock& block) {
    Run run{block.source, block.first, 0, 0, block.target};
    visit_runs(block, 0, run, visit);
  });
}

}  // namespace reshardfs::modelmap
