// SPDX-License-Identifier: Apache-2.0
#include "cli/words/value_checks.h"

#include <algorithm>
#include <filesystem>
#include <regex>
#include <string>
#include <system_error>

#include <fmt/format.h>

#include "reshardfs/error.h"

#include "base/text/digits.h"

namespace reshardfs {
namespace {

/// What standard output was redirected to, as a user may have written it.
std::string output_name() {
  std::error_code failed;
  const auto target = std::filesystem::read_symlink("/proc/self/fd/1", failed);
  const bool is_file = !failed && std::filesystem::is_regular_file(target, failed);
  return is_file ? target.filename().string() : "";
}

}  // namespace

void refuse_sizes_without_equals(const std::string& text) {
  const std::regex all("(tp|mp|dp|pp)[:-]?[0-9]+(,(tp|mp|dp|pp)[:-]?[0-9]+)*");
  const std::regex one("(tp|mp|dp|pp)[:-]?([0-9]+)");
  if (!std::regex_match(text, all)) return;
  throw Error(ErrorKind::kUsage, "there is no strategy file '" + text + "'")
      .hint("sizes are written with '=': --dst-strategy " + std::regex_replace(text, one, "$1=$2"));
}

CLI::Validator size_with_unit(const std::string& option) {
  return {
      [option](const std::string& text) {
        constexpr std::size_t kDigitsOfAMegabyte = 7;
        const bool is_number = !text.empty() && std::all_of(text.begin(), text.end(), is_digit);
        const bool is_small = is_number && text.size() < kDigitsOfAMegabyte;
        if (!is_small || text == "0") return std::string();
        throw Error(ErrorKind::kUsage, fmt::format("{} {} means {} {}", option, text, text,
                                                   text == "1" ? "byte" : "bytes"))
            .hint(fmt::format("write {}GB or {}MB, or {}B if bytes are meant", text, text, text));
      },
      "", "size with a unit"};
}

CLI::Validator cast_with_quotes() {
  return {[](const std::string& text) {
            if (!text.ends_with('-')) return std::string();
            const std::string file = output_name();
            const std::string type = file.empty() ? "bf16" : file;
            throw Error(
                ErrorKind::kUsage,
                fmt::format("the cast '{}' ends where the shell took {} as a redirection",
                            printable(text), file.empty() ? "a '>'" : "'>" + printable(file) + "'"))
                .hint(fmt::format("quote it: --cast '{}>{}'", printable(text), printable(type)));
          },
          "", "quoted"};
}

}  // namespace reshardfs
