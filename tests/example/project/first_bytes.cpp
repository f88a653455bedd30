// SPDX-License-Identifier: Apache-2.0
/// Merges a checkpoint in memory: prints the files it would be, with their sizes and first bytes.
#include <array>
#include <cstdio>

#include <reshardfs/conversion.h>
#include <reshardfs/error.h>

int main(int argc, char** argv) try {
  if (argc != 3) return 2;
  const auto merged =
      reshardfs::Conversion::open({.source = {.path = argv[1], .strategy = argv[2]}});
  for (const auto& [path, file, hidden] : merged.files()) {
    if (hidden) continue;
    std::array<std::byte, 4> start{};
    file->read_at(0, start);
    std::printf("%s: %llu bytes, the first is %d\n", path.c_str(),
                static_cast<unsigned long long>(file->size()), std::to_integer<int>(start[0]));
  }
} catch (const reshardfs::Error& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
