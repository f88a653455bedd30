// SPDX-License-Identifier: Apache-2.0
#include <string>
#include <string_view>

#include "fuzz/fuzzing.h"
#include "transport/http_message.h"
#include "transport/retry_schedule.h"

using namespace reshardfs;
using fuzz::require;

namespace {

void check_range(std::string_view text) {
  const auto range = parse_content_range(text);
  if (!range) return;
  require(range->first <= range->last && range->last < range->size, "a range that is none");
  const std::string again = "bytes " + std::to_string(range->first) + "-" +
                            std::to_string(range->last) + "/" + std::to_string(range->size);
  require(parse_content_range(again) == range, "another range");
}

void check_wait(std::string_view text, std::int64_t date, std::int64_t now) {
  const auto wait = parse_retry_after(text, date, now);
  require(!wait || (wait->count() >= 0 && *wait <= std::chrono::hours(1)), "a wait without end");
}

}  // namespace

/// The input is the head of an answer: a line for each header.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  HttpHead head;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size() - 1) + 1;
    head.add_line(text.substr(begin, end - begin));
    begin = end;
  }
  for (const auto& [name, value] : head.headers) {
    require(head.find(name) != nullptr, "a header is not found");
    for (const char c : name) require(c < 'A' || c > 'Z', "a name in upper case");
    require(name.find(':') == std::string::npos, "a name with a colon");
    check_range(value);
    check_wait(value, -1, 1'700'000'000);
    const auto number = parse_decimal(value);
    check_wait("x", number ? static_cast<std::int64_t>(*number) : -1, 1'700'000'000);
    require(!number || static_cast<std::int64_t>(*number) >= 0, "more than 63 bits");
    require(!is_strong_etag(value) || !value.starts_with("W/"), "a weak ETag is strong");
  }
  check_range(text);
  check_wait(text, -1, 0);
  return 0;
}
