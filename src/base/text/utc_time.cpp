// SPDX-License-Identifier: Apache-2.0
#include "base/text/utc_time.h"

#include <array>
#include <ctime>

namespace reshardfs {

std::string utc_time(std::int64_t ns) {
  constexpr std::int64_t kSecond = 1'000'000'000;
  const std::time_t seconds = ns / kSecond - (ns % kSecond < 0 ? 1 : 0);
  std::tm parts{};
  if (gmtime_r(&seconds, &parts) == nullptr) return "?";
  std::array<char, 40> out{};
  const std::size_t length = std::strftime(out.data(), out.size(), "%Y-%m-%dT%H:%M:%SZ", &parts);
  return {out.data(), length};
}

}  // namespace reshardfs
