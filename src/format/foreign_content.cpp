// SPDX-License-Identifier: Apache-2.0
#include "format/foreign_content.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <exception>
#include <span>

#include "format/encrypted.h"

using namespace std::string_view_literals;

namespace reshardfs {
namespace {

/// As many bytes as are looked at.
constexpr std::size_t kLooked = 64;

struct Kind {
  std::string_view begin;
  ForeignContent content;
};

constexpr std::string_view kUnpack = "unpack it";
constexpr std::string_view kConvert = "save it with MindSpore, or as safetensors";
constexpr std::string_view kOther = "name a .ckpt or .safetensors file, or a directory of them";

// Each of these would be a damaged record to a reader of .ckpt files, and a header of absurd length
// to one of safetensors.
constexpr std::array kKinds{
    Kind{
        "version https://git-lfs.github.com/spec/"sv,
        {"a pointer of Git LFS and not the file itself", "run 'git lfs pull' where it comes from"}},
    Kind{"\x1f\x8b"sv, {"compressed with gzip", kUnpack}},
    Kind{"\x28\xb5\x2f\xfd"sv, {"compressed with zstd", kUnpack}},
    Kind{"\xfd\x37zXZ\0"sv, {"compressed with xz", kUnpack}},
    Kind{"PK\x03\x04"sv, {"a ZIP archive, as PyTorch saves them", kConvert}},
    Kind{"\x80\x02}"sv, {"a Python pickle", kConvert}},
    Kind{"\x80\x02\x8a\x0al\xfc\x9c\x46\xf9\x20"sv, {"a pickle of PyTorch", kConvert}},
    Kind{"\x80\x04\x95"sv, {"a Python pickle", kConvert}},
    Kind{"\x89HDF\r\n"sv, {"an HDF5 file", kConvert}},
    Kind{"\x93NUMPY"sv, {"a NumPy array", kConvert}},
    Kind{"\x89PNG\r\n"sv, {"a PNG image, not a checkpoint", kOther}},
    Kind{"\xff\xd8\xff"sv, {"a JPEG image, not a checkpoint", kOther}},
    Kind{"%PDF-"sv, {"a PDF document, not a checkpoint", kOther}},
    Kind{"\x7f"
         "ELF"sv,
         {"a program, not a checkpoint", kOther}},
    Kind{"<!DOCTYPE html"sv, {"a web page", "the download failed; repeat it"}},
    Kind{"<html"sv, {"a web page", "the download failed; repeat it"}},
};

/// MindSpore writes the number of the stage first, as a number, where a checkpoint has a record;
/// then come operators (field 2) or layouts (field 3).
bool is_strategy(std::string_view begin) {
  if (begin.size() < 3 || begin[0] != '\x08') return false;
  const auto end = std::find_if(begin.begin() + 1, begin.end(),
                                [](char c) { return (static_cast<unsigned char>(c) & 0x80) == 0; });
  if (end == begin.end() || end + 1 == begin.end()) return false;
  return end[1] == '\x12' || end[1] == '\x1a';
}

/// @throws Error as ByteSource::read_at().
std::string beginning_of(const ByteSource& source) {
  std::string begin(static_cast<std::size_t>(std::min<std::uint64_t>(source.size(), kLooked)), 0);
  source.read_at(0, std::as_writable_bytes(std::span(begin)));
  return begin;
}

/// A record of a .ckpt file begins with a line feed.
bool is_text(std::string_view begin) {
  const auto is_of_text = [](char c) {
    const auto byte = static_cast<unsigned char>(c);
    return (byte >= 0x20 && byte != 0x7f) || c == '\n' || c == '\t' || c == '\r';
  };
  const auto is_printable_ascii = [](char c) { return c >= 0x20 && c < 0x7f; };
  return !begin.empty() && is_printable_ascii(begin.front()) &&
         std::all_of(begin.begin(), begin.end(), is_of_text);
}

/// Takes a number of protobuf from the beginning; nothing if it does not end there.
std::optional<std::uint64_t> take_varint(std::string_view& bytes) {
  constexpr int kBits = 7;
  constexpr int kMostBits = 63;
  std::uint64_t value = 0;
  for (int shift = 0; shift <= kMostBits && !bytes.empty(); shift += kBits) {
    const auto byte = static_cast<unsigned char>(bytes.front());
    bytes.remove_prefix(1);
    value |= static_cast<std::uint64_t>(byte & 0x7fU) << static_cast<unsigned>(shift);
    if ((byte & 0x80U) == 0) return value;
  }
  return {};
}

/// A record (field 1) that begins with a name (field 1), behind which its tensor or map is (fields
/// 2 and 3), as far as it is there.
bool is_ckpt(std::string_view begin) {
  constexpr std::uint64_t kLongestName = 4096;
  if (!begin.starts_with('\x0a')) return false;
  begin.remove_prefix(1);
  const auto record = take_varint(begin);
  if (!record || !begin.starts_with('\x0a')) return false;
  begin.remove_prefix(1);
  const auto name = take_varint(begin);
  if (!name || *name == 0 || *name > kLongestName || *name >= *record) return false;
  if (*name >= begin.size()) return true;
  const char next = begin[static_cast<std::size_t>(*name)];
  return next == '\x12' || next == '\x1a';
}

/// The length of a header of JSON, and its beginning.
bool is_safetensors(std::string_view begin) {
  constexpr std::size_t kLengthBytes = 8;
  // The lowest byte comes first; five can count more bytes than any header has.
  return begin.size() > kLengthBytes && begin[kLengthBytes] == '{' &&
         begin.substr(5, 3) == std::string_view("\0\0\0", 3);
}

}  // namespace

std::optional<ForeignContent> foreign_content(std::string_view begin) {
  for (const Kind& kind : kKinds) {
    if (begin.starts_with(kind.begin)) return kind.content;
  }
  if (is_strategy(begin)) {
    return ForeignContent{"a strategy file, not a checkpoint",
                          "name it as strategy, and the checkpoint's directory as source"};
  }
  if (begin.size() >= kLooked && begin.find_first_not_of('\0') == std::string_view::npos) {
    return ForeignContent{"zero bytes at the start, as an unfinished copy leaves them",
                          "copy it again"};
  }
  if (is_text(begin)) return ForeignContent{"a text file, not a checkpoint", kOther};
  return {};
}

bool is_checkpoint_content(std::string_view begin) {
  const bool is_encrypted = begin.size() >= kCipherMagicBytes &&
                            encryption_of(std::as_bytes(std::span(begin).first(kCipherMagicBytes)));
  return is_encrypted || is_safetensors(begin) || is_ckpt(begin);
}

std::optional<ForeignContent> foreign_content(const ByteSource& source) noexcept {
  try {
    return foreign_content(beginning_of(source));
  } catch (const std::exception&) {
    return {};
  }
}

bool is_checkpoint_content(const ByteSource& source) noexcept {
  try {
    return is_checkpoint_content(beginning_of(source));
  } catch (const std::exception&) {
    return false;
  }
}

}  // namespace reshardfs
