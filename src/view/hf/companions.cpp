// SPDX-License-Identifier: Apache-2.0
#include "view/hf/companions.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <set>
#include <string_view>

#include "reshardfs/error.h"

#include "base/json/json_value.h"
#include "base/text/glob.h"
#include "storage/local/directory.h"

namespace reshardfs {
namespace {

namespace fs = std::filesystem;

const NameGlobs taken{"*.json", "*.jinja", "*.model", "*.model.*", "*.tiktoken", "*.py",
                      "*.txt",  "*.yaml",  "*.yml",   "LICENSE*",  "NOTICE*",    "README*"};
const NameGlobs never_taken{"zero_to_fp32.py", "*.index.json", "*.index.*.json",
                            "*.safetensors",   "*.bin",        "*.pt",
                            "*.ckpt",          "*.gguf",       "latest_*"};

constexpr std::uint64_t kMaxModulesBytes = 1 << 20U;
/// Folders of a module that are inside each other.
constexpr int kMostDepth = 4;

bool is_hidden(const std::string& name) {
  return name.starts_with('.') || name == "__pycache__";
}

/// "1_Pooling", "query_0_StaticEmbedding".
bool is_numbered_module(std::string_view name) {
  const std::size_t last = name.rfind('_');
  if (last == std::string_view::npos || last + 1 == name.size()) return false;
  const std::string_view before = name.substr(0, last);
  const std::size_t number = before.rfind('_') + 1;  // 0: there is none
  const std::string_view digits = before.substr(number);
  return !digits.empty() && digits.find_first_not_of("0123456789") == std::string_view::npos &&
         name.find_first_not_of("0123456789", last + 1) != std::string_view::npos;
}

/// Of a run, with weights of its own: "checkpoint-500", "global_step10", "rank_0".
bool is_of_training(std::string_view name) {
  constexpr std::array<std::string_view, 7> kBegins{"checkpoint", "global_step", "iter", "step",
                                                    "epoch",      "rank_",       "run"};
  return std::any_of(kBegins.begin(), kBegins.end(),
                     [&](std::string_view begin) { return name.starts_with(begin); });
}

/// The folders that modules.json names; none if there is no such list.
std::set<std::string> named_modules(const fs::path& directory, const SourceTreePtr& tree) {
  std::set<std::string> names;
  const auto document =
      JsonDocument::parse(read_small_file(directory / "modules.json", kMaxModulesBytes, tree));
  if (!document || !document->value().is_list()) return names;
  for (const JsonValue module : document->value()) {
    const auto path = module.is_object() ? module.find("path") : std::nullopt;
    if (path && path->text()) names.emplace(*path->text());
  }
  return names;
}

/// All files in a folder and in its own folders.
void add_all(const fs::path& directory, const fs::path& below, const SourceTreePtr& tree, int depth,
             std::vector<fs::path>& out) {
  for (const DirectoryEntry& entry : list_directory(directory / below, tree)) {
    if (is_hidden(entry.name)) continue;
    if (entry.is_regular) out.push_back(below / entry.name);
    if (entry.is_directory && depth < kMostDepth) {
      add_all(directory, below / entry.name, tree, depth + 1, out);
    }
  }
}

}  // namespace

bool is_companion(const std::string& file_name) {
  return matches_any(taken, file_name) && !matches_any(never_taken, file_name);
}

Companions companions_in(const fs::path& directory, const SourceTreePtr& tree) {
  const std::vector<DirectoryEntry> entries = list_directory(directory, tree);
  Companions out;
  std::set<std::string> modules;
  for (const DirectoryEntry& entry : entries) {
    if (!entry.is_regular || !is_companion(entry.name)) continue;
    out.files.emplace_back(entry.name);
    if (entry.name == "modules.json") modules = named_modules(directory, tree);
  }
  for (const DirectoryEntry& entry : entries) {
    const std::string& name = entry.name;
    if (!entry.is_directory || is_hidden(name)) continue;
    if (modules.contains(name) || is_numbered_module(name)) {
      add_all(directory, name, tree, 1, out.files);
    } else if (name == "additional_chat_templates" || name == "chat_templates") {
      for (const DirectoryEntry& file : list_directory(directory / name, tree)) {
        if (file.is_regular && is_companion(file.name))
          out.files.push_back(fs::path(name) / file.name);
      }
    } else if (!is_of_training(name)) {
      out.left_out.push_back(name);
    }
  }
  return out;
}

}  // namespace reshardfs
