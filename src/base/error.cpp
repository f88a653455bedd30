// SPDX-License-Identifier: Apache-2.0
#include "reshardfs/error.h"

#include <string_view>
#include <system_error>
#include <utility>

#include "base/utf8.h"

namespace reshardfs {
namespace {

constexpr std::size_t kPrintableBytes = 200;

std::string hex_escape(unsigned char byte) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  return {'\\', 'x', kDigits[byte >> 4U], kDigits[byte & 0xfU]};
}

/// Whether the character is a control character in all but its number: one of C1 (U+0080 to U+009F)
/// moves a terminal's cursor as ESC does; U+2028 and U+2029 end a line; U+202A to U+202E and U+2066
/// to U+2069 turn the direction of all that follows.
bool is_hidden_control(std::string_view character) {
  if (character.size() == 2) return character >= "\xc2\x80" && character < "\xc2\xa0";
  if (character.size() != 3) return false;
  return (character >= "\xe2\x80\xa8" && character <= "\xe2\x80\xae") ||
         (character >= "\xe2\x81\xa6" && character <= "\xe2\x81\xa9");
}

}  // namespace

std::string printable(const std::string& text) {
  std::string out;
  for (std::size_t i = 0; i < text.size();) {
    if (out.size() >= kPrintableBytes) return out + "...";
    const auto byte = static_cast<unsigned char>(text[i]);
    const std::size_t length = utf8_length(text, i);
    if (length == 0 || byte < 0x20 || byte == 0x7f) {
      out += byte == '\n' ? std::string("\\n") : hex_escape(byte);
      ++i;
      continue;
    }
    if (is_hidden_control(std::string_view(text).substr(i, length))) {
      for (const std::size_t end = i + length; i < end; ++i) {
        out += hex_escape(static_cast<unsigned char>(text[i]));
      }
      continue;
    }
    if (byte == '\'' || byte == '\\') out += '\\';
    out.append(text, i, length);
    i += length;
  }
  return out;
}

Error::Error(ErrorKind kind, std::string message) : kind_(kind), message_(std::move(message)) {
  compose();
}

Error& Error::in_file(const std::string& path) {
  if (file_.empty()) file_ = path;
  compose();
  return *this;
}

Error& Error::at_offset(std::uint64_t bytes) {
  if (!offset_) offset_ = bytes;
  compose();
  return *this;
}

Error& Error::for_parameter(const std::string& name) {
  if (parameter_.empty()) parameter_ = name;
  compose();
  return *this;
}

Error& Error::for_rank(std::int64_t rank) {
  if (!rank_) rank_ = rank;
  compose();
  return *this;
}

Error& Error::hint(std::string what_to_do) {
  if (hint_.empty()) hint_ = std::move(what_to_do);
  compose();
  return *this;
}

Error& Error::os_error(int errno_value) {
  if (os_error_ == 0) os_error_ = errno_value;
  return *this;
}

Error& Error::explain(const std::string& more) {
  message_ += more;
  compose();
  return *this;
}

void Error::compose() {
  text_.clear();
  if (!file_.empty()) text_ += printable(file_) + ": ";
  if (rank_) text_ += "rank " + std::to_string(*rank_) + ": ";
  if (offset_) text_ += "offset " + std::to_string(*offset_) + ": ";
  if (!parameter_.empty()) text_ += "parameter '" + printable(parameter_) + "': ";
  text_ += message_;
  if (!hint_.empty()) text_ += "; " + hint_;
}

Error io_error(const std::string& action, const std::string& path, int errno_value) {
  return Error(ErrorKind::kIo,
               "cannot " + action + ": " + std::generic_category().message(errno_value))
      .in_file(path)
      .os_error(errno_value);
}

}  // namespace reshardfs
