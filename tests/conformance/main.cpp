// SPDX-License-Identifier: Apache-2.0
#include <unistd.h>

#include <cstdio>

#include "conformance/suite.h"

int main(int argc, char** argv) {
  const int code = reshardfs::conformance::run_suite(argc, argv);
  static_cast<void>(std::fflush(nullptr));
  // Threads of libraries may run.
  ::_exit(code);
}
