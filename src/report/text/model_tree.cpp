// SPDX-License-Identifier: Apache-2.0
#include "report/text/model_tree.h"

#include <algorithm>
#include <bitset>
#include <deque>
#include <functional>
#include <map>
#include <memory_resource>
#include <optional>
#include <set>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "reshardfs/error.h"

namespace reshardfs {
namespace {

/// What lies deeper is one segment: no name makes a tree that cannot be walked.
constexpr std::size_t kDeepest = 24;
constexpr std::size_t kShownRanges = 4;
/// Names that end in a number by chance ("w1", "w3") are not to be torn apart.
constexpr std::size_t kFewestNamed = 3;
constexpr std::size_t kMostDigits = 18;
constexpr std::size_t kTypes = static_cast<std::size_t>(DType::kComplex64) + 1;

bool is_separator(char c) {
  return c == '.' || c == '/';
}

/// Where the segment that begins at `begin` ends. It has the separators before it.
std::size_t segment_end(std::string_view name, std::size_t begin) {
  std::size_t at = begin;
  while (at < name.size() && is_separator(name[at])) ++at;
  while (at < name.size() && !is_separator(name[at])) ++at;
  return at;
}

/// A segment's last number, and what is around it.
struct Numbered {
  std::string_view before;
  std::string_view digits;
  std::string_view after;
  std::uint64_t number = 0;
};

std::optional<Numbered> numbered(std::string_view segment) {
  constexpr std::string_view kDigits = "0123456789";
  const std::size_t last = segment.find_last_of(kDigits);
  if (last == std::string_view::npos) return std::nullopt;
  const std::size_t other = segment.find_last_not_of(kDigits, last);
  const std::size_t first = other == std::string_view::npos ? 0 : other + 1;
  Numbered result{segment.substr(0, first), segment.substr(first, last + 1 - first),
                  segment.substr(last + 1)};
  if (result.digits.size() > kMostDigits) return std::nullopt;
  for (const char digit : result.digits) {
    result.number = result.number * 10 + static_cast<std::uint64_t>(digit - '0');
  }
  return result;
}

constexpr std::uint32_t kNoTensor = UINT32_MAX;

/// A node before anything is folded.
struct NameNode {
  std::string_view text;  ///< with the separators before it
  std::size_t depth = 0;
  std::vector<std::size_t> children{};     ///< behind it in the list
  std::uint32_t first_tensor = kNoTensor;  ///< its own, in the order of the parameters
  std::uint32_t last_tensor = kNoTensor;
  std::uint64_t parameters = 0;
  std::uint64_t elements = 0;
  std::uint64_t bytes = 0;
  std::bitset<kTypes> dtypes{};
  std::size_t structure = 0;  ///< the same number: the same below it
};

/// What is the same of tensors that look alike.
struct Content {
  const ModelTensor* of;

  bool operator<(const Content& other) const {
    const auto members = [](const ModelTensor& tensor) {
      return std::tie(tensor.dtype, tensor.shape, tensor.bytes, tensor.copies, tensor.ranks);
    };
    return members(*of) < members(*other.of);
  }
};

/// The numbers of the contents of a node, and the names and numbers of its children.
using Structure =
    std::pair<std::vector<std::size_t>, std::vector<std::pair<std::string_view, std::size_t>>>;

/// Names to segments; 0 is the root.
class NameNodes {
 public:
  explicit NameNodes(std::span<const ModelTensor> tensors)
      : tensors_(tensors), next_(tensors.size(), kNoTensor) {
    list_.emplace_back();
    for (std::uint32_t i = 0; i < tensors.size(); ++i) {
      NameNode& node = list_[find(tensors[i].name)];
      (node.first_tensor == kNoTensor ? node.first_tensor : next_[node.last_tensor]) = i;
      node.last_tensor = i;
    }
    separate_own_tensors();
    for (std::size_t i = list_.size(); i-- > 0;) {
      sum_up(list_[i]);
      if (i > 0) list_[i].structure = structure_of(list_[i]);
    }
  }

  const NameNode& operator[](std::size_t i) const { return list_[i]; }
  /// Calls visit() with each tensor of its own.
  template <typename Visit>
  void for_each_tensor(const NameNode& node, Visit&& visit) const {
    for (std::uint32_t i = node.first_tensor; i != kNoTensor; i = next_[i]) visit(tensors_[i]);
  }

 private:
  /// A child of a node that has many.
  struct ChildKey {
    std::size_t parent = 0;
    std::string_view text{};
    bool operator==(const ChildKey&) const = default;
  };
  struct HashOfChild {
    std::size_t operator()(const ChildKey& key) const noexcept {
      constexpr std::size_t kSpread = 0x9E3779B97F4A7C15;
      return std::hash<std::string_view>()(key.text) ^ (key.parent * kSpread);
    }
  };
  /// Most nodes have one child, or a few: these are looked through.
  static constexpr std::size_t kFew = 8;

  std::size_t find(std::string_view name) {
    std::size_t node = 0;
    for (std::size_t begin = 0; begin < name.size();) {
      const bool deepest = list_[node].depth + 1 == kDeepest;
      const std::size_t end = deepest ? name.size() : segment_end(name, begin);
      node = child_of(node, name.substr(begin, end - begin));
      begin = end;
    }
    return node;
  }

  std::size_t child_of(std::size_t node, std::string_view text) {
    const std::vector<std::size_t>& children = list_[node].children;
    const auto has_text = [&](std::size_t child) { return list_[child].text == text; };
    if (children.size() <= kFew) {
      const auto found = std::find_if(children.rbegin(), children.rend(), has_text);
      if (found != children.rend()) return *found;
    } else {
      // Most names go on as the one before.
      if (has_text(children.back())) return children.back();
      const auto found = by_text_.find({node, text});
      if (found != by_text_.end()) return found->second;
    }
    append(node, text);
    const std::size_t first = children.size() == kFew + 1 ? 0 : children.size() - 1;
    for (std::size_t i = first; i < children.size() && children.size() > kFew; ++i) {
      by_text_.emplace(ChildKey{node, list_[children[i]].text}, children[i]);
    }
    return children.back();
  }

  void append(std::size_t parent, std::string_view text) {
    list_[parent].children.push_back(list_.size());
    NameNode& segment = list_.emplace_back(NameNode{text});
    segment.depth = list_[parent].depth + 1;
  }

  /// A parameter whose name others begin with becomes a child of that name.
  void separate_own_tensors() {
    const std::size_t count = list_.size();
    for (std::size_t i = 0; i < count; ++i) {
      if (list_[i].first_tensor == kNoTensor || (i > 0 && list_[i].children.empty())) continue;
      append(i, "");
      list_.back().first_tensor = std::exchange(list_[i].first_tensor, kNoTensor);
      list_.back().last_tensor = std::exchange(list_[i].last_tensor, kNoTensor);
    }
  }

  void sum_up(NameNode& segment) const {
    segment.parameters = segment.first_tensor == kNoTensor ? 0 : 1;
    for_each_tensor(segment, [&](const ModelTensor& tensor) {
      const std::int64_t elements = is_array(tensor.dtype) ? element_count(tensor.shape) : 0;
      segment.elements += static_cast<std::uint64_t>(elements) * tensor.copies;
      segment.bytes += tensor.bytes * tensor.copies;
      segment.dtypes.set(static_cast<std::size_t>(tensor.dtype));
    });
    for (const std::size_t child : segment.children) {
      segment.parameters += list_[child].parameters;
      segment.elements += list_[child].elements;
      segment.bytes += list_[child].bytes;
      segment.dtypes |= list_[child].dtypes;
    }
  }

  std::size_t content_of(const ModelTensor& tensor) {
    return contents_.try_emplace(Content{&tensor}, contents_.size()).first->second;
  }

  /// The number of what is in it and below it.
  std::size_t structure_of(const NameNode& segment) {
    // Most nodes have one tensor and nothing below them.
    const bool is_one = segment.children.empty() && segment.first_tensor == segment.last_tensor &&
                        segment.first_tensor != kNoTensor;
    if (!is_one) return number_of(segment);
    const std::size_t content = content_of(tensors_[segment.first_tensor]);
    if (content >= of_one_.size()) of_one_.resize(content + 1);
    std::optional<std::size_t>& known = of_one_[content];
    if (!known) known = number_of(segment);
    return *known;
  }

  std::size_t number_of(const NameNode& segment) {
    Structure all{{}, {}};
    for_each_tensor(segment,
                    [&](const ModelTensor& tensor) { all.first.push_back(content_of(tensor)); });
    for (const std::size_t child : segment.children) {
      all.second.emplace_back(list_[child].text, list_[child].structure);
    }
    const auto next = structures_.size();
    return structures_.try_emplace(std::move(all), next).first->second;
  }

  std::span<const ModelTensor> tensors_;
  std::vector<std::uint32_t> next_;  ///< of a tensor, that of the same node
  std::deque<NameNode> list_;
  std::pmr::monotonic_buffer_resource memory_;  // of what goes all at once
  std::pmr::unordered_map<ChildKey, std::size_t, HashOfChild> by_text_{&memory_};
  std::map<Content, std::size_t> contents_;
  std::map<Structure, std::size_t> structures_;
  std::vector<std::optional<std::size_t>> of_one_;  ///< by content: of a node of one tensor
};

/// Siblings that are shown as one.
struct NameFamily {
  std::vector<std::size_t> members;  ///< in the order of the parameters
  std::string label;                 ///< with the separators before it
};

class Folding {
 public:
  explicit Folding(const NameNodes& segments) : segments_(segments) {}

  /// @param factor nodes like this one that are shown as one.
  TreeNode fold(std::size_t number, std::string label, std::uint64_t factor) const {
    const NameNode& segment = segments_[number];
    TreeNode node;
    node.label = std::move(label);
    node.parameters = segment.parameters * factor;
    node.elements = segment.elements * factor;
    node.bytes = segment.bytes * factor;
    for (std::size_t i = 0; i < segment.dtypes.size(); ++i) {
      if (segment.dtypes[i]) node.dtypes.push_back(static_cast<DType>(i));
    }
    segments_.for_each_tensor(segment, [&](const ModelTensor& tensor) {
      node.tensors += tensor.copies * factor;
      const bool known =
          std::find(node.shapes.begin(), node.shapes.end(), tensor.shape) != node.shapes.end();
      if (!known) node.shapes.push_back(tensor.shape);
    });
    for (const NameFamily& family : families(segment)) {
      const std::uint64_t size = family.members.size();
      node.children.push_back(fold(family.members.front(), family.label, factor * size));
      node.children.back().repeated *= size;
    }
    node.ranks = ranks_of(segment, node.children);
    if (number != 0 && node.children.size() == 1) join_child(node);
    return node;
  }

 private:
  static void join_child(TreeNode& node) {
    TreeNode child = std::move(node.children.front());
    child.label = node.label + child.label;
    node = std::move(child);
  }

  std::string ranks_of(const NameNode& segment, const std::vector<TreeNode>& children) const {
    std::set<std::string> all;
    segments_.for_each_tensor(segment,
                              [&](const ModelTensor& tensor) { all.insert(tensor.ranks); });
    for (const TreeNode& child : children) all.insert(child.ranks);
    return all.size() == 1 ? *all.begin() : std::string();
  }

  std::vector<NameFamily> families(const NameNode& segment) const {
    const auto padded = padded_numbers(segment);
    // What is around the number, the digits if there may be zeros in front, what is below.
    using Key = std::tuple<std::string_view, std::string_view, std::size_t, std::size_t>;
    std::map<Key, std::vector<std::size_t>> alike;
    const auto key_of = [&](std::size_t child, const Numbered& name) {
      const bool zeros = padded.contains({name.before, name.after});
      return Key{name.before, name.after, zeros ? name.digits.size() : 0,
                 segments_[child].structure};
    };
    for (const std::size_t child : segment.children) {
      const auto name = numbered(segments_[child].text);
      if (name) alike[key_of(child, *name)].push_back(child);
    }
    std::vector<NameFamily> families;
    for (const std::size_t child : segment.children) {
      const std::string_view text = segments_[child].text;
      const auto name = numbered(text);
      if (!name) {
        families.push_back({{child}, std::string(text)});
        continue;
      }
      const Key key = key_of(child, *name);
      const auto& members = alike.at(key);
      if (!is_family(*name, members.size())) {
        families.push_back({{child}, std::string(text)});
      } else if (members.front() == child) {
        families.push_back({members, label(*name, members, std::get<2>(key))});
      }
    }
    return families;
  }

  /// What numbers with a leading zero have around them: of these only equally long ones fit.
  std::set<std::pair<std::string_view, std::string_view>> padded_numbers(
      const NameNode& segment) const {
    std::set<std::pair<std::string_view, std::string_view>> padded;
    for (const std::size_t child : segment.children) {
      const auto name = numbered(segments_[child].text);
      if (name && name->digits.size() > 1 && name->digits.front() == '0') {
        padded.emplace(name->before, name->after);
      }
    }
    return padded;
  }

  static bool is_family(const Numbered& name, std::size_t members) {
    const bool number_alone =
        std::all_of(name.before.begin(), name.before.end(), is_separator) && name.after.empty();
    return members >= (number_alone ? 2 : kFewestNamed);
  }

  std::string label(const Numbered& name, const std::vector<std::size_t>& members,
                    std::size_t digits) const {
    std::vector<std::uint64_t> numbers;
    for (const std::size_t member : members) {
      numbers.push_back(numbered(segments_[member].text)->number);
    }
    std::sort(numbers.begin(), numbers.end());
    return fmt::format("{}{}{}", name.before, number_set(numbers, digits), name.after);
  }

  const NameNodes& segments_;
};

/// What a line needs no separator for: its parent is above it.
std::string shown_label(const std::string& label, bool below_root) {
  const bool plain = label.size() > 1 && is_separator(label[0]) && !is_separator(label[1]);
  return printable(plain && !below_root ? label.substr(1) : label);
}

void finish_labels(TreeNode& node, bool is_root) {
  for (TreeNode& child : node.children) {
    child.label = child.label.empty() ? "(itself)" : shown_label(child.label, is_root);
    finish_labels(child, false);
  }
}

}  // namespace

std::string number_set(std::span<const std::uint64_t> numbers, std::size_t digits) {
  std::vector<std::string> ranges;
  for (std::size_t i = 0; i < numbers.size();) {
    std::size_t end = i + 1;
    while (end < numbers.size() && numbers[end] == numbers[end - 1] + 1) ++end;
    if (end - i >= 3) {
      ranges.push_back(fmt::format("{:0{}}..{:0{}}", numbers[i], digits, numbers[end - 1], digits));
    } else {
      for (std::size_t k = i; k < end; ++k) {
        ranges.push_back(fmt::format("{:0{}}", numbers[k], digits));
      }
    }
    i = end;
  }
  if (ranges.size() > kShownRanges) {
    ranges.erase(ranges.begin() + 2, ranges.end() - 1);
    ranges.insert(ranges.begin() + 2, "...");
  }
  return fmt::format("{{{}}}", fmt::join(ranges, ","));
}

TreeNode model_tree(std::span<const ModelTensor> tensors) {
  const NameNodes segments(tensors);
  TreeNode root = Folding(segments).fold(0, "", 1);
  finish_labels(root, true);
  return root;
}

}  // namespace reshardfs
