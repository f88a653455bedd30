// SPDX-License-Identifier: Apache-2.0
/// Reads Python's pickles as data. A pickle is a program that builds objects by calling functions.
/// Here nothing is called: each object becomes a node with the name of its function or class, the
/// arguments and the state.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "reshardfs/error.h"

namespace reshardfs {

enum class PickleKind : std::uint8_t {
  kUnset,  ///< no value
  kNone,
  kBool,
  kInt,
  kWideInt,  ///< more than 60 bits, but a 64-bit number
  kHugeInt,  ///< more than that; its value is not kept
  kFloat,    ///< where its bytes are
  kText,     ///< UTF-8, perhaps with surrogates
  kBytes,
  kTuple,
  kList,
  kDict,
  kGlobal,
  kObject,
  kPersistent,  ///< what stands for something outside of the pickle, by its id
};

/// A value of a tree, which owns what belongs to it. Of large pickles there are tens of millions.
class PickleValue {
 public:
  constexpr PickleValue() noexcept = default;
  constexpr PickleValue(PickleKind kind, std::uint64_t payload) noexcept
      : bits_(payload << kTagBits | static_cast<std::uint64_t>(kind)) {}

  constexpr PickleKind kind() const noexcept { return static_cast<PickleKind>(bits_ & kTagMask); }
  constexpr bool is(PickleKind wanted) const noexcept { return kind() == wanted; }
  constexpr std::uint64_t payload() const noexcept { return bits_ >> kTagBits; }
  constexpr bool operator==(const PickleValue&) const noexcept = default;

 private:
  static constexpr unsigned kTagBits = 4;
  static constexpr std::uint64_t kTagMask = 15;
  std::uint64_t bits_ = 0;
};

struct PickleGlobal {
  std::string_view module;
  std::string_view name;

  bool operator==(const PickleGlobal&) const = default;
};

/// What a pickle of one kind may contain.
struct PickleRules {
  /// Whether a global may be there at all; nullptr: any may, and what Python's unpickler accepts in
  /// protocols 2 to 5 is accepted: objects of unknown classes become nodes like all others.
  bool (*allows)(const PickleGlobal& global) = nullptr;
  bool persistent_ids = false;
  /// In the top-level dictionary, the list under this key is checked but left empty in the tree: it
  /// is not needed, and may be larger than everything else. Empty: there is no such key.
  std::string_view unneeded{};
};

/// Thrown where a pickle ends before its last opcode.
class PickleCutOff : public Error {
 public:
  using Error::Error;
};

/// A pickle that was read. Values may be shared, and lists and dictionaries may contain themselves,
/// so callers must follow only paths of fixed length.
class PickleTree {
 public:
  /// Values in values, and marks in marks.
  static constexpr unsigned kMaxDepth = 64;

  /// Reads protocols 2 to 5. Time and memory are proportional to the length.
  /// @throws Error kBadInput with the offset of the first thing that is not allowed or impossible;
  ///         PickleCutOff if it is truncated.
  PickleTree(std::string bytes, const PickleRules& rules);

  PickleValue root() const noexcept { return root_; }
  /// Bytes that were given; the pickle may be followed by others.
  std::size_t size() const noexcept { return bytes_.size(); }
  /// Bytes of the pickle itself.
  std::size_t consumed() const noexcept { return consumed_; }
  /// The number of its objects of classes.
  std::size_t objects() const noexcept { return objects_.size(); }

  /// Nothing if it is no integer of 64 bits; booleans are none.
  std::optional<std::int64_t> integer(PickleValue value) const noexcept;
  /// Nothing if it is no truth value.
  std::optional<bool> boolean(PickleValue value) const noexcept;
  /// Nothing if it is no text. It lives as long as the tree, as all that follows.
  std::optional<std::string_view> text(PickleValue value) const noexcept;
  /// None if it is no tuple.
  std::span<const PickleValue> tuple(PickleValue value) const noexcept;
  /// Elements of a list, or keys and values of a dictionary; 0 for other values.
  std::size_t count(PickleValue value) const noexcept;
  std::optional<PickleGlobal> global(PickleValue value) const noexcept;
  /// Of an object: what is called to make it. Nothing for other values.
  std::optional<PickleGlobal> maker(PickleValue value) const noexcept;
  /// The arguments of an object, or the id that stands for something; kUnset for other values.
  PickleValue arguments(PickleValue value) const noexcept;
  /// The state of an object, kUnset if it has none.
  PickleValue state(PickleValue value) const noexcept;
  /// The list or dictionary that an object also is, because its class is derived from one of them;
  /// kUnset if nothing was added to it, and for other values.
  PickleValue items(PickleValue object) const noexcept;
  /// Calls visit(value) for each value that is a persistent id, in the order of the pickle.
  template <typename Visit>
  void for_each_persistent(Visit&& visit) const {
    for (std::size_t i = 0; i < objects_.size(); ++i) {
      if (objects_[i].maker == kPersistentMaker) visit(PickleValue(PickleKind::kPersistent, i));
    }
  }

  /// Calls visit(value) for the elements of a list until it returns false. None of other values.
  template <typename Visit>
  void for_each(PickleValue list, Visit&& visit) const {
    if (!list.is(PickleKind::kList)) return;
    visit_segments(list, [&](std::span<const PickleValue> part) {
      for (const PickleValue value : part) {
        if (!visit(value)) return false;
      }
      return true;
    });
  }
  /// Calls visit(key, value) for a dictionary, in its order, until it returns false. Of a key that
  /// the pickle sets several times, the last value is visited.
  template <typename Visit>
  void for_each_pair(PickleValue dict, Visit&& visit) const {
    if (!dict.is(PickleKind::kDict)) return;
    visit_segments(dict, [&](std::span<const PickleValue> part) {
      for (std::size_t i = 0; i + 1 < part.size(); i += 2) {
        if (!visit(part[i], part[i + 1])) return false;
      }
      return true;
    });
  }
  /// The value of a text in a dictionary; kUnset if there is none.
  PickleValue find(PickleValue dict, std::string_view key) const noexcept;

 private:
  friend class PickleReader;

  static constexpr std::uint32_t kNoNode = 0xffffffff;
  // In place of a number in globals_.
  static constexpr std::uint32_t kPersistentMaker = 0xffffffff;
  static constexpr std::uint32_t kUnknownMaker = 0xfffffffe;
  /// A list or a dictionary, or what was added to one later.
  struct Container {
    std::uint64_t first = 0;  ///< in values_
    std::uint32_t count = 0;
    std::uint32_t next = kNoNode;
    std::uint32_t last = kNoNode;  ///< of the first one: where to add; kNoNode: itself
    std::uint8_t depth = 1;
    bool ordered = false;  ///< an OrderedDict, which may have a state
    bool built = false;
  };
  struct Object {
    std::uint32_t maker = 0;  ///< in globals_
    std::uint8_t depth = 1;
    PickleValue arguments{};
    PickleValue state{};
  };

  template <typename Visit>
  void visit_segments(PickleValue container, Visit&& visit) const {
    auto node = static_cast<std::uint32_t>(container.payload());
    while (node != kNoNode) {
      const Container& part = containers_[node];
      if (!visit(std::span(values_).subspan(part.first, part.count))) return;
      node = part.next;
    }
  }

  std::string bytes_;
  std::vector<PickleValue> values_;  ///< those in tuples, lists and dictionaries
  std::vector<Container> containers_;
  std::vector<Object> objects_;
  std::vector<PickleGlobal> globals_;
  std::vector<std::int64_t> wide_;
  std::unordered_map<std::uint64_t, PickleValue> items_;  ///< by the number in objects_
  PickleValue root_;
  std::size_t consumed_ = 0;
};

/// "torch.Size"
std::string to_string(const PickleGlobal& global);
/// For messages: "a list".
std::string_view kind_words(PickleKind kind) noexcept;

}  // namespace reshardfs
