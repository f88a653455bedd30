// SPDX-License-Identifier: Apache-2.0
/// Files and directories of this machine, among them those of network file systems.
#include <array>

#include "storage/backend.h"
#include "storage/local/measured_file.h"

namespace reshardfs {
namespace {

class FileBackend final : public Backend {
 public:
  std::span<const std::string_view> schemes() const noexcept override {
    static constexpr std::array<std::string_view, 1> kSchemes{""};
    return kSchemes;
  }
  ByteSourcePtr open(const std::filesystem::path& location) const override {
    return measured(open_local_file(location));
  }
  std::vector<DirectoryEntry> list(const std::filesystem::path& location) const override {
    return list_directory(location);
  }
  PathKind kind(const std::filesystem::path& location) const override {
    return path_kind(location);
  }
};

}  // namespace

const Backend& file_backend() {
  static const FileBackend backend;
  return backend;
}

}  // namespace reshardfs
