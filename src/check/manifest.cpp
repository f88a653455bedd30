// SPDX-License-Identifier: Apache-2.0
#include "check/manifest.h"

#include <algorithm>
#include <cctype>
#include <optional>

#include "reshardfs/error.h"

#include "base/byte_range.h"
#include "base/sha256.h"
#include "storage/byte_source.h"
#include "storage/local/directory.h"
#include "storage/local/linkless_tree.h"

namespace reshardfs {
namespace {

constexpr std::uint64_t kMaxManifestBytes = 64U << 20U;
constexpr std::size_t kDigits = 64;

/// Of a line that begins with a backslash: "\\" and "\n", "\r" stand for one byte each.
std::optional<std::string> unescape(const std::string& text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '\\') {
      out += text[i];
      continue;
    }
    if (++i == text.size()) return std::nullopt;
    switch (text[i]) {
      case '\\':
        out += '\\';
        break;
      case 'n':
        out += '\n';
        break;
      case 'r':
        out += '\r';
        break;
      default:
        return std::nullopt;
    }
  }
  return out;
}

std::optional<ManifestLine> parse_line(std::string line) {
  const bool escaped = line.starts_with('\\');
  if (escaped) line.erase(0, 1);
  // Digits, a blank, then a blank (text) or '*' (binary), which mean the same here.
  if (line.size() < kDigits + 3 || line[kDigits] != ' ') return std::nullopt;
  if (line[kDigits + 1] != ' ' && line[kDigits + 1] != '*') return std::nullopt;
  ManifestLine out{line.substr(kDigits + 2), line.substr(0, kDigits)};
  for (char& digit : out.sha256) {
    const auto byte = static_cast<unsigned char>(digit);
    if (std::isxdigit(byte) == 0) return std::nullopt;
    digit = static_cast<char>(std::tolower(byte));
  }
  if (!escaped) return out;
  const std::optional<std::string> name = unescape(out.name);
  if (!name) return std::nullopt;
  out.name = *name;
  return out;
}

}  // namespace

std::vector<ManifestLine> read_manifest(const std::filesystem::path& path) {
  const std::string text = read_small_file(path, kMaxManifestBytes);
  std::vector<ManifestLine> lines;
  std::size_t number = 0;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    std::string line = text.substr(begin, end - begin);
    begin = end + 1;
    ++number;
    if (line.ends_with('\r')) line.pop_back();
    if (line.empty() || line.starts_with('#')) continue;
    if (const auto parsed = parse_line(line)) {
      lines.push_back(*parsed);
      continue;
    }
    throw Error(ErrorKind::kBadInput,
                "line " + std::to_string(number) + " is not '<64 hexadecimal digits>  <file>'")
        .in_file(path.string())
        .hint("--against takes the output of sha256sum");
  }
  if (lines.empty()) {
    throw Error(ErrorKind::kBadInput, "names no file")
        .in_file(path.string())
        .hint("--against takes the output of sha256sum");
  }
  return lines;
}

std::string sha256_of_file(const std::filesystem::path& path, Progress& progress,
                           const LinklessTreePtr& tree) {
  const bool inside = tree && tree->holds(path);
  const ByteSourcePtr source = open_file(path, inside ? tree : nullptr);
  Sha256 sum;
  for_each_block(*source, ByteRange::whole(source->size()), [&](std::span<const std::byte> bytes) {
    sum.update(bytes);
    progress.add_bytes(bytes.size());
  });
  source->check_unchanged();
  return sum.finish();
}

}  // namespace reshardfs
