// SPDX-License-Identifier: Apache-2.0
/// What PickleReader takes of files of torch.save, and not of tables.
#include "format/torch/pickle_layout.h"
#include "format/torch/pickle_reader.h"

namespace reshardfs {

using namespace pickle;

/// What real files of torch.save have beside tensors: sets, byte arrays, texts of Python 2, objects
/// of all classes.
bool PickleReader::read_other(std::uint8_t opcode) {
  const auto opaque = [this] {
    push(new_object(PickleKind::kObject, PickleTree::kUnknownMaker, pickle::tuple(0, 0, 1)));
  };
  switch (opcode) {
    case kPop:
      pop();
      return true;
    case kPopMark:
      stack_.resize(pop_mark());
      return true;
    case kDup:
      require(1);
      push(PickleValue(stack_.back()));
      return true;
    case kShortBinString:
      push_text(PickleKind::kText, 1);
      return true;
    case kBinString:
      push_text(PickleKind::kText, 4);
      return true;
    case kBinBytes8:
    case kByteArray8:
      take_stretch(8);
      opaque();
      return true;
    case kLong4:
      take_stretch(4);
      push({PickleKind::kHugeInt, 0});
      return true;
    case kEmptySet:
      opaque();
      return true;
    case kAddItems:
      stack_.resize(pop_mark());
      require(1);
      return true;
    case kFrozenSet:
      stack_.resize(pop_mark());
      opaque();
      return true;
    case kObj: {
      const std::size_t first = pop_mark();
      if (first == stack_.size()) refuse("an opcode that lacks its values");
      const PickleValue type = stack_[first];
      push_tuple(stack_.size() - first - 1);
      const PickleValue arguments = pop();
      pop();
      push(type);
      push(arguments);
      call();
      return true;
    }
    case kNewObjectEx:
      pop();  // arguments by keyword
      call();
      return true;
    default:
      return false;
  }
}

/// The container to which values are added: the value itself, or what is kept of an object whose
/// class is derived from that kind of container.
PickleValue PickleReader::items_of(PickleValue value, PickleKind kind) {
  if (value.is(kind)) return value;
  if (!takes_all() || !value.is(PickleKind::kObject)) {
    refuse("values are added to " + std::string(kind_words(value.kind())));
  }
  const auto known = tree_.items_.find(value.payload());
  if (known == tree_.items_.end()) {
    const PickleValue made = new_container(kind, false);
    tree_.items_.emplace(value.payload(), made);
    return made;
  }
  if (!known->second.is(kind)) refuse("an object is a list and a dictionary");
  return known->second;
}

/// One list may be the argument of many calls.
void PickleReader::count_copy() {
  if (++copied_ <= kFreeNodes + bytes_.size()) return;
  refuse("dictionaries are made of one list again and again");
}

/// Whether they are a list of pairs, as Python 2 gives an OrderedDict its elements.
bool PickleReader::is_pairs(PickleValue arguments) {
  const auto values = tree_.tuple(arguments);
  if (values.size() != 1 || !values[0].is(PickleKind::kList)) return false;
  bool good = true;
  tree_.for_each(values[0], [&](PickleValue pair) {
    count_copy();
    good = pair.is(PickleKind::kList) ? tree_.count(pair) == 2 : tree_.tuple(pair).size() == 2;
    return good;
  });
  return good;
}

PickleValue PickleReader::dict_of_pairs(PickleValue arguments) {
  const std::size_t first = stack_.size();
  tree_.for_each(tree_.tuple(arguments)[0], [&](PickleValue pair) {
    if (pair.is(PickleKind::kTuple)) {
      for (const PickleValue value : tree_.tuple(pair)) push(value);
    } else {
      tree_.for_each(pair, [&](PickleValue value) {
        push(value);
        return true;
      });
    }
    return true;
  });
  for (std::size_t i = first; i < stack_.size(); ++i) count_copy();
  const PickleValue dict = new_container(PickleKind::kDict, true);
  append(dict, first);
  return dict;
}

}  // namespace reshardfs
