// SPDX-License-Identifier: Apache-2.0
/// no_memory_store --target=s3://BUCKET/PREFIX: whole exports to an object store.
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <string_view>

#include <gtest/gtest.h>

#include "export/object_target.h"
#include "exported.h"
#include "golden_case.h"

namespace reshardfs::no_memory {
namespace {

namespace fs = std::filesystem;

std::string& target() {
  static std::string target;
  return target;
}

/// test_no_memory_store.py looks at the bytes.
std::map<std::string, bool> sizes_of(const fs::path& directory,
                                     const Exported::Contents& contents) {
  std::set<std::string> paths;
  for (const auto& [path, bytes] : contents) paths.insert(path);
  std::map<std::string, bool> there;
  for (const auto& [path, found] : ObjectTarget(directory, "/nowhere").list(paths).files) {
    there[path] = found.size == contents.at(path).size();
  }
  return there;
}

void is_written_or_fails(const char* name, const ConversionOptions& options, std::size_t runs) {
  int number = 0;
  const auto place = [&] { return fs::path(target()) / name / std::to_string(++number); };
  Exported(options).is_written_or_fails(place, sizes_of, runs);
}

TEST(StoreExport, WritesWholeObjectsOrNone) {
  ConversionOptions options = options_of_case("tp4_to_pp2tp2");
  options.views = {ViewKind::kRanks};
  is_written_or_fails("small", options, 60);
}

TEST(StoreExport, OfSeveralPartsIsWholeOrNotThere) {
  const LargeSource source;
  is_written_or_fails("large", source.options(), 30);
}

int run(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  const std::string_view option = "--target=";
  const std::string_view word = argc == 2 ? argv[1] : "";
  if (!word.starts_with(option)) {
    std::fprintf(stderr, "--target=URL is missing\n");
    return 2;
  }
  target() = word.substr(option.size());
  return RUN_ALL_TESTS();
}

}  // namespace
}  // namespace reshardfs::no_memory

int main(int argc, char** argv) {
  const int code = reshardfs::no_memory::run(argc, argv);
  static_cast<void>(std::fflush(nullptr));
  // The engine's thread runs.
  ::_exit(code);
}
