// SPDX-License-Identifier: Apache-2.0
// A planted bug: the byte behind a block. Volatile, so that no compiler leaves the access out.
#include <cstddef>

int main() {
  volatile std::size_t size = 16;
  volatile char* volatile bytes = new char[size];
  bytes[size] = 'x';
  delete[] bytes;
  return 0;
}
