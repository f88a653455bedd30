// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "reshardfs/error.h"

#include "format/torch/pickle_tree.h"

namespace reshardfs::pickle {

/// Python's pickletools.py has the meanings.
enum Opcode : std::uint8_t {
  kMark = '(',
  kStop = '.',
  kBinFloat = 'G',
  kBinInt = 'J',
  kBinInt1 = 'K',
  kBinInt2 = 'M',
  kNone = 'N',
  kBinPersistentId = 'Q',
  kReduce = 'R',
  kBinUnicode = 'X',
  kAppend = 'a',
  kBuild = 'b',
  kGlobal = 'c',
  kEmptyDict = '}',
  kAppends = 'e',
  kBinGet = 'h',
  kLongBinGet = 'j',
  kEmptyList = ']',
  kBinPut = 'q',
  kLongBinPut = 'r',
  kSetItem = 's',
  kTuple = 't',
  kEmptyTuple = ')',
  kSetItems = 'u',
  kBinBytes = 'B',
  kShortBinBytes = 'C',
  kProto = 0x80,
  kNewObject = 0x81,
  kTuple1 = 0x85,
  kTuple2 = 0x86,
  kTuple3 = 0x87,
  kNewTrue = 0x88,
  kNewFalse = 0x89,
  kLong1 = 0x8a,
  kShortBinUnicode = 0x8c,
  kBinUnicode8 = 0x8d,
  kStackGlobal = 0x93,
  kMemoize = 0x94,
  kFrame = 0x95,
  // Only where all values are taken: see PickleRules.
  kPop = '0',
  kPopMark = '1',
  kDup = '2',
  kBinString = 'T',
  kShortBinString = 'U',
  kObj = 'o',
  kLong4 = 0x8b,
  kBinBytes8 = 0x8e,
  kEmptySet = 0x8f,
  kAddItems = 0x90,
  kFrozenSet = 0x91,
  kNewObjectEx = 0x92,
  kByteArray8 = 0x96,
};

}  // namespace reshardfs::pickle

namespace reshardfs {

/// Fills a tree from its bytes: the machine that Python's unpickler is, without calls.
class PickleReader {
 public:
  PickleReader(PickleTree& tree, const PickleRules& rules);

  /// @throws Error see PickleTree.
  void read();

 private:
  /// Python uses a thousand at a time; other writers may put all into one list.
  static constexpr std::size_t kMostStack = 16'000'000;

  [[noreturn]] void refuse(const std::string& what) const;
  [[noreturn]] void refuse_end(const std::string& what) const;
  /// Whether values that no checkpoint needs are kept as objects.
  bool takes_all() const noexcept { return rules_.allows == nullptr; }
  std::uint64_t take(std::size_t bytes);
  std::pair<std::uint64_t, std::uint64_t> take_stretch(std::size_t length_bytes);
  std::string_view take_line();

  void require(std::size_t values) const;
  void push(PickleValue value) {
    if (stack_.size() == kMostStack) refuse("more values than any table has before they are used");
    stack_.push_back(value);
  }
  PickleValue pop();
  std::size_t pop_mark();

  bool read_constant(std::uint8_t opcode);
  bool read_container(std::uint8_t opcode);
  bool read_object(std::uint8_t opcode);
  bool read_other(std::uint8_t opcode);
  bool read_memo(std::uint8_t opcode);

  void push_text(PickleKind kind, std::size_t length_bytes);
  void push_long();
  void push_tuple(std::size_t count);
  PickleValue new_container(PickleKind kind, bool ordered);
  void append(PickleValue container, std::size_t first);
  PickleValue new_object(PickleKind kind, std::uint32_t maker, PickleValue arguments);
  PickleValue items_of(PickleValue object, PickleKind kind);
  void count_copy();
  bool is_pairs(PickleValue arguments);
  PickleValue dict_of_pairs(PickleValue arguments);
  void push_global(std::string_view module, std::string_view name);
  void call();
  void check_getattr(PickleValue arguments) const;
  void build();
  void add_state(PickleTree::Object& object, PickleValue more);
  void look_for_unneeded(std::uint8_t opcode);
  bool drop(PickleValue container, std::size_t first);
  void put(std::uint64_t number);
  void get(std::uint64_t number);
  unsigned depth_of(PickleValue value) const noexcept;
  /// One more than that of the value; refuses what is too deep.
  std::uint8_t above(unsigned depth) const;
  void count_node() const;
  void keep_last_values();

  PickleTree& tree_;
  const PickleRules& rules_;
  std::string_view bytes_;
  std::size_t at_ = 0;
  std::size_t opcode_at_ = 0;
  std::vector<PickleValue> stack_;
  std::vector<std::size_t> marks_;  ///< heights of the stack
  std::vector<PickleValue> memo_;
  std::vector<bool> is_dict_;  ///< by the number of a container; of those behind, none is
  std::size_t copied_ = 0;     ///< values of dict_of_pairs()
  /// What has numbers that no writer gives, if they are accepted.
  std::unordered_map<std::uint64_t, PickleValue> far_memo_;
  /// Where the list is that is not needed, while its values are read: they are dropped, and all
  /// lists and dictionaries in it are `dummy`.
  struct Dropping {
    std::size_t height = 0;  ///< of the stack with the list on it
    std::size_t marks = 0;
    PickleValue list{};
    std::uint32_t dummy = 0;
  };
  std::optional<Dropping> dropping_;
  bool may_be_unneeded_ = false;  ///< the last value was the text before such a list
  std::map<std::pair<std::string_view, std::string_view>, std::uint32_t> global_numbers_;
};

}  // namespace reshardfs
