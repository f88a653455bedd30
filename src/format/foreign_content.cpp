// SPDX-License-Identifier: Apache-2.0
#include "format/foreign_content.h"

#include <algorithm>
#include <array>
#include <exception>
#include <span>

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
    Kind{"<!DOCTYPE html"sv, {"a web page", "what was downloaded is not the file: try it again"}},
    Kind{"<html"sv, {"a web page", "what was downloaded is not the file: try it again"}},
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

}  // namespace

std::optional<ForeignContent> foreign_content(std::string_view begin) {
  for (const Kind& kind : kKinds) {
    if (begin.starts_with(kind.begin)) return kind.content;
  }
  if (is_strategy(begin)) {
    return ForeignContent{"a strategy file and no checkpoint",
                          "name it as strategy, and the checkpoint's directory as source"};
  }
  if (begin.size() >= kLooked && begin.find_first_not_of('\0') == std::string_view::npos) {
    return ForeignContent{
        "zero bytes where a checkpoint begins, as if a copy had not been finished",
        "copy it again"};
  }
  return {};
}

std::optional<ForeignContent> foreign_content(const ByteSource& source) noexcept {
  try {
    std::string begin(static_cast<std::size_t>(std::min<std::uint64_t>(source.size(), kLooked)), 0);
    source.read_at(0, std::as_writable_bytes(std::span(begin)));
    return foreign_content(begin);
  } catch (const std::exception&) {
    return {};
  }
}

}  // namespace reshardfs
