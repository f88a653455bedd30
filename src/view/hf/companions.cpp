// SPDX-License-Identifier: Apache-2.0
#include "view/hf/companions.h"

#include "base/text/glob.h"
#include "storage/local/directory.h"

namespace reshardfs {
namespace {

const NameGlobs taken{"*.json",     "*.jinja",   "*.model",  "*.model.*", "*.tiktoken", "*.py",
                      "merges.txt", "vocab.txt", "LICENSE*", "NOTICE*",   "README*"};
const NameGlobs never_taken{"*.index.json", "*.safetensors", "*.bin", "*.pt", "*.ckpt", "*.gguf",
                            // Without the adapter's weights, it would make loaders ask for them.
                            "adapter_config.json"};

}  // namespace

bool is_companion(const std::string& file_name) {
  return matches_any(taken, file_name) && !matches_any(never_taken, file_name);
}

std::vector<std::filesystem::path> companions_in(const std::filesystem::path& directory) {
  std::vector<std::filesystem::path> files;
  for (const DirectoryEntry& entry : list_directory(directory)) {
    if (entry.is_regular && is_companion(entry.name)) files.push_back(directory / entry.name);
  }
  return files;
}

}  // namespace reshardfs
