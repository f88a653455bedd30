// SPDX-License-Identifier: Apache-2.0
/// Runs a fuzz target over files: fuzz_replay_<name> FILE|DIRECTORY... What the target finds wrong
/// ends the program, after the file's name.
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace {

namespace fs = std::filesystem;

/// @return whether it was quick enough.
bool replay(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  const std::string bytes((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
  // Last before a crash, this line tells which file it was.
  std::fprintf(stderr, "%s\n", file.c_str());
  const auto begin = std::chrono::steady_clock::now();
  LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size());
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  // Ten times what the fuzzer itself allows: this machine may have other things to do.
  if (took.count() < 10) return true;
  std::fprintf(stderr, "took %.1f s\n", took.count());
  return false;
}

}  // namespace

int main(int argc, char** argv) {
  std::size_t count = 0;
  bool good = true;
  for (int i = 1; i < argc; ++i) {
    if (!fs::is_directory(argv[i])) {
      good = replay(argv[i]) && good;
      ++count;
      continue;
    }
    for (const auto& entry : fs::directory_iterator(argv[i])) {
      good = replay(entry.path()) && good;
      ++count;
    }
  }
  std::fprintf(stderr, "%zu inputs\n", count);
  return good && count > 0 ? 0 : 1;
}
