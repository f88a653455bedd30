// SPDX-License-Identifier: Apache-2.0
#include "base/posix/mount_table.h"

#include <algorithm>
#include <cerrno>
#include <map>
#include <utility>

#include "reshardfs/error.h"

#include "base/posix/read_write.h"
#include "base/text/file_name.h"
#include "base/text/numbers.h"

namespace reshardfs {
namespace {

constexpr const char* kMountTable = "/proc/self/mountinfo";

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  for (;;) {
    const std::size_t end = text.find(separator);
    parts.push_back(text.substr(0, end));
    if (end == std::string_view::npos) return parts;
    text.remove_prefix(end + 1);
  }
}

/// "36 35 98:0 /root /mountpoint rw,noatime master:1 - ext3 /dev/root rw": after the sixth field
/// come any number of optional ones, then a lone "-".
std::optional<MountEntry> parse_line(std::string_view line) {
  constexpr std::size_t kFixedFields = 6;
  const std::vector<std::string_view> fields = split(line, ' ');
  if (fields.size() < kFixedFields) return {};
  const auto dash = std::find(fields.begin() + kFixedFields, fields.end(), "-");
  if (std::distance(dash, fields.end()) < 3) return {};
  MountEntry entry;
  const auto id = parse_number<decltype(entry.id)>(fields[0]);
  if (!id) return {};
  entry.id = *id;
  entry.device = fields[2];
  entry.mountpoint = unescape_mount_field(fields[4]);
  entry.type = unescape_mount_field(dash[1]);
  entry.source = unescape_mount_field(dash[2]);
  return entry;
}

/// @throws Error kIo
std::vector<MountEntry> read_mount_table() {
  const std::string text = text_of_file(kMountTable);  // which has at least the root's line
  if (text.empty()) throw io_error("read the list of mounts", kMountTable, errno);
  return parse_mount_table(text);
}

}  // namespace

std::string unescape_mount_field(std::string_view field) {
  std::string text;
  for (std::size_t i = 0; i < field.size(); ++i) {
    constexpr std::size_t kDigits = 3;
    const std::string_view digits = field.substr(i + 1, kDigits);
    const auto character = digits.size() == kDigits && field[i] == '\\'
                               ? parse_number<unsigned>(digits, 8)
                               : std::nullopt;
    text += character ? static_cast<char>(*character) : field[i];
    if (character) i += kDigits;
  }
  return text;
}

std::vector<MountEntry> parse_mount_table(std::string_view text) {
  std::vector<MountEntry> entries;
  for (const std::string_view line : split(text, '\n')) {
    if (auto entry = parse_line(line)) entries.push_back(std::move(*entry));
  }
  return entries;
}

std::optional<MountEntry> mount_at(const std::filesystem::path& path) {
  const std::vector<MountEntry> entries = read_mount_table();
  // A mount that covers another one at the same place comes after it.
  const auto covers = [&](const MountEntry& entry) { return entry.mountpoint == path.native(); };
  const auto it = std::find_if(entries.rbegin(), entries.rend(), covers);
  if (it == entries.rend()) return {};
  return *it;
}

std::optional<MountEntry> found_again(const MountEntry& mount) {
  for (const MountEntry& entry : read_mount_table()) {
    if (entry.id != mount.id || entry.device != mount.device) continue;
    const auto top = mount_at(entry.mountpoint);
    return top && top->id == entry.id ? top : std::nullopt;
  }
  return {};
}

std::vector<MountEntry> reshardfs_mounts() {
  // A mount that covers another one at the same place comes after it.
  std::map<std::string, MountEntry> topmost;
  for (MountEntry& entry : read_mount_table()) {
    std::string place = entry.mountpoint;
    topmost.insert_or_assign(std::move(place), std::move(entry));
  }
  std::vector<MountEntry> mounts;
  for (auto& [place, entry] : topmost) {
    if (is_reshardfs(entry)) mounts.push_back(std::move(entry));
  }
  return mounts;
}

void require_mount_path(const std::filesystem::path& path) {
  if (path.empty()) throw Error(ErrorKind::kUsage, "the path of the mount point is empty");
}

std::optional<MountEntry> find_mount(const std::filesystem::path& path) {
  namespace fs = std::filesystem;
  const auto is_ours = [](const auto& mount) { return mount && is_reshardfs(*mount); };
  require_mount_path(path);
  std::error_code ignored;
  const fs::path plain = without_trailing_slash(fs::absolute(path).lexically_normal());
  // The spelling that needs no look at the mount itself comes first: the mount may be dead, or may
  // not answer.
  auto mount = mount_at(plain);
  if (!is_ours(mount)) {
    const fs::path parent = fs::weakly_canonical(plain.parent_path(), ignored);
    if (!ignored) mount = mount_at(parent / plain.filename());
  }
  if (!is_ours(mount)) {
    const fs::path real = fs::canonical(plain, ignored);
    if (!ignored) mount = mount_at(real);
  }
  return mount;
}

}  // namespace reshardfs
