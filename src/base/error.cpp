// SPDX-License-Identifier: Apache-2.0
#include "reshardfs/error.h"

#include <algorithm>
#include <string_view>
#include <system_error>
#include <utility>

#include "base/process/resource_limits.h"
#include "base/text/utf8.h"

namespace reshardfs {
namespace {

constexpr std::size_t kPrintableBytes = 200;

std::string hex_escape(unsigned char byte) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  return {'\\', 'x', kDigits[byte >> 4U], kDigits[byte & 0xfU]};
}

/// Whether a character of ASCII stands for itself in any message.
bool stands_for_itself(char c) noexcept {
  return !is_control_byte(c) && static_cast<unsigned char>(c) < 0x80 && c != '\'' && c != '\\';
}

/// Control characters and invalid UTF-8, and with `quotes` what would end a quoted text, escaped.
std::string escaped(const std::string& text, std::size_t limit, bool quotes) {
  // Names nearly always are.
  if (text.size() <= limit && std::all_of(text.begin(), text.end(), stands_for_itself)) return text;
  std::string out;
  for (std::size_t i = 0; i < text.size();) {
    if (out.size() >= limit) return out + "...";
    const auto [length, character] = utf8_character(text, i);
    if (length == 0 || is_control(character) || is_layout_control(character)) {
      for (const std::size_t end = i + std::max<std::size_t>(1, length); i < end; ++i) {
        out +=
            text[i] == '\n' ? std::string("\\n") : hex_escape(static_cast<unsigned char>(text[i]));
      }
      continue;
    }
    if (quotes && (text[i] == '\'' || text[i] == '\\')) out += '\\';
    out.append(text, i, length);
    i += length;
  }
  return out;
}

/// Whatever a caller has left in it: a message is one line, and does nothing to a terminal.
std::string one_line(const std::string& text) {
  return escaped(text, std::string::npos, /*quotes=*/false);
}

}  // namespace

std::string printable(const std::string& text) {
  return escaped(text, kPrintableBytes, /*quotes=*/true);
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

Error& Error::for_rank(Rank rank) {
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

Error& Error::needs(Need need) noexcept {
  if (need_ == Need::kNothing) need_ = need;
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
  if (rank_) text_ += "rank " + to_string(*rank_) + ": ";
  if (offset_) text_ += "offset " + std::to_string(*offset_) + ": ";
  if (!parameter_.empty()) text_ += "parameter '" + printable(parameter_) + "': ";
  text_ += one_line(message_);
  if (!hint_.empty()) text_ += "; " + one_line(hint_);
}

Error io_error(const std::string& action, const std::string& path, int errno_value) {
  return Error(ErrorKind::kIo,
               "cannot " + action + ": " + std::generic_category().message(errno_value))
      .in_file(path)
      .os_error(errno_value)
      .hint(limit_hint_of(errno_value));
}

}  // namespace reshardfs
