// SPDX-License-Identifier: Apache-2.0
// A planted bug: the only pointer to a block goes.
int main() {
  char* volatile bytes = new char[1000];
  bytes[0] = 'x';
  bytes = nullptr;
  return 0;
}
