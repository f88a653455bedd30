// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>

#include "format/torch/pickle_tree.h"

namespace reshardfs {

/// Writes a pickle of protocol 2, value by value. Each call pushes one value onto the reader's
/// stack; calls that build a value from others pop these. The same calls give the same bytes.
///
/// Names of classes, and remembered texts and values, are written once. After that a few bytes
/// refer to them, and a reader gets the same object in all these places.
class PickleWriter {
 public:
  PickleWriter();

  void none() { add('N'); }
  void boolean(bool value) { add(value ? '\x88' : '\x89'); }
  void integer(std::int64_t value);
  void real(double value);
  /// @param value UTF-8. @throws Error kUnsupported if it is not, or has 4 GiB.
  void text(std::string_view value);
  /// A text that will be needed again.
  void shared_text(std::string_view value);
  void global(const PickleGlobal& global);

  /// Where the elements of a tuple, or what is added to a list or dictionary, begin.
  void mark() { add('('); }
  /// Of the values behind the mark.
  void tuple() { add('t'); }
  void empty_tuple() { add(')'); }
  /// Of the last value.
  void tuple_of_one() { add('\x85'); }
  void empty_list() { add(']'); }
  void empty_dict() { add('}'); }
  /// Adds the values behind the mark to the list before it.
  void append_all() { add('e'); }
  /// Adds the keys and values behind the mark to the dictionary before it.
  void set_all() { add('u'); }
  /// Calls the last value but one with the tuple that is the last one.
  void call() { add('R'); }
  /// Gives the last value but one the state that is the last one.
  void build() { add('b'); }
  /// What the last value is the id of.
  void persistent() { add('Q'); }

  /// Puts a value on the stack that was remembered by that key.
  /// @return false if none was.
  bool recall(const std::string& key);
  /// Remembers the last value.
  /// @param key beginning with a digit.
  void remember(const std::string& key);

  /// Of the only value that is left. Nothing may be written after it.
  std::string finish() &&;

 private:
  void add(char opcode) { bytes_ += opcode; }
  void add_number(std::uint64_t value, std::size_t bytes);

  std::string bytes_;
  std::unordered_map<std::string, std::uint32_t> memo_;
};

}  // namespace reshardfs
