// SPDX-License-Identifier: Apache-2.0
// A planted bug: a number at an odd address.
#include <cstdint>

int main() {
  alignas(std::uint64_t) char bytes[16] = {};
  char* volatile odd = bytes + 1;
  return static_cast<int>(*reinterpret_cast<std::uint64_t*>(odd));
}
