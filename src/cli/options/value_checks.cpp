// SPDX-License-Identifier: Apache-2.0
#include "cli/options/value_checks.h"

#include <pwd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <limits>
#include <regex>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <grp.h>

#include "reshardfs/error.h"

#include "base/text/near_name.h"
#include "base/text/numbers.h"

namespace reshardfs {
namespace {

constexpr int kOctal = 8;
/// Room for an entry of the user database; entries of directory services can be long.
constexpr std::size_t kEntryBytes = 64 << 10;

std::optional<std::uint32_t> identity(const std::string& text,
                                      std::optional<std::uint32_t> (*lookup)(const char*)) {
  auto id = parse_number<std::uint32_t>(text);
  if (!id) id = lookup(text.c_str());
  if (id == std::numeric_limits<std::uint32_t>::max()) return {};
  return id;
}

/// What standard output was redirected to, as a user may have written it.
std::string output_name() {
  std::error_code failed;
  const auto target = std::filesystem::read_symlink("/proc/self/fd/1", failed);
  const bool is_file = !failed && std::filesystem::is_regular_file(target, failed);
  return is_file ? target.filename().string() : "";
}

Error does_not_take(const Option& option, const std::string& text) {
  return {ErrorKind::kUsage, fmt::format("--{} does not take '{}'", option.name, printable(text))};
}

struct OtherValue {
  std::string_view option;
  std::string_view text;
  std::string_view answer;
};

/// What people write in the place of a choice.
constexpr std::array<OtherValue, 11> kOtherValues{{
    {"format", "hf", "--views hf shows the directory that Hugging Face's loaders read"},
    {"format", "huggingface", "--views hf shows the directory that Hugging Face's loaders read"},
    {"format", "dcp", "--views dcp shows a checkpoint of torch.distributed.checkpoint"},
    {"format", "megatron", "--views megatron shows the directory from which Megatron-Core starts"},
    {"format", "pt", "did you mean 'torch'?"},
    {"format", "pytorch", "did you mean 'torch'?"},
    {"format", "npy", "--views params shows each parameter as a NumPy file"},
    {"views", "huggingface", "did you mean 'hf'?"},
    {"views", "safetensors", "did you mean 'merged-safetensors'?"},
    {"views", "torch", "did you mean 'merged-torch'?"},
    {"views", "all", "leave --views out to show all views that need no further choice"},
}};

std::string other_value(const Option& option, const std::string& text) {
  const auto* const found = std::find_if(
      kOtherValues.begin(), kOtherValues.end(),
      [&](const OtherValue& known) { return known.option == option.name && known.text == text; });
  return found == kOtherValues.end() ? std::string() : std::string(found->answer);
}

/// Powers of 1024 and of 1000 have names of their own; without the i, it depends.
std::optional<std::uint64_t> bytes_of_unit(std::string_view unit, bool thousands) {
  constexpr std::string_view kPowers = "kmgtpe";
  if (unit.empty() || unit == "b") return 1;
  const std::size_t power = kPowers.find(unit.front());
  if (power == std::string_view::npos) return {};
  const std::string_view end = unit.substr(1);
  const bool binary = end == "i" || end == "ib";
  if (!binary && !end.empty() && end != "b") return {};
  std::uint64_t bytes = 1;
  for (std::size_t i = 0; i <= power; ++i) bytes *= thousands && !binary ? 1000 : 1024;
  return bytes;
}

void check_number(const Option& option, const std::string& text, const std::string& see_help) {
  const auto number = parse_signed_number(text);
  if (number && *number >= option.least && *number <= option.most) return;
  // A limit of the integer type is no help to the user.
  if (option.most < std::numeric_limits<unsigned>::max()) {
    throw does_not_take(option, text)
        .hint(fmt::format("it takes {} to {}", option.least, option.most));
  }
  throw does_not_take(option, text).hint(see_help);
}

void check_real(const Option& option, const std::string& text, const std::string& see_help) {
  const char* const begin = text.c_str();
  char* end = nullptr;
  std::strtod(begin, &end);
  if (text.empty() || end != begin + text.size()) throw does_not_take(option, text).hint(see_help);
}

}  // namespace

std::optional<std::uint32_t> user_number(const std::string& text) {
  return identity(text, [](const char* name) -> std::optional<std::uint32_t> {
    std::vector<char> buffer(kEntryBytes);
    passwd entry{};
    passwd* found = nullptr;
    ::getpwnam_r(name, &entry, buffer.data(), buffer.size(), &found);
    if (found == nullptr) return {};
    return found->pw_uid;
  });
}

std::optional<std::uint32_t> group_number(const std::string& text) {
  return identity(text, [](const char* name) -> std::optional<std::uint32_t> {
    std::vector<char> buffer(kEntryBytes);
    group entry{};
    group* found = nullptr;
    ::getgrnam_r(name, &entry, buffer.data(), buffer.size(), &found);
    if (found == nullptr) return {};
    return found->gr_gid;
  });
}

std::optional<mode_t> octal_mode(const std::string& text) {
  constexpr mode_t kPermissions = 0777;
  const auto mode = parse_number<mode_t>(text, kOctal);
  return mode && *mode <= kPermissions ? mode : std::nullopt;
}

std::string check_user(const std::string& text) {
  return user_number(text) ? "" : "there is no user " + printable(text);
}

std::string check_group(const std::string& text) {
  return group_number(text) ? "" : "there is no group " + printable(text);
}

std::string check_mode(const std::string& text) {
  return octal_mode(text) ? "" : "'" + printable(text) + "' is not an octal mode such as 0440";
}

std::string check_path_in_mount(const std::string& text) {
  const std::filesystem::path path = std::filesystem::path(text).lexically_normal();
  const bool leads_out = path.is_absolute() || (!path.empty() && *path.begin() == "..");
  if (!leads_out && !text.empty()) return "";
  return "'" + printable(text) + "' is not a path below the mount point, such as rank_3";
}

std::string check_rank(const std::string& text) {
  return text.starts_with('-') ? text + " is not a rank: ranks count from 0" : "";
}

std::string check_duration(const std::string& text) {
  return duration_of(text) ? "" : "'" + printable(text) + "' is not a time such as 90s or 10m";
}

std::string check_cast_quotes(const std::string& text) {
  if (!text.ends_with('-')) return "";
  const std::string file = output_name();
  const std::string type = file.empty() ? "bf16" : file;
  throw Error(ErrorKind::kUsage,
              fmt::format("the cast '{}' ends where the shell took {} as a redirection",
                          printable(text), file.empty() ? "a '>'" : "'>" + printable(file) + "'"))
      .hint(fmt::format("quote it: --cast '{}>{}'", printable(text), printable(type)));
}

std::uint64_t size_in_bytes(const Option& option, const std::string& text) {
  constexpr const char* kForExample = "write a size such as 500MB, 5GB or 5GiB";
  constexpr std::size_t kDigitsOfAMegabyte = 7;
  const auto letters = std::find_if_not(text.begin(), text.end(), is_digit);
  const std::string digits(text.begin(), letters);
  std::string unit(std::find_if_not(letters, text.end(), [](char c) { return c == ' '; }),
                   text.end());
  for (char& c : unit) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  const auto bytes = bytes_of_unit(unit, option.thousands);
  const bool is_word =
      std::all_of(unit.begin(), unit.end(), [](char c) { return c >= 'a' && c <= 'z'; });
  if (!bytes && is_word) {
    throw Error(ErrorKind::kUsage, fmt::format("--{}: there is no unit '{}'", option.name, unit))
        .hint(kForExample);
  }
  const auto number = parse_number<std::uint64_t>(digits);
  if (!bytes || !number || *number > std::numeric_limits<std::uint64_t>::max() / *bytes) {
    throw does_not_take(option, text).hint(kForExample);
  }
  const bool is_small = unit.empty() && digits.size() < kDigitsOfAMegabyte && *number != 0;
  if (is_small && !option.small_sizes) {
    throw Error(ErrorKind::kUsage, fmt::format("--{} {} means {} {}", option.name, digits, digits,
                                               digits == "1" ? "byte" : "bytes"))
        .hint(fmt::format("write {}GB or {}MB, or {}B if bytes are meant", digits, digits, digits));
  }
  return *number * *bytes;
}

std::optional<std::chrono::seconds> duration_of(std::string_view text) {
  constexpr std::array<std::pair<char, std::int64_t>, 4> kUnits{
      {{'d', 86400}, {'h', 3600}, {'m', 60}, {'s', 1}}};
  constexpr std::int64_t kYear = 366 * 86400;
  if (text.empty()) return {};
  std::int64_t seconds = 0;
  // Each unit once, the largest first.
  for (const auto& [letter, length] : kUnits) {
    std::string_view rest = text;
    const auto number = take_number<std::int64_t>(rest);
    if (!number || !rest.starts_with(letter)) continue;
    if (*number > kYear) return {};
    seconds += *number * length;
    text = rest.substr(1);
  }
  if (!text.empty() || seconds > kYear) return {};
  return std::chrono::seconds(seconds);
}

std::optional<bool> flag_value(const std::string& text) {
  constexpr std::array<std::pair<std::string_view, bool>, 8> kWords{{{"true", true},
                                                                     {"1", true},
                                                                     {"yes", true},
                                                                     {"on", true},
                                                                     {"false", false},
                                                                     {"0", false},
                                                                     {"no", false},
                                                                     {"off", false}}};
  const auto* const found = std::find_if(kWords.begin(), kWords.end(),
                                         [&](const auto& known) { return known.first == text; });
  return found == kWords.end() ? std::nullopt : std::optional(found->second);
}

void check_value(const Option& option, const std::string& text, const std::string& see_help) {
  const std::vector<std::string>& choices = option.choices;
  if (!choices.empty() && std::find(choices.begin(), choices.end(), text) == choices.end()) {
    throw does_not_take(option, text)
        .hint(other_value(option, text))
        .hint(parse_signed_number(text) ? "" : did_you_mean(text, choices))
        .hint(fmt::format("it takes {}", fmt::join(choices, ", ")));
  }
  if (option.check != nullptr) {
    const std::string wrong = option.check(text);
    if (!wrong.empty()) {
      throw Error(ErrorKind::kUsage, fmt::format("--{}: {}", option.name, wrong)).hint(see_help);
    }
  }
  if (option.takes == Takes::kNumber) check_number(option, text, see_help);
  if (option.takes == Takes::kReal) check_real(option, text, see_help);
  if (option.takes == Takes::kSize) static_cast<void>(size_in_bytes(option, text));
  if (option.is_flag() && !flag_value(text)) throw does_not_take(option, text).hint(see_help);
}

void refuse_sizes_without_equals(const std::string& option, const std::string& text) {
  const std::regex all("(tp|mp|dp|pp)[:-]?[0-9]+(,(tp|mp|dp|pp)[:-]?[0-9]+)*");
  const std::regex one("(tp|mp|dp|pp)[:-]?([0-9]+)");
  const bool is_number = std::regex_match(text, std::regex("[0-9]{1,6}"));
  if (!is_number && !std::regex_match(text, all)) return;
  throw Error(ErrorKind::kUsage, "there is no strategy file '" + text + "'")
      .hint("sizes are written with '=': did you mean '--" + option + " " +
            (is_number ? "tp=" + text : std::regex_replace(text, one, "$1=$2")) + "'?");
}

}  // namespace reshardfs
