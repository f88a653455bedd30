// SPDX-License-Identifier: Apache-2.0
// The program that the precompiled headers belong to. It does nothing.
int main() {
  return 0;
}
