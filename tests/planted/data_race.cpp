// SPDX-License-Identifier: Apache-2.0
// A planted bug: two threads count without a lock.
#include <thread>

namespace {

int count = 0;

void add() {
  for (int i = 0; i < 10'000; ++i) ++count;
}

}  // namespace

int main() {
  std::thread other(add);
  add();
  other.join();
  return count > 0 ? 0 : 1;
}
