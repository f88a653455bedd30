// SPDX-License-Identifier: Apache-2.0
#include <string>
#include <vector>

#include "cli/app.h"

int main(int argc, char** argv) {
  return reshardfs::run_command_line(std::vector<std::string>(argv + 1, argv + argc));
}
