// SPDX-License-Identifier: Apache-2.0
#include <string>
#include <vector>

#include "cli/app.h"

int main(int argc, char** argv) {
  // A program may be started without even a name.
  std::vector<std::string> words(argv, argv + argc);
  if (words.empty()) words.emplace_back("reshardfs");
  return reshardfs::run_command_line({words.begin() + 1, words.end()}, words.front());
}
