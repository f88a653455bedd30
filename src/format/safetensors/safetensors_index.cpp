// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <memory>
#include <numeric>
#include <optional>
#include <utility>
#include <vector>

#include "reshardfs/error.h"

#include "base/byte_range.h"
#include "base/checked.h"
#include "base/content_size.h"
#include "base/text/numbers.h"
#include "format/ckpt/ckpt.h"
#include "format/safetensors/safetensors.h"
#include "format/safetensors/safetensors_header.h"
#include "format/torch/dcp_sharding.h"

namespace reshardfs::safetensors {
namespace {

constexpr const char* kIncomplete = "the file is damaged or not complete";

Error bad_tensor(const std::string& message) {
  return Error(ErrorKind::kBadInput, message);
}

std::uint64_t read_header_length(const ByteSource& source) {
  if (source.size() < kLengthBytes) {
    throw bad_tensor("is not a safetensors file: it has only " + std::to_string(source.size()) +
                     " bytes");
  }
  std::array<std::byte, kLengthBytes> bytes{};
  source.read_at(0, bytes);
  std::uint64_t length = 0;
  for (std::size_t i = bytes.size(); i-- > 0;) {
    length = length << 8U | std::to_integer<std::uint64_t>(bytes.at(i));
  }
  const std::string states = "states a header of " + std::to_string(length) + " bytes";
  if (length > kMaxHeaderBytes) {
    throw bad_tensor("is not a safetensors file: it " + states + "; the limit is " +
                     std::to_string(kMaxHeaderBytes))
        .at_offset(0);
  }
  const std::uint64_t left = source.size() - kLengthBytes;
  if (length > left) {
    throw bad_tensor(states + ", but only " + std::to_string(left) + " are left in the file")
        .at_offset(0)
        .hint(kIncomplete);
  }
  return length;
}

struct File {
  std::unique_ptr<char[]> text;  ///< of the header, which refers to it
  ParsedHeader header;
  std::uint64_t data_begin = 0;  ///< bytes from the file's start
};

File read_header(const ByteSource& source) {
  const auto length = static_cast<std::size_t>(read_header_length(source));
  auto text = std::make_unique_for_overwrite<char[]>(length);
  source.read_at(kLengthBytes, std::as_writable_bytes(std::span(text.get(), length)));
  ParsedHeader header = parse_header({text.get(), length});
  return {std::move(text), std::move(header), kLengthBytes + length};
}

void check_size(const ParsedTensor& tensor) {
  if (tensor.begin > tensor.end) {
    throw bad_tensor("its data_offsets [" + std::to_string(tensor.begin) + ", " +
                     std::to_string(tensor.end) + "] end before they begin");
  }
  if (!tensor.is_known) return;
  const auto needed =
      static_cast<std::uint64_t>(content_size(tensor.shape, tensor.dtype, "the content's size"));
  const std::uint64_t found = tensor.end - tensor.begin;
  if (found == needed) return;
  throw bad_tensor("its data_offsets hold " + std::to_string(found) + " bytes, but " +
                   std::string(safetensors_name(tensor.dtype)) + " " + to_string(tensor.shape) +
                   " needs " + std::to_string(needed));
}

void check_sizes(const std::vector<ParsedTensor>& tensors) {
  for (const ParsedTensor& tensor : tensors) {
    try {
      check_size(tensor);
    } catch (Error& error) {
      error.for_parameter(std::string(tensor.name));
      throw;
    }
  }
}

/// The tensors, in the order of their bytes, must follow each other up to the file's end.
void check_places(const std::vector<ParsedTensor>& tensors, std::uint64_t data_bytes) {
  std::uint64_t next = 0;
  for (const ParsedTensor& tensor : tensors) {
    if (tensor.begin != next) {
      const bool hole = tensor.begin > next;
      throw bad_tensor("begins at byte " + std::to_string(tensor.begin) + " of the data, but " +
                       (hole ? "the data before it ends at " : "overlaps another tensor up to ") +
                       std::to_string(next))
          .for_parameter(std::string(tensor.name));
    }
    next = tensor.end;
    if (next > data_bytes) {
      throw bad_tensor("its content ends at byte " + std::to_string(next) +
                       " of the data, but only " + std::to_string(data_bytes) + " are in the file")
          .for_parameter(std::string(tensor.name))
          .hint(kIncomplete);
    }
  }
  if (next == data_bytes) return;
  throw bad_tensor(std::to_string(data_bytes - next) +
                   " bytes follow the last tensor, expected none");
}

bool is_int4(const ParsedTensor& tensor, const ParsedHeader& header) {
  if (tensor.dtype != DType::kInt8) return false;
  const auto found = header.metadata.find(std::string(tensor.name));
  return found != header.metadata.end() && found->second == mindspore_name(DType::kInt4);
}

FileIndex make_index(File file, const ByteSource& source, const NameOrders* known) {
  std::vector<ParsedTensor>& tensors = file.header.tensors;
  if (tensors.empty()) throw bad_tensor("is not a checkpoint: it holds no parameter");
  check_sizes(tensors);
  // By the end too: of two that begin at the same place, one without elements stands first.
  const auto before = [](const auto& a, const auto& b) {
    return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
  };
  // Most writers list them in that order, and moving a million takes long.
  if (!std::is_sorted(tensors.begin(), tensors.end(), before)) {
    std::stable_sort(tensors.begin(), tensors.end(), before);
  }
  check_places(tensors, source.size() - file.data_begin);
  const PartOffsets parts = part_offsets(file.header, source.name());

  std::vector<TensorEntry> entries;
  entries.reserve(tensors.size());
  BoxOffsets boxes;
  std::vector<RefusedTensor> refused;
  for (const ParsedTensor& tensor : tensors) {
    if (!tensor.is_known) {
      std::string name(tensor.name);
      const std::string& type = file.header.unknown_types.at(name);
      refused.push_back({std::move(name), "its element type '" + type + "' is not known",
                         tensor.end - tensor.begin});
      continue;
    }
    TensorEntry& entry = entries.emplace_back();
    entry.dtype = is_int4(tensor, file.header) ? DType::kInt4 : tensor.dtype;
    entry.name = tensor.name;
    if (!parts.empty()) boxes.add(entries.size() - 1, parts.at(entry.name));
    entry.shape = tensor.shape;
    entry.content_bytes = tensor.end - tensor.begin;
    if (entry.content_bytes == 0) continue;
    entry.extents.emplace_back(add_or_throw(file.data_begin, tensor.begin, "the content's offset"),
                               entry.content_bytes);
  }
  return FileIndex(std::move(entries), {known, {}}, std::move(boxes), std::move(refused));
}

/// Runs `read`, which must look at nothing but the file, and sees to it that the file stayed the
/// same: what looks damaged may be a file that is being written.
template <typename Read>
auto read_unchanged(const ByteSource& source, Read&& read) {
  try {
    auto result = read();
    source.check_unchanged();
    return result;
  } catch (Error& error) {
    if (error.kind() == ErrorKind::kBadInput) source.check_unchanged();
    error.in_file(source.name());
    throw;
  }
}

}  // namespace

FileIndex read_index(const ByteSource& source, const NameOrders* known) {
  return read_unchanged(source, [&] {
    File file = read_header(source);
    return make_index(std::move(file), source, known);
  });
}

bool holds_nothing(const ByteSource& source) {
  return read_unchanged(source, [&] {
    return source.size() == kLengthBytes + read_header_length(source) &&
           read_header(source).header.tensors.empty();
  });
}

std::map<std::string, std::string> read_metadata(const ByteSource& source) {
  // Most writers begin the header with it.
  constexpr std::uint64_t kFirstBytes = 65536;
  constexpr std::uint64_t kGrowth = 8;
  return read_unchanged(source, [&] {
    const std::uint64_t length = read_header_length(source);
    std::string text;
    for (std::uint64_t wanted = kFirstBytes;; wanted *= kGrowth) {
      const std::size_t known = text.size();
      text.resize(std::min(wanted, length));
      source.read_at(kLengthBytes + known, std::as_writable_bytes(std::span(text)).subspan(known));
      const bool is_whole = text.size() == length;
      if (auto found = parse_metadata(text, is_whole)) return *std::move(found);
    }
  });
}

namespace {

std::uint32_t crc_of(const ByteSource& source) {
  const FileIndex index = read_index(source);
  std::vector<const TensorEntry*> by_name;
  by_name.reserve(index.entries().size());
  for (const TensorEntry& entry : index.entries()) by_name.push_back(&entry);
  std::sort(by_name.begin(), by_name.end(),
            [](const TensorEntry* a, const TensorEntry* b) { return a->name < b->name; });
  ckpt::CrcSum sum;
  for (const TensorEntry* entry : by_name) {
    sum.add(std::as_bytes(std::span(entry->name)));
    for (const ByteRange& extent : entry->extents) {
      for_each_block(source, extent, [&](std::span<const std::byte> bytes) { sum.add(bytes); });
    }
  }
  return sum.value();
}

}  // namespace

CrcCheck check_crc(const ByteSource& source) {
  const std::map<std::string, std::string> metadata = read_metadata(source);
  const auto stated = metadata.find("crc_num");
  if (stated == metadata.end()) return CrcCheck::kNoTrailer;
  const std::optional<std::uint32_t> number = parse_number<std::uint32_t>(stated->second);
  const bool good = number && *number == crc_of(source);
  source.check_unchanged();
  return good ? CrcCheck::kGood : CrcCheck::kBad;
}

}  // namespace reshardfs::safetensors
