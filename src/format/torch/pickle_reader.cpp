// SPDX-License-Identifier: Apache-2.0
#include "format/torch/pickle_reader.h"

#include <algorithm>
#include <array>

#include "format/torch/pickle_layout.h"

namespace reshardfs {
using namespace pickle;

namespace {

/// Opcodes of Python that no checkpoint needs, for messages.
constexpr std::array<std::pair<std::uint8_t, std::string_view>, 28> kRefused{{
    {'0', "POP"},         {'1', "POP_MARK"},
    {'2', "DUP"},         {'F', "FLOAT"},
    {'I', "INT"},         {'L', "LONG"},
    {'P', "PERSID"},      {'S', "STRING"},
    {'T', "BINSTRING"},   {'U', "SHORT_BINSTRING"},
    {'V', "UNICODE"},     {'d', "DICT"},
    {'g', "GET"},         {'i', "INST"},
    {'l', "LIST"},        {'o', "OBJ"},
    {'p', "PUT"},         {0x82, "EXT1"},
    {0x83, "EXT2"},       {0x84, "EXT4"},
    {0x8b, "LONG4"},      {0x8e, "BINBYTES8"},
    {0x8f, "EMPTY_SET"},  {0x90, "ADDITEMS"},
    {0x91, "FROZENSET"},  {0x92, "NEWOBJ_EX"},
    {0x96, "BYTEARRAY8"}, {0x97, "NEXT_BUFFER"},
}};

std::string opcode_words(std::uint8_t opcode) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string words = "the opcode 0x";
  words += kDigits[opcode >> 4U];
  words += kDigits[opcode & 15U];
  for (const auto& [code, name] : kRefused) {
    if (code == opcode) words += " (" + std::string(name) + ")";
  }
  return words;
}

bool is_getattr(const PickleGlobal& global) {
  return global.name == "getattr" &&
         (global.module == "builtins" || global.module == "__builtin__");
}

constexpr PickleGlobal kOrderedDict{"collections", "OrderedDict"};

constexpr std::size_t kBytesANode = 5;
/// What is kept in the memo takes at least its own opcode and that which keeps it.
constexpr std::size_t kBytesAMemoNumber = 2;
constexpr std::size_t kLeastProtocol = 2;
constexpr std::size_t kMostProtocol = 5;
constexpr std::size_t kLongestLong = 9;
// What large tables of chunks have: room that is not touched costs nothing.
constexpr std::size_t kBytesAValue = 4;
constexpr std::size_t kBytesAMemo = 6;
constexpr std::size_t kBytesAnObject = 24;

}  // namespace

PickleReader::PickleReader(PickleTree& tree, const PickleRules& rules)
    : tree_(tree), rules_(rules), bytes_(tree.bytes_) {
  tree_.values_.reserve(bytes_.size() / kBytesAValue);
  tree_.containers_.reserve(bytes_.size() / kBytesAnObject);
  tree_.objects_.reserve(bytes_.size() / kBytesAnObject);
  memo_.reserve(bytes_.size() / kBytesAMemo);
}

void PickleReader::refuse(const std::string& what) const {
  throw Error(ErrorKind::kBadInput, "the pickle is refused: " + what).at_offset(opcode_at_);
}

void PickleReader::refuse_end(const std::string& what) const {
  PickleCutOff error(ErrorKind::kBadInput, "the pickle is refused: " + what);
  error.at_offset(opcode_at_);
  throw error;
}

std::uint64_t PickleReader::take(std::size_t bytes) {
  if (bytes > bytes_.size() - at_) refuse_end("it ends within an opcode");
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < bytes; ++i) {
    value |= static_cast<std::uint64_t>(static_cast<unsigned char>(bytes_[at_ + i])) << (8 * i);
  }
  at_ += bytes;
  return value;
}

/// Where bytes with their length before them are.
std::pair<std::uint64_t, std::uint64_t> PickleReader::take_stretch(std::size_t length_bytes) {
  const std::uint64_t length = take(length_bytes);
  if (length > bytes_.size() - at_) {
    refuse_end("a text of " + std::to_string(length) + " bytes, of which " +
               std::to_string(bytes_.size() - at_) + " are left");
  }
  const std::uint64_t start = at_;
  at_ += static_cast<std::size_t>(length);
  return {start, length};
}

std::string_view PickleReader::take_line() {
  const std::size_t end = bytes_.find('\n', at_);
  if (end == std::string_view::npos) refuse_end("it ends within an opcode");
  const std::string_view line = bytes_.substr(at_, end - at_);
  at_ = end + 1;
  return line;
}

void PickleReader::require(std::size_t values) const {
  const std::size_t floor = marks_.empty() ? 0 : marks_.back();
  if (stack_.size() - floor < values) refuse("an opcode that lacks its values");
}

PickleValue PickleReader::pop() {
  require(1);
  const PickleValue value = stack_.back();
  stack_.pop_back();
  return value;
}

/// @return the height of the stack where it was.
std::size_t PickleReader::pop_mark() {
  if (marks_.empty()) refuse("an opcode that lacks its mark");
  const std::size_t height = marks_.back();
  marks_.pop_back();
  return height;
}

void PickleReader::read() {
  if (take(1) != kProto) refuse("it does not begin with its protocol");
  const std::uint64_t protocol = take(1);
  if (protocol < kLeastProtocol || protocol > kMostProtocol) {
    refuse("its protocol is " + std::to_string(protocol) + ", should be from 2 to 5");
  }
  while (true) {
    opcode_at_ = at_;
    if (at_ == bytes_.size()) refuse_end("it ends without its last opcode");
    const auto opcode = static_cast<std::uint8_t>(bytes_[at_++]);
    if (opcode == kStop) break;
    look_for_unneeded(opcode);
    if (opcode == kFrame) {
      if (take(8) > bytes_.size() - at_) refuse_end("a frame reaches beyond the end");
      continue;
    }
    if (read_memo(opcode) || read_constant(opcode) || read_container(opcode)) continue;
    if (read_object(opcode) || (takes_all() && read_other(opcode))) continue;
    refuse(opcode_words(opcode) + " is not allowed");
  }
  if (stack_.size() != 1 || !marks_.empty()) refuse("it should leave one value");
  keep_last_values();
  tree_.root_ = stack_.front();
  tree_.consumed_ = at_;
}

/// A list's values come behind a mark, or a single one before its APPEND: that one is kept.
void PickleReader::look_for_unneeded(std::uint8_t opcode) {
  const bool is_nothing =
      opcode == kMemoize || opcode == kBinPut || opcode == kLongBinPut || opcode == kFrame;
  if (dropping_) {
    const bool at_list = stack_.size() == dropping_->height && marks_.size() == dropping_->marks;
    if (at_list && opcode != kMark && !is_nothing) dropping_.reset();
    return;
  }
  if (rules_.unneeded.empty() || marks_.size() > 1 || stack_.empty()) return;
  if (!may_be_unneeded_ || opcode != kMark) {
    may_be_unneeded_ = (may_be_unneeded_ && is_nothing) ||
                       (opcode == kEmptyList && tree_.text(stack_.back()) == rules_.unneeded);
    return;
  }
  may_be_unneeded_ = false;
  const PickleValue list = stack_.back();
  const auto dummy = static_cast<std::uint32_t>(tree_.containers_.size());
  tree_.containers_.emplace_back();
  dropping_ = Dropping{stack_.size(), marks_.size(), list, dummy};
}

/// @return whether the values from `first` on are dropped.
bool PickleReader::drop(PickleValue container, std::size_t first) {
  if (!dropping_) return false;
  if (container.payload() != dropping_->dummy && !(container == dropping_->list)) {
    refuse("values are added to " + std::string(kind_words(container.kind())) +
           " from another one");
  }
  stack_.resize(first);
  return true;
}

bool PickleReader::read_constant(std::uint8_t opcode) {
  switch (opcode) {
    case kNone:
      push({PickleKind::kNone, 0});
      return true;
    case kNewTrue:
    case kNewFalse:
      push({PickleKind::kBool, opcode == kNewTrue ? 1ULL : 0ULL});
      return true;
    case kBinInt:
      push(pickle::number(static_cast<std::int32_t>(take(4))));
      return true;
    case kBinInt1:
      push(pickle::number(static_cast<std::int64_t>(take(1))));
      return true;
    case kBinInt2:
      push(pickle::number(static_cast<std::int64_t>(take(2))));
      return true;
    case kLong1:
      push_long();
      return true;
    case kBinFloat:
      push({PickleKind::kFloat, at_});
      take(8);
      return true;
    case kShortBinUnicode:
      push_text(PickleKind::kText, 1);
      return true;
    case kBinUnicode:
      push_text(PickleKind::kText, 4);
      return true;
    case kBinUnicode8:
      push_text(PickleKind::kText, 8);
      return true;
    case kShortBinBytes:
      push_text(PickleKind::kBytes, 1);
      return true;
    case kBinBytes:
      push_text(PickleKind::kBytes, 4);
      return true;
    default:
      return false;
  }
}

bool PickleReader::read_container(std::uint8_t opcode) {
  switch (opcode) {
    case kMark:
      if (marks_.size() == PickleTree::kMaxDepth) refuse("marks in more than 64 others");
      marks_.push_back(stack_.size());
      return true;
    case kEmptyTuple:
      push_tuple(0);
      return true;
    case kTuple1:
    case kTuple2:
    case kTuple3:
      push_tuple(static_cast<std::size_t>(opcode - kTuple1) + 1);
      return true;
    case kTuple: {
      const std::size_t first = pop_mark();
      push_tuple(stack_.size() - first);
      return true;
    }
    case kEmptyList:
      push(new_container(PickleKind::kList, false));
      return true;
    case kEmptyDict:
      push(new_container(PickleKind::kDict, false));
      return true;
    case kAppend:
    case kSetItem: {
      const std::size_t values = opcode == kAppend ? 1 : 2;
      require(values + 1);
      const std::size_t first = stack_.size() - values;
      const PickleKind kind = opcode == kAppend ? PickleKind::kList : PickleKind::kDict;
      append(items_of(stack_[first - 1], kind), first);
      return true;
    }
    case kAppends:
    case kSetItems: {
      const std::size_t first = pop_mark();
      if (first == (marks_.empty() ? 0 : marks_.back())) refuse("an opcode that lacks its values");
      const PickleKind kind = opcode == kAppends ? PickleKind::kList : PickleKind::kDict;
      const PickleValue container = items_of(stack_[first - 1], kind);
      if (opcode == kSetItems && (stack_.size() - first) % 2 != 0) {
        refuse("a key of a dictionary lacks its value");
      }
      append(container, first);
      return true;
    }
    default:
      return false;
  }
}

bool PickleReader::read_object(std::uint8_t opcode) {
  switch (opcode) {
    case kGlobal: {
      const std::string_view module = take_line();
      push_global(module, take_line());
      return true;
    }
    case kStackGlobal: {
      require(2);
      const auto name = tree_.text(pop());
      const auto module = tree_.text(pop());
      if (!name || !module) refuse("the name of a class should be text");
      push_global(*module, *name);
      return true;
    }
    case kReduce:
    case kNewObject:
      call();
      return true;
    case kBuild:
      build();
      return true;
    case kBinPersistentId:
      if (!rules_.persistent_ids) return false;
      push(new_object(PickleKind::kPersistent, PickleTree::kPersistentMaker, pop()));
      return true;
    default:
      return false;
  }
}

bool PickleReader::read_memo(std::uint8_t opcode) {
  switch (opcode) {
    case kMemoize:
      put(memo_.size());
      return true;
    case kBinPut:
      put(take(1));
      return true;
    case kLongBinPut:
      put(take(4));
      return true;
    case kBinGet:
      get(take(1));
      return true;
    case kLongBinGet:
      get(take(4));
      return true;
    default:
      return false;
  }
}

void PickleReader::push_text(PickleKind kind, std::size_t length_bytes) {
  const auto [start, length] = take_stretch(length_bytes);
  if (length > pickle::kMaxTextLength || start > pickle::kMaxTextStart) {
    refuse("a text of " + std::to_string(length) + " bytes");
  }
  push(pickle::text(kind, start, length));
}

void PickleReader::push_long() {
  const auto length = static_cast<std::size_t>(take(1));
  if (length > kLongestLong) {
    if (!takes_all()) refuse("a number of " + std::to_string(length) + " bytes");
    if (length > bytes_.size() - at_) refuse_end("it ends within an opcode");
    at_ += length;
    return push({PickleKind::kHugeInt, 0});
  }
  if (length > 8) {
    const std::uint64_t low = take(8);
    const bool fits = take(1) == (low >> 63U != 0 ? 0xffU : 0U);
    if (!fits) return push({PickleKind::kHugeInt, 0});
    tree_.wide_.push_back(static_cast<std::int64_t>(low));
    return push({PickleKind::kWideInt, tree_.wide_.size() - 1});
  }
  std::uint64_t bits = take(length);
  if (length > 0 && length < 8) {
    const auto unused = static_cast<unsigned>(64 - 8 * length);
    bits = static_cast<std::uint64_t>(static_cast<std::int64_t>(bits << unused) >> unused);
  }
  const auto value = static_cast<std::int64_t>(bits);
  if (value >= pickle::kMinInline && value <= pickle::kMaxInline)
    return push(pickle::number(value));
  tree_.wide_.push_back(value);
  push({PickleKind::kWideInt, tree_.wide_.size() - 1});
}

void PickleReader::push_tuple(std::size_t count) {
  require(count);
  if (dropping_) {
    stack_.resize(stack_.size() - count);
    return push(pickle::tuple(0, 0, 1));
  }
  const std::uint64_t start = tree_.values_.size();
  if (count > pickle::kMaxTupleLength || start > pickle::kMaxTupleStart) {
    refuse("a tuple of " + std::to_string(count) + " values");
  }
  unsigned depth = 0;
  for (std::size_t i = stack_.size() - count; i < stack_.size(); ++i) {
    depth = std::max(depth, depth_of(stack_[i]));
    tree_.values_.push_back(stack_[i]);
  }
  stack_.resize(stack_.size() - count);
  push(pickle::tuple(start, count, above(depth)));
}

void PickleReader::count_node() const {
  const std::size_t nodes = tree_.containers_.size() + tree_.objects_.size();
  if (nodes < kFreeNodes + bytes_.size() / kBytesANode) return;
  refuse("more than " + std::to_string(nodes) + " objects in " + std::to_string(bytes_.size()) +
         " bytes");
}

PickleValue PickleReader::new_container(PickleKind kind, bool ordered) {
  if (dropping_) return {kind, dropping_->dummy};
  count_node();
  tree_.containers_.emplace_back().ordered = ordered;
  if (kind == PickleKind::kDict) {
    is_dict_.resize(tree_.containers_.size());
    is_dict_.back() = true;
  }
  return {kind, tree_.containers_.size() - 1};
}

/// Adds the values of the stack from `first` on.
void PickleReader::append(PickleValue container, std::size_t first) {
  if (drop(container, first)) return;
  const auto head = static_cast<std::uint32_t>(container.payload());
  unsigned depth = tree_.containers_[head].depth - 1U;
  for (std::size_t i = first; i < stack_.size(); ++i) depth = std::max(depth, depth_of(stack_[i]));
  tree_.containers_[head].depth = above(depth);
  const std::uint64_t start = tree_.values_.size();
  const auto count = static_cast<std::uint32_t>(stack_.size() - first);
  tree_.values_.insert(tree_.values_.end(), stack_.begin() + static_cast<std::ptrdiff_t>(first),
                       stack_.end());
  stack_.resize(first);
  if (count == 0) return;
  PickleTree::Container& part = tree_.containers_[head];
  if (part.count == 0) {
    part.first = start;
    part.count = count;
    return;
  }
  const std::uint32_t last = part.last == PickleTree::kNoNode ? head : part.last;
  if (tree_.containers_[last].first + tree_.containers_[last].count == start) {
    tree_.containers_[last].count += count;
    return;
  }
  count_node();
  const auto added = static_cast<std::uint32_t>(tree_.containers_.size());
  PickleTree::Container& more = tree_.containers_.emplace_back();
  more.first = start;
  more.count = count;
  tree_.containers_[last].next = added;
  tree_.containers_[head].last = added;
}

PickleValue PickleReader::new_object(PickleKind kind, std::uint32_t maker, PickleValue arguments) {
  if (dropping_) return {PickleKind::kNone, 0};
  count_node();
  tree_.objects_.push_back({maker, above(depth_of(arguments)), arguments, {}});
  return {kind, tree_.objects_.size() - 1};
}

void PickleReader::push_global(std::string_view module, std::string_view name) {
  const auto known = global_numbers_.find({module, name});
  if (known != global_numbers_.end()) return push({PickleKind::kGlobal, known->second});
  const PickleGlobal global{module, name};
  if (!takes_all() && !rules_.allows(global)) {
    refuse("it asks for '" + printable(to_string(global)) + "', which no checkpoint needs");
  }
  const auto number = static_cast<std::uint32_t>(tree_.globals_.size());
  tree_.globals_.push_back(global);
  global_numbers_.emplace(std::pair(module, name), number);
  push({PickleKind::kGlobal, number});
}

/// Notes what Python would call.
void PickleReader::call() {
  require(2);
  const PickleValue arguments = pop();
  const PickleValue callee = pop();
  if (takes_all() && (!callee.is(PickleKind::kGlobal) || !arguments.is(PickleKind::kTuple))) {
    return push(new_object(PickleKind::kObject, PickleTree::kUnknownMaker, arguments));
  }
  if (!callee.is(PickleKind::kGlobal)) {
    refuse("it would call " + std::string(kind_words(callee.kind())) + ", which is no class");
  }
  if (!arguments.is(PickleKind::kTuple)) refuse("the arguments of a call should be a tuple");
  const PickleGlobal& maker = tree_.globals_[callee.payload()];
  if (is_getattr(maker) && !dropping_ && !takes_all()) check_getattr(arguments);
  if (maker == kOrderedDict) {
    if (tree_.tuple(arguments).empty()) return push(new_container(PickleKind::kDict, true));
    if (!takes_all()) refuse("an OrderedDict with arguments");
    if (is_pairs(arguments)) return push(dict_of_pairs(arguments));
  }
  push(new_object(PickleKind::kObject, static_cast<std::uint32_t>(callee.payload()), arguments));
}

/// As Python does, which sets attribute by attribute.
void PickleReader::add_state(PickleTree::Object& object, PickleValue more) {
  const std::size_t first = stack_.size();
  const PickleValue both = new_container(PickleKind::kDict, false);
  for (const PickleValue state : {object.state, more}) {
    tree_.for_each_pair(state, [&](PickleValue key, PickleValue value) {
      push(key);
      push(value);
      count_copy();
      return true;
    });
  }
  append(both, first);
  object.state = both;
}

/// How some releases of Python write a member of an enumeration.
void PickleReader::check_getattr(PickleValue arguments) const {
  const auto values = tree_.tuple(arguments);
  const bool good =
      values.size() == 2 && values[0].is(PickleKind::kGlobal) && values[1].is(PickleKind::kText);
  if (!good) refuse("getattr of something else than a class");
}

void PickleReader::build() {
  require(2);
  const PickleValue state = pop();
  const PickleValue target = stack_.back();
  if (dropping_) return;
  const std::uint8_t depth = above(depth_of(state));
  if (target.is(PickleKind::kObject)) {
    PickleTree::Object& object = tree_.objects_[target.payload()];
    const bool is_second = !object.state.is(PickleKind::kUnset);
    if (is_second && !takes_all()) refuse("an object gets its state twice");
    object.depth = std::max(object.depth, depth);
    if (is_second && object.state.is(PickleKind::kDict) && state.is(PickleKind::kDict)) {
      return add_state(object, state);
    }
    object.state = state;
    return;
  }
  if (takes_all()) return;
  const bool ordered = target.is(PickleKind::kDict) && tree_.containers_[target.payload()].ordered;
  if (!ordered) refuse(std::string(kind_words(target.kind())) + " gets a state");
  PickleTree::Container& dict = tree_.containers_[target.payload()];
  if (dict.built) refuse("an object gets its state twice");
  dict.built = true;  // attributes of a dictionary tell nothing that is needed
}

void PickleReader::put(std::uint64_t number) {
  require(1);
  if (number > kFreeNodes + bytes_.size() / kBytesAMemoNumber) {
    if (takes_all()) {
      far_memo_[number] = stack_.back();
      return;
    }
    refuse("the memo's number " + std::to_string(number));
  }
  if (number >= memo_.size()) memo_.resize(static_cast<std::size_t>(number) + 1);
  memo_[static_cast<std::size_t>(number)] = stack_.back();
}

void PickleReader::get(std::uint64_t number) {
  if (const auto far = far_memo_.find(number); far != far_memo_.end()) return push(far->second);
  if (number >= memo_.size() || memo_[static_cast<std::size_t>(number)].is(PickleKind::kUnset)) {
    refuse("the memo has no number " + std::to_string(number));
  }
  push(memo_[static_cast<std::size_t>(number)]);
}

unsigned PickleReader::depth_of(PickleValue value) const noexcept {
  switch (value.kind()) {
    case PickleKind::kTuple:
      return pickle::depth_of_tuple(value);
    case PickleKind::kList:
    case PickleKind::kDict:
      return tree_.containers_[value.payload()].depth;
    case PickleKind::kObject:
    case PickleKind::kPersistent:
      return tree_.objects_[value.payload()].depth;
    default:
      return 0;
  }
}

std::uint8_t PickleReader::above(unsigned depth) const {
  if (depth >= PickleTree::kMaxDepth) refuse("values in more than 64 others");
  return static_cast<std::uint8_t>(depth + 1);
}

}  // namespace reshardfs
