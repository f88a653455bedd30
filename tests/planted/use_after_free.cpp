// SPDX-License-Identifier: Apache-2.0
// A planted bug. The pointers are volatile so that no compiler sees it.
int main() {
  int* volatile number = new int(7);
  delete number;
  return *number == 7 ? 0 : 1;
}
