// SPDX-License-Identifier: Apache-2.0
#include "report/text/terminal.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <string>
#include <string_view>

#include <strings.h>

#include "base/text/numbers.h"

namespace reshardfs {
namespace {

// With less than this nothing can be read.
constexpr std::size_t kFewestColumns = 40;
constexpr std::size_t kFewestLines = 10;
constexpr std::size_t kDefaultColumns = 80;
constexpr std::size_t kDefaultLines = 24;

std::string_view environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? std::string_view() : value;
}

/// What the variable says, else what the terminal says, else `otherwise`.
std::size_t extent(const char* variable, unsigned short winsize::*field, std::size_t otherwise) {
  const char* wanted = std::getenv(variable);
  const auto number = wanted == nullptr ? std::nullopt : parse_number<std::size_t>(wanted);
  if (number && *number > 0) return *number;
  winsize size{};
  const bool known = ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.*field > 0;
  return known ? size.*field : otherwise;
}

}  // namespace

bool output_is_terminal() {
  return ::isatty(STDOUT_FILENO) == 1;
}

std::size_t output_columns() {
  if (!output_is_terminal()) return kAnyWidth;
  return std::max(extent("COLUMNS", &winsize::ws_col, kDefaultColumns), kFewestColumns);
}

std::size_t output_lines() {
  if (!output_is_terminal()) return kAnyHeight;
  return std::max(extent("LINES", &winsize::ws_row, kDefaultLines), kFewestLines);
}

bool use_colour() {
  return output_is_terminal() && environment("NO_COLOR").empty() && environment("TERM") != "dumb";
}

bool locale_is_utf8() {
  for (const char* variable : {"LC_ALL", "LC_CTYPE", "LANG"}) {
    const std::string_view locale = environment(variable);
    if (locale.empty()) continue;
    const std::string_view codeset = locale.substr(std::min(locale.find('.'), locale.size()));
    const std::string name(codeset.substr(0, codeset.find('@')));
    return ::strcasecmp(name.c_str(), ".utf-8") == 0 || ::strcasecmp(name.c_str(), ".utf8") == 0;
  }
  return false;
}

}  // namespace reshardfs
