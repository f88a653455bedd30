// SPDX-License-Identifier: Apache-2.0
// A planted bug: a bool that is neither.
int main() {
  unsigned char byte = 2;
  unsigned char* volatile place = &byte;
  return *reinterpret_cast<bool*>(place) ? 0 : 1;
}
