// SPDX-License-Identifier: Apache-2.0
#include "format/foreign_content.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <exception>
#include <span>

#include "format/encrypted/encrypted.h"
#include "format/torch/torch_archive.h"

using namespace std::string_view_literals;

namespace reshardfs {
namespace {

/// The number of bytes that are examined: the header of a tar archive.
constexpr std::size_t kLooked = 512;

struct Kind {
  std::string_view begin;
  ForeignContent content;
};

constexpr std::string_view kUnpack = "unpack it";
constexpr std::string_view kOther = "name a .ckpt or .safetensors file, or a directory of them";
constexpr std::string_view kFromPickle =
    "it is not opened, because a pickle can run any code: load it with the program that wrote it, "
    "and save the tensors as safetensors";
constexpr std::string_view kFromNumpy =
    "load it with NumPy, and save the arrays with safetensors.numpy.save_file()";
constexpr std::string_view kFromOther =
    "load it with the program that wrote it, and save the tensors as safetensors";

// Each of these would be a damaged record to a reader of .ckpt files, and a header of absurd length
// to one of safetensors.
constexpr std::array kKinds{
    Kind{
        "version https://git-lfs.github.com/spec/"sv,
        {"a pointer of Git LFS and not the file itself", "run 'git lfs pull' where it comes from"}},
    Kind{"\x00\x05\x16\x07"sv,
         {"a file in which macOS keeps attributes of another one",
          "delete it; the file itself has the same name without '._'"}},
    Kind{"\x1f\x8b"sv, {"compressed with gzip", kUnpack}},
    Kind{"\x28\xb5\x2f\xfd"sv, {"compressed with zstd", kUnpack}},
    Kind{"\xfd\x37zXZ\0"sv, {"compressed with xz", kUnpack}},
    Kind{"BZh"sv, {"compressed with bzip2", kUnpack}},
    Kind{"\x04\x22\x4d\x18"sv, {"compressed with lz4", kUnpack}},
    Kind{"\x80\x02"sv, {"a Python pickle", kFromPickle, true}},
    Kind{"\x80\x03"sv, {"a Python pickle", kFromPickle, true}},
    Kind{"\x80\x04"sv, {"a Python pickle", kFromPickle, true}},
    Kind{"\x80\x05"sv, {"a Python pickle", kFromPickle, true}},
    Kind{"\x89HDF\r\n"sv, {"an HDF5 file, as Keras writes them", kFromOther, true}},
    Kind{"\x93NUMPY"sv, {"a NumPy array", kFromNumpy, true}},
    Kind{"GGUF"sv, {"a GGUF file, as llama.cpp reads them", kNameItsModel, true}},
    Kind{"ggml"sv, {"a GGML file of llama.cpp", kNameItsModel, true}},
    Kind{"lmgg"sv, {"a GGML file of llama.cpp", kNameItsModel, true}},
    Kind{"tjgg"sv, {"a GGML file of llama.cpp", kNameItsModel, true}},
    Kind{"PAR1"sv, {"a Parquet file, not a checkpoint", kOther}},
    Kind{"\x89PNG\r\n"sv, {"a PNG image, not a checkpoint", kOther}},
    Kind{"\xff\xd8\xff"sv, {"a JPEG image, not a checkpoint", kOther}},
    Kind{"%PDF-"sv, {"a PDF document, not a checkpoint", kOther}},
    Kind{"\x7f"
         "ELF"sv,
         {"a program, not a checkpoint", kOther}},
    Kind{"<!DOCTYPE html"sv, {"a web page", "the download failed; repeat it"}},
    Kind{"<!doctype html"sv, {"a web page", "the download failed; repeat it"}},
    Kind{"<html"sv, {"a web page", "the download failed; repeat it"}},
    Kind{"<?xml"sv,
         {"an XML document, as a server answers with an error", "read it; repeat the download"}},
};

/// By the name of the archive's first file. Nothing if it is what torch.save writes.
std::optional<ForeignContent> zip_content(std::string_view begin) {
  constexpr std::size_t kLengthAt = 26;
  constexpr std::size_t kNameAt = 30;
  std::string_view name;
  if (begin.size() > kNameAt) {
    const auto low = static_cast<unsigned char>(begin[kLengthAt]);
    const auto high = static_cast<unsigned char>(begin[kLengthAt + 1]);
    name = begin.substr(kNameAt, low + (static_cast<std::size_t>(high) << 8U));
  }
  // torch.save() begins with <name>/data.pkl, other releases and TorchScript with others.
  if (name.ends_with("/data.pkl") || name.ends_with("/version") || name.ends_with("/byteorder") ||
      name.ends_with("/.format_version") || name.ends_with("/constants.pkl")) {
    return std::nullopt;
  }
  if (name.ends_with(".npy")) return ForeignContent{"an .npz archive of NumPy", kFromNumpy, true};
  if (name.starts_with("metadata.json") || name.starts_with("config.json")) {
    return ForeignContent{"a .keras archive", kFromOther, true};
  }
  return ForeignContent{"a ZIP archive, not a checkpoint", kUnpack};
}

bool is_word_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
         c == '-' || c == '.';
}

/// ModelProto: the version of its form, then the producer's name (field 2) or the graph (field 7).
/// https://github.com/onnx/onnx, onnx/onnx.proto
bool is_onnx(std::string_view begin) {
  constexpr char kOldest = 3;
  constexpr char kNewest = 32;
  if (begin.size() < 5 || begin[0] != '\x08' || begin[1] < kOldest || begin[1] > kNewest) {
    return false;
  }
  if (begin[2] == '\x3a') return true;
  const auto length = static_cast<unsigned char>(begin[3]);
  return begin[2] == '\x12' && length > 0 && length < 0x80 && is_word_letter(begin[4]);
}

/// A map of at least one entry whose first key is a short text: what Flax writes.
/// https://github.com/msgpack/msgpack/blob/master/spec.md
bool is_msgpack(std::string_view begin) {
  std::size_t at = 1;
  if (begin.size() < 8) return false;
  const auto first = static_cast<unsigned char>(begin[0]);
  if (first == 0xde) at = 3;
  if (first != 0xde && (first < 0x81 || first > 0x8f)) return false;
  const auto text = static_cast<unsigned char>(begin[at]);
  std::size_t length = text & 0x1fU;
  if (text == 0xd9) {
    length = static_cast<unsigned char>(begin[++at]);
  } else if (text < 0xa1 || text > 0xbf) {
    return false;
  }
  const std::string_view key = begin.substr(at + 1, length);
  return key.size() == length && !key.empty() &&
         std::all_of(key.begin(), key.end(), [](char c) { return is_word_letter(c) || c == '/'; });
}

bool is_tar(std::string_view begin) {
  constexpr std::size_t kMagicAt = 257;
  return begin.size() > kMagicAt && begin.substr(kMagicAt).starts_with("ustar");
}

bool is_tflite(std::string_view begin) {
  return begin.size() > 8 && begin.substr(4, 4) == "TFL3";
}

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
  if (is_torch_stream(begin)) return std::nullopt;
  for (const Kind& kind : kKinds) {
    if (begin.starts_with(kind.begin)) return kind.content;
  }
  if (begin.starts_with("PK\x03\x04")) return zip_content(begin);
  if (is_onnx(begin)) return ForeignContent{"an ONNX model", kNameItsModel, true};
  if (is_tflite(begin)) return ForeignContent{"a TensorFlow Lite model", kNameItsModel, true};
  if (is_tar(begin)) return ForeignContent{"a tar archive", kUnpack};
  if (is_msgpack(begin)) {
    return ForeignContent{"a msgpack file, as Flax writes them",
                          "load it with Flax, and save the arrays with "
                          "safetensors.flax.save_file()",
                          true};
  }
  if (is_strategy(begin)) {
    return ForeignContent{"a strategy file, not a checkpoint",
                          "name it as strategy, and the checkpoint's directory as source"};
  }
  constexpr std::size_t kZeroBytes = 64;
  if (begin.size() >= kZeroBytes && begin.find_first_not_of('\0') == std::string_view::npos) {
    return ForeignContent{"zero bytes at the start, as an unfinished copy leaves them",
                          "copy it again"};
  }
  if (is_text(begin)) return ForeignContent{"a text file, not a checkpoint", kOther};
  return {};
}

bool is_checkpoint_content(std::string_view begin) {
  const bool is_encrypted = begin.size() >= kCipherMagicBytes &&
                            encryption_of(std::as_bytes(std::span(begin).first(kCipherMagicBytes)));
  const bool is_torch = begins_like_torch(begin) && !foreign_content(begin);
  return is_encrypted || is_torch || is_safetensors(begin) || is_ckpt(begin);
}

std::optional<ForeignContent> foreign_content(const ByteSource& source) noexcept {
  try {
    return foreign_content(beginning_of(source));
  } catch (const std::exception&) {
    return {};
  }
}

bool is_text_content(const ByteSource& source) noexcept {
  try {
    return is_text(beginning_of(source));
  } catch (const std::exception&) {
    return false;
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
