// SPDX-License-Identifier: Apache-2.0
#include "format/torch/torch_save.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "reshardfs/error.h"

#include "base/text/utf8.h"
#include "format/name_limit.h"
#include "format/torch/pickle_globals.h"

namespace reshardfs {
namespace {

constexpr std::array<std::string_view, 4> kWrappers{"model", "state_dict", "module",
                                                    "model_state_dict"};
/// Names for each tensor of the pickle: a dictionary may stand under several keys.
constexpr std::size_t kNamesATensor = 16;
constexpr std::size_t kFreeNames = 1024;
constexpr std::size_t kFreeNameBytes = 16ULL << 20U;

/// Names of classes may be of any length, and stand for many values.
std::string shortened(std::string words) {
  constexpr std::size_t kMost = 400;
  if (words.size() <= kMost) return words;
  words.resize(kMost);
  return printable(words + "...");
}

class SavedReader {
 public:
  SavedReader(const TorchArchive& archive, const TorchSaveRules& rules)
      : archive_(archive), tree_(archive.tree()), rules_(rules) {}

  TorchSave read() {
    const PickleValue root = tree_.root();
    most_names_ = kFreeNames + kNamesATensor * tree_.objects();
    const bool is_container =
        root.is(PickleKind::kDict) || root.is(PickleKind::kList) || root.is(PickleKind::kTuple);
    if (!has_tensors(root, 0)) {
      if (!rules_.may_lack_tensors) refuse_root(root);
      if (!is_container) {
        out_.beside.values.push_back({"", shortened(words_of(root))});
        return std::move(out_);
      }
    }
    if (archive_.is_tensor(root)) {
      out_.is_lone = true;
      add_tensor(root, kLoneTensor);
    } else {
      visit_elements(root, "", 0);
      find_wrappers(root);
    }
    refuse_twins();
    return std::move(out_);
  }

 private:
  [[noreturn]] void refuse_root(PickleValue root) const {
    Error error(ErrorKind::kUnsupported, "has no tensor, but " + words_of(root));
    error.in_file(archive_.source().name());
    if (root.is(PickleKind::kObject)) {
      error.hint("load it with PyTorch, and save what its state_dict() returns");
    }
    throw error;
  }

  [[noreturn]] void refuse_depth() const {
    throw Error(ErrorKind::kBadInput, "has values in more than 64 others, or in themselves")
        .in_file(archive_.source().name());
  }

  /// A list, dictionary or tuple, or an object of a class that is derived from them.
  PickleValue container_of(PickleValue value) const {
    if (!value.is(PickleKind::kObject)) return value;
    return archive_.is_tensor(value) ? PickleValue() : tree_.items(value);
  }

  std::string words_of(PickleValue value) const {
    const auto maker = tree_.maker(value);
    if (maker) return class_words(value, *maker);
    return std::string(kind_words(value.kind()));
  }

  /// A call of copyreg tells the class as its first argument.
  std::string class_words(PickleValue value, const PickleGlobal& maker) const {
    const auto arguments = tree_.tuple(tree_.arguments(value));
    const bool is_indirect = maker.module == "copyreg" || maker.module == "copy_reg";
    const auto type = is_indirect && !arguments.empty() ? tree_.global(arguments[0]) : std::nullopt;
    return "an object of " + printable(to_string(type.value_or(maker)));
  }

  /// Calls visit(key, element) for what is directly in a container.
  template <typename Visit>
  void for_each_element(PickleValue container, Visit&& visit) const {
    if (container.is(PickleKind::kDict)) {
      tree_.for_each_pair(container, [&](PickleValue key, PickleValue element) {
        visit(std::optional(key), element);
        return true;
      });
    } else if (container.is(PickleKind::kList)) {
      tree_.for_each(container, [&](PickleValue element) {
        visit(std::optional<PickleValue>(), element);
        return true;
      });
    } else {
      for (const PickleValue element : tree_.tuple(container)) {
        visit(std::optional<PickleValue>(), element);
      }
    }
  }

  /// Each value is looked at once, however often others refer to it.
  bool has_tensors(PickleValue value, std::size_t depth) {
    if (depth > PickleTree::kMaxDepth) refuse_depth();
    if (archive_.is_tensor(value)) return true;
    const PickleValue container = container_of(value);
    const bool is_container = container.is(PickleKind::kDict) || container.is(PickleKind::kList) ||
                              container.is(PickleKind::kTuple);
    if (!is_container) return false;
    const std::uint64_t key = container.payload() << 4U | static_cast<unsigned>(container.kind());
    const auto [known, is_new] = known_.emplace(key, false);
    if (!is_new) return known->second;
    bool has = false;
    for_each_element(container, [&](std::optional<PickleValue>, PickleValue element) {
      has = has_tensors(element, depth + 1) || has;
    });
    known_[key] = has;
    return has;
  }

  /// Names may repeat long keys as often as values are shared.
  void count_name(const std::string& name) {
    name_bytes_ += name.size();
    if (name.size() > kMaxParameterName || name_bytes_ > kFreeNameBytes + 4 * tree_.size()) {
      throw Error(ErrorKind::kBadInput,
                  "has names of values that are too long, or too many of them")
          .in_file(archive_.source().name());
    }
    if (++names_ <= most_names_) return;
    throw Error(ErrorKind::kBadInput,
                "its values refer to each other so often that they have more than " +
                    std::to_string(most_names_) + " names")
        .in_file(archive_.source().name());
  }

  void visit(PickleValue value, std::string name, std::size_t depth) {
    count_name(name);
    if (archive_.is_tensor(value)) return add_tensor(value, std::move(name));
    if (has_tensors(value, depth)) return visit_elements(value, name, depth + 1);
    out_.beside.values.push_back({std::move(name), shortened(words_of(value))});
  }

  void visit_elements(PickleValue value, const std::string& name, std::size_t depth) {
    if (depth > PickleTree::kMaxDepth) refuse_depth();
    std::size_t position = 0;
    for_each_element(container_of(value), [&](std::optional<PickleValue> key, PickleValue element) {
      const std::string last = key ? key_text(*key) : std::to_string(position++);
      visit(element, name.empty() ? last : name + "." + last, depth);
    });
  }

  /// What Python's str() gives for texts, integers and booleans; else what kind of value it is.
  std::string key_text(PickleValue key) const {
    if (const auto text = tree_.text(key)) return std::string(*text);
    if (const auto number = tree_.integer(key)) return std::to_string(*number);
    if (const auto truth = tree_.boolean(key)) return *truth ? "True" : "False";
    return "(" + words_of(key) + ")";
  }

  void add_tensor(PickleValue value, std::string name) {
    if (!is_utf8(name)) {
      out_.refused.push_back({printable(name), "its name is not UTF-8"});
      return;
    }
    try {
      if (is_dtensor(tree_, value)) return add_part(value, name);
      TorchTensor tensor = archive_.tensor(value);
      tensor.name = std::move(name);
      out_.tensors.push_back(std::move(tensor));
    } catch (const Error& error) {
      const ErrorKind kind = error.kind();
      if (kind != ErrorKind::kBadInput && kind != ErrorKind::kUnsupported) throw;
      out_.refused.push_back({std::move(name), shortened(error.message())});
    }
  }

  void add_part(PickleValue value, const std::string& name) {
    if (rules_.dtensors == DTensors::kRefused) {
      throw Error(ErrorKind::kUnsupported,
                  "it is one process's part of a DTensor; name the directory with the files of all "
                  "ranks as the source");
    }
    DTensorPart part = read_dtensor(tree_, value, meshes_);
    if (rules_.check_part) rules_.check_part(name, part);
    if (part.local.is(PickleKind::kUnset)) return;
    TorchTensor local = archive_.tensor(part.local);
    if (local.shape != part.place.sizes) {
      throw Error(ErrorKind::kBadInput, "it is a DTensor whose part should be " +
                                            to_string(part.place.sizes) +
                                            " by its placements, but is " + to_string(local.shape));
    }
    local.name = name;
    out_.places.emplace(out_.tensors.size(), std::move(part.place));
    out_.tensors.push_back(std::move(local));
  }

  /// {"a.b": x, "a": {"b": y}} has two tensors of one name.
  void refuse_twins() {
    std::unordered_map<std::string_view, std::size_t> count;
    for (const TorchTensor& tensor : out_.tensors) ++count[tensor.name];
    for (const RefusedTensor& tensor : out_.refused) ++count[tensor.name];
    std::unordered_set<std::string> twins;
    for (const auto& [name, times] : count) {
      if (times > 1) twins.emplace(name);
    }
    if (twins.empty()) return;
    erase_tensors(twins);
    std::erase_if(out_.refused,
                  [&](const RefusedTensor& tensor) { return twins.contains(tensor.name); });
    for (const std::string& name : twins) {
      out_.refused.push_back({name, "two values have this name"});
    }
    std::sort(out_.refused.begin(), out_.refused.end(),
              [](const auto& a, const auto& b) { return a.name < b.name; });
  }

  void erase_tensors(const std::unordered_set<std::string>& names) {
    std::vector<TorchTensor> kept;
    std::unordered_map<std::size_t, DTensorPlace> places;
    for (std::size_t i = 0; i < out_.tensors.size(); ++i) {
      if (names.contains(out_.tensors[i].name)) continue;
      const auto place = out_.places.find(i);
      if (place != out_.places.end()) places.emplace(kept.size(), std::move(place->second));
      kept.push_back(std::move(out_.tensors[i]));
    }
    out_.tensors = std::move(kept);
    out_.places = std::move(places);
  }

  void find_wrappers(PickleValue root) {
    for_each_element(container_of(root), [&](std::optional<PickleValue> key, PickleValue element) {
      const auto text = key ? tree_.text(*key) : std::nullopt;
      if (text && is_model_key(*text) && !archive_.is_tensor(element) && has_tensors(element, 0)) {
        out_.beside.wrappers.emplace_back(*text);
      }
    });
  }

  const TorchArchive& archive_;
  const PickleTree& tree_;
  const TorchSaveRules& rules_;
  DTensorMeshes meshes_;
  std::unordered_map<std::uint64_t, bool> known_;  ///< whether a container has tensors
  std::size_t names_ = 0;
  std::size_t name_bytes_ = 0;
  std::size_t most_names_ = 0;
  TorchSave out_;
};

}  // namespace

bool is_model_key(std::string_view key) noexcept {
  return std::find(kWrappers.begin(), kWrappers.end(), key) != kWrappers.end();
}

TorchSave read_torch_save(const TorchArchive& archive, const TorchSaveRules& rules) {
  return SavedReader(archive, rules).read();
}

}  // namespace reshardfs
