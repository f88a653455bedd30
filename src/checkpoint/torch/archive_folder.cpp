// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/torch/archive_folder.h"

#include <algorithm>
#include <cstddef>
#include <map>
#include <set>
#include <span>
#include <string_view>

#include "reshardfs/error.h"

#include "base/text/text.h"
#include "format/torch/torch_archive.h"

namespace reshardfs {
namespace {

namespace fs = std::filesystem;

/// A name with one mark for each number, and the numbers without leading zeros.
std::pair<std::string, std::string> parted(std::string_view name) {
  constexpr char kMark = '#';
  std::string words;
  std::string numbers;
  for (const char c : name) {
    if (c < '0' || c > '9') {
      words += c;
      continue;
    }
    if (words.empty() || words.back() != kMark) {
      words += kMark;
      numbers += ' ';
    }
    if (c != '0' || numbers.back() != ' ') numbers += c;
  }
  return {std::move(words), std::move(numbers)};
}

bool has_other_numbers(const std::string& folder, const std::string& name) {
  const auto [words, numbers] = parted(folder);
  const auto [own_words, own_numbers] = parted(name);
  return words == own_words && numbers != own_numbers;
}

}  // namespace

std::string archive_folder(const ByteSource& file) {
  constexpr std::uint64_t kHeaderBytes = 30;
  constexpr std::size_t kNameLength = 26;  ///< where it is in the header
  if (file.size() <= kHeaderBytes || !begins_like_torch_zip(file)) return {};
  constexpr std::uint64_t kMostBytes = 512;
  std::string bytes(static_cast<std::size_t>(std::min(file.size(), kMostBytes)), '\0');
  file.read_at(0, std::as_writable_bytes(std::span(bytes)));
  const auto byte = [&](std::size_t at) { return static_cast<unsigned char>(bytes[at]); };
  const std::size_t length = byte(kNameLength) | static_cast<std::size_t>(byte(kNameLength + 1))
                                                     << 8U;
  const std::string_view entry = std::string_view(bytes).substr(kHeaderBytes, length);
  return std::string(entry.substr(0, std::min(entry.find('/'), entry.size())));
}

void state_saved_names(const SavedNames& files, Completeness& out) {
  std::set<fs::path> names;
  for (const auto& [path, folder] : files) names.insert(path.parent_path() / path.stem());
  std::map<fs::path, std::vector<std::string>> saved;  // of each name that is not a file's own
  std::map<fs::path, std::string> own;
  std::vector<std::string> renamed;
  for (const auto& [path, folder] : files) {
    const fs::path place = path.parent_path() / folder;
    const std::string stem = path.stem().string();
    const std::string name = path.filename().string();
    if (folder == stem) {
      own.emplace(place, name);
    } else if (has_other_numbers(folder, stem) || names.contains(place)) {
      saved[place].push_back(name);
      renamed.push_back("'" + printable(name) + "' as '" + printable(folder) + "'");
    }
  }
  for (auto& [place, of_name] : saved) {
    if (const auto first = own.find(place); first != own.end()) of_name.push_back(first->second);
    if (of_name.size() == 1) continue;
    throw Error(ErrorKind::kBadInput, "'" + printable(of_name[0]) + "' and '" +
                                          printable(of_name[1]) + "' were both saved as '" +
                                          printable(place.filename().string()) +
                                          "': one of them is a copy, or of another save")
        .in_file(place.parent_path().string())
        .hint("bring the right file");
  }
  if (renamed.empty()) return;
  constexpr std::size_t kShown = 8;
  std::string list;
  for (std::size_t i = 0; i < std::min(renamed.size(), kShown); ++i) {
    list += (i == 0 ? "" : ", ") + renamed[i];
  }
  if (renamed.size() > kShown) list += " and " + std::to_string(renamed.size() - kShown) + " more";
  out.doubts.push_back("saved under other names: " + list +
                       "; if files were exchanged, the model is wrong");
}

void state_saved_names(const std::vector<RankFile>& files, Completeness& out) {
  SavedNames names;
  for (const RankFile& file : files) {
    if (file.of_torch()) names.emplace_back(file.path, archive_folder(*file.saved));
  }
  state_saved_names(names, out);
}

}  // namespace reshardfs
