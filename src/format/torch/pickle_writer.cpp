// SPDX-License-Identifier: Apache-2.0
#include "format/torch/pickle_writer.h"

#include <bit>
#include <limits>

#include "reshardfs/error.h"

#include "base/text/utf8.h"

namespace reshardfs {
namespace {

constexpr char kTextKey = 't';
constexpr char kGlobalKey = 'g';
constexpr std::uint64_t kOneByte = 0xff;
constexpr std::uint64_t kTwoBytes = 0xffff;

std::string key_of(char kind, std::string_view text) {
  std::string key(1, kind);
  key += text;
  return key;
}

}  // namespace

PickleWriter::PickleWriter() : bytes_("\x80\x02") {}

/// Little endian.
void PickleWriter::add_number(std::uint64_t value, std::size_t bytes) {
  for (std::size_t i = 0; i < bytes; ++i) bytes_ += static_cast<char>(value >> (8 * i) & kOneByte);
}

void PickleWriter::integer(std::int64_t value) {
  const auto bits = static_cast<std::uint64_t>(value);
  if (bits <= kOneByte) {
    add('K');
    add_number(bits, 1);
  } else if (bits <= kTwoBytes) {
    add('M');
    add_number(bits, 2);
  } else if (value >= std::numeric_limits<std::int32_t>::min() &&
             value <= std::numeric_limits<std::int32_t>::max()) {
    add('J');
    add_number(bits, 4);
  } else {
    add('\x8a');
    add_number(sizeof(bits), 1);
    add_number(bits, sizeof(bits));
  }
}

/// The only number that is big endian.
void PickleWriter::real(double value) {
  const auto bits = std::bit_cast<std::uint64_t>(value);
  add('G');
  for (std::size_t i = sizeof(bits); i-- > 0;) add_number(bits >> (8 * i), 1);
}

void PickleWriter::text(std::string_view value) {
  if (!is_utf8(value)) {
    throw Error(ErrorKind::kUnsupported, "'" + printable(std::string(value)) +
                                             "' is not valid UTF-8, which PyTorch's files need");
  }
  if (value.size() > std::numeric_limits<std::uint32_t>::max()) {
    throw Error(ErrorKind::kUnsupported, "a text has " + std::to_string(value.size()) + " bytes");
  }
  add('X');
  add_number(value.size(), 4);
  bytes_ += value;
}

void PickleWriter::shared_text(std::string_view value) {
  const std::string key = key_of(kTextKey, value);
  if (recall(key)) return;
  text(value);
  remember(key);
}

void PickleWriter::global(const PickleGlobal& global) {
  std::string words(global.module);
  words += '\n';
  words += global.name;
  words += '\n';
  const std::string key = key_of(kGlobalKey, words);
  if (recall(key)) return;
  add('c');
  bytes_ += words;
  remember(key);
}

bool PickleWriter::recall(const std::string& key) {
  const auto found = memo_.find(key);
  if (found == memo_.end()) return false;
  const bool is_short = found->second <= kOneByte;
  add(is_short ? 'h' : 'j');
  add_number(found->second, is_short ? 1 : 4);
  return true;
}

void PickleWriter::remember(const std::string& key) {
  const auto number = static_cast<std::uint32_t>(memo_.size());
  memo_.emplace(key, number);
  const bool is_short = number <= kOneByte;
  add(is_short ? 'q' : 'r');
  add_number(number, is_short ? 1 : 4);
}

std::string PickleWriter::finish() && {
  add('.');
  return std::move(bytes_);
}

}  // namespace reshardfs
