// SPDX-License-Identifier: Apache-2.0
#include "format/input_format.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <string>

#include "reshardfs/error.h"

#include "format/ckpt/ckpt.h"
#include "format/foreign_content.h"
#include "format/safetensors/safetensors.h"
#include "format/torch/torch_crc.h"

namespace reshardfs {
namespace {

/// What it has is told by the table beside it alone.
FileIndex refuse_part(const ByteSource& source, const NameOrders* /*known*/) {
  throw Error(ErrorKind::kUnsupported, "is one file of a distributed checkpoint of PyTorch")
      .in_file(source.name())
      .needs(Need::kSource)
      .hint("name the directory, which has a .metadata, as the source");
}

CrcCheck no_trailer(const ByteSource& /*source*/) {
  return CrcCheck::kNoTrailer;
}

constexpr std::array kFormats{
    InputFormat{"ckpt", ".ckpt", true, ckpt::read_index, ckpt::check_crc},
    InputFormat{"safetensors", ".safetensors", false, safetensors::read_index,
                safetensors::check_crc},
};

/// Tensors that do not lie in C order in the file need more than an index: see open_torch_file().
FileIndex refuse_without_archive(const ByteSource& source, const NameOrders* /*known*/) {
  throw Error(ErrorKind::kInternal, "a file of torch.save is read by TorchArchive")
      .in_file(source.name());
}

/// Not among the others: no pattern finds such files.
constexpr InputFormat kTorch{"torch", ".pt", false, refuse_without_archive, check_torch_crc};
constexpr InputFormat kDcp{"dcp", ".distcp", false, refuse_part, no_trailer};

bool tells_what_it_is_not(const Error& error) {
  return error.message().starts_with("is not a");
}

/// "0a 7f 12": of a file that begins like no checkpoint, a parser's words say less.
std::string beginning_in_hex(const ByteSource& source) {
  std::array<std::byte, 8> begin{};
  const auto known = std::span(begin).first(
      static_cast<std::size_t>(std::min<std::uint64_t>(source.size(), begin.size())));
  source.read_at(0, known);
  std::string text;
  for (const std::byte byte : known) {
    constexpr std::string_view kDigits = "0123456789abcdef";
    const auto value = std::to_integer<unsigned>(byte);
    text += text.empty() ? "" : " ";
    text += {kDigits[value >> 4U], kDigits[value & 0xfU]};
  }
  return text;
}

bool begins_as_record(const ByteSource& source) {
  std::byte first{};
  source.read_at(0, {&first, 1});
  return first == std::byte{'\n'};
}

/// Says so first; what a reader stumbled over comes behind it, if the file begins as its format
/// does.
Error not_a_checkpoint(const Error& error, const InputFormat& format, const ByteSource& source) {
  if (source.size() == 0) {
    return Error(ErrorKind::kBadInput, "is not a checkpoint: it is empty")
        .in_file(source.name())
        .hint("copy it again");
  }
  if (format.name == "ckpt" && !begins_as_record(source)) {
    return Error(ErrorKind::kBadInput, "is no checkpoint file: it begins with the bytes " +
                                           beginning_in_hex(source) +
                                           ", unlike MindSpore's .ckpt files and safetensors files")
        .in_file(source.name())
        .hint("name a .ckpt or .safetensors file, or a directory of them");
  }
  if (tells_what_it_is_not(error)) {
    return Error(ErrorKind::kBadInput, error.message()).in_file(source.name());
  }
  const std::string text = error.what();
  const std::string file = error.file().empty() ? "" : printable(error.file()) + ": ";
  return Error(ErrorKind::kBadInput, "is not a checkpoint: " + text.substr(file.size()))
      .in_file(source.name());
}

}  // namespace

std::span<const InputFormat> input_formats() {
  return kFormats;
}

const InputFormat& input_format_of(const std::filesystem::path& path) {
  const std::string extension = path.extension().string();
  for (const InputFormat& format : kFormats) {
    if (format.extension == extension) return format;
  }
  return extension == kDcp.extension ? kDcp : kFormats.front();
}

const InputFormat& torch_format() {
  return kTorch;
}

bool has_torch_name(const std::filesystem::path& path) {
  const std::filesystem::path extension = path.extension();
  return extension == ".pt" || extension == ".pth" || extension == ".bin";
}

void explain(const Error& error, const InputFormat& format, const ByteSource& source) {
  const auto as_it_is = [&] { return Error(error).in_file(source.name()); };
  if (error.kind() != ErrorKind::kBadInput) throw as_it_is();
  const auto content = foreign_content(source);
  if (!content && is_checkpoint_content(source) && !tells_what_it_is_not(error)) throw as_it_is();
  if (!content) throw not_a_checkpoint(error, format, source);
  throw Error(ErrorKind::kBadInput, "is " + std::string(content->what))
      .in_file(source.name())
      .needs(Need::kSource)
      .hint(std::string(content->advice));
}

FileIndex read_index(const InputFormat& format, const ByteSource& source, const NameOrders* known) {
  return explained(format, source, [&] { return format.read_index(source, known); });
}

}  // namespace reshardfs
