// SPDX-License-Identifier: Apache-2.0
// A planted bug.
#include <limits>

int main() {
  volatile int number = std::numeric_limits<int>::max();
  number = number + 1;
  return 0;
}
