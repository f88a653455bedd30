// SPDX-License-Identifier: Apache-2.0
#include <filesystem>
#include <string>

#include "fuzz/fuzzing.h"
#include "storage/backend.h"
#include "storage/location.h"
#include "support/temp_dir.h"

using namespace reshardfs;
using fuzz::require;

namespace {

constexpr std::size_t kMaxBytes = 4096;  // all lists are kept

/// @return the number of files in a directory.
std::size_t walk(const std::filesystem::path& directory) {
  const Backend& backend = url_list_backend();
  require(backend.kind(directory) == PathKind::kDirectory, "a directory that is none");
  std::size_t files = 0;
  std::string before;
  for (const DirectoryEntry& entry : backend.list(directory)) {
    require(entry.name > before, "entries are not in order, or there are two of one name");
    before = entry.name;
    require(entry.name != "." && entry.name != ".." && entry.name.find('/') == std::string::npos,
            "a name that leads elsewhere");
    const std::filesystem::path path = directory / entry.name;
    if (entry.is_directory) {
      files += walk(path);
    } else {
      require(backend.kind(path) == PathKind::kOther, "a file that is none");
      ++files;
    }
  }
  require(files > 0, "an empty directory");
  return files;
}

}  // namespace

/// The input is a JSON list of URLs.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const test::TempDir directory;
  static unsigned long lists = 0;
  if (size > kMaxBytes) return 0;
  const std::string text(reinterpret_cast<const char*>(data), size);
  const auto path = directory.write(std::to_string(++lists) + ".json", text);
  fuzz::may_refuse([&] { walk(absolute_source(path.string())); });
  std::filesystem::remove(path);
  return 0;
}
