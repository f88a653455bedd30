// SPDX-License-Identifier: Apache-2.0
#include "format/safetensors/safetensors_writer.h"

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <numeric>
#include <string_view>

#include "reshardfs/error.h"

#include "base/checked.h"
#include "base/content_size.h"
#include "base/json/json_writer.h"
#include "base/text/name_order.h"
#include "base/text/utf8.h"
#include "format/safetensors/safetensors.h"

namespace reshardfs::safetensors {
namespace {

/// Of a tensor in the text, without its name.
constexpr std::size_t kUsualTensorBytes = 80;

/// The library's order of element types, in which it writes the last one's tensors first.
constexpr std::array kOrder{
    DType::kBool,       DType::kFloat4E2M1,     DType::kFloat6E2M3,     DType::kFloat6E3M2,
    DType::kUInt8,      DType::kInt8,           DType::kFloat8E5M2,     DType::kFloat8E4M3,
    DType::kFloat8E8M0, DType::kFloat8E4M3FNUZ, DType::kFloat8E5M2FNUZ, DType::kInt16,
    DType::kUInt16,     DType::kFloat16,        DType::kBFloat16,       DType::kInt32,
    DType::kUInt32,     DType::kFloat32,        DType::kComplex64,      DType::kFloat64,
    DType::kInt64,      DType::kUInt64};

/// @return smaller for what is written first, less than kOrder.size() + 1.
std::size_t rank_of(DType dtype) {
  const DType held_as = dtype == DType::kInt4 ? DType::kInt8 : dtype;
  return static_cast<std::size_t>(kOrder.end() - std::find(kOrder.begin(), kOrder.end(), held_as));
}

void check(const HeaderTensor& tensor) {
  if (!is_array(tensor.dtype)) {
    throw Error(ErrorKind::kInternal, "text and maps cannot be written to safetensors");
  }
  if (tensor.name.empty() || tensor.name == kMetadataKey) {
    throw Error(ErrorKind::kUnsupported, "a safetensors file cannot hold a tensor of this name");
  }
  if (!is_utf8(tensor.name)) {
    throw Error(ErrorKind::kUnsupported,
                "the name is not valid UTF-8, which safetensors files need");
  }
}

[[noreturn]] void refuse_twice(std::string_view name) {
  throw Error(ErrorKind::kBadInput, "would appear twice in one safetensors file")
      .for_parameter(std::string(name));
}

/// @throws Error kBadInput if a name stands twice; kInternal if it is not the order by name.
void check_order(std::span<const HeaderTensor> tensors, std::span<const std::uint32_t> by_name) {
  bool is_order =
      by_name.size() == tensors.size() &&
      std::all_of(by_name.begin(), by_name.end(), [&](auto i) { return i < tensors.size(); });
  for (std::size_t i = 1; is_order && i < by_name.size(); ++i) {
    const int before = tensors[by_name[i - 1]].name.compare(tensors[by_name[i]].name);
    if (before == 0 && by_name[i - 1] != by_name[i]) refuse_twice(tensors[by_name[i]].name);
    is_order = before < 0;
  }
  if (!is_order) throw Error(ErrorKind::kInternal, "names are not in the order that was stated");
}

/// By type, then those that come first, then by name.
std::vector<std::size_t> order_of(std::span<const HeaderTensor> tensors,
                                  std::span<const std::uint32_t> by_name) {
  const auto class_of = [](const HeaderTensor& tensor) {
    return 2 * rank_of(tensor.dtype) + (tensor.comes_first ? 0 : 1);
  };
  std::array<std::size_t, 2 * (kOrder.size() + 1) + 1> begins{};
  for (const HeaderTensor& tensor : tensors) ++begins.at(class_of(tensor) + 1);
  std::partial_sum(begins.begin(), begins.end(), begins.begin());
  std::vector<std::size_t> order(tensors.size());
  for (const std::uint32_t position : by_name) {
    order[begins.at(class_of(tensors[position]))++] = position;
  }
  return order;
}

/// With the same escapes as the library's: quotes, backslashes and control characters,
/// everything else as it is.
std::string metadata_text(const Metadata& metadata) {
  std::string text;
  for (const auto& [key, value] : metadata) {
    if (!is_utf8(key) || !is_utf8(value)) {
      throw Error(ErrorKind::kUnsupported,
                  "the metadata '" + printable(key) + "' is not valid UTF-8");
    }
    if (!text.empty()) text += ',';
    text += json_quoted(key) + ':' + json_quoted(value);
  }
  return json_quoted(kMetadataKey) + ":{" + text + '}';
}

/// The text, or a count of what it would have.
class HeaderText {
 public:
  explicit HeaderText(bool counts_only) : counts_only_(counts_only) {}

  void add(std::string_view text) {
    bytes_ += text.size();
    if (!counts_only_) text_ += text;
  }
  void add_quoted(std::string_view text) {
    if (counts_only_) {
      bytes_ += json_quoted_bytes(text);
      return;
    }
    append_json_quoted(text_, text);
    bytes_ = text_.size();
  }
  void add_number(std::uint64_t number) {
    std::array<char, 20> digits{};
    const auto [end, error] = std::to_chars(digits.begin(), digits.end(), number);
    add({digits.data(), static_cast<std::size_t>(end - digits.data())});
  }
  void reserve(std::size_t bytes) {
    if (!counts_only_) text_.reserve(bytes);
  }

  std::uint64_t bytes() const noexcept { return bytes_; }
  std::string take() { return std::move(text_); }

 private:
  bool counts_only_;
  std::uint64_t bytes_ = 0;
  std::string text_;
};

void add_tensor(HeaderText& text, const HeaderTensor& tensor, std::uint64_t begin,
                std::uint64_t end) {
  text.add_quoted(tensor.name);
  text.add(R"(:{"dtype":")");
  text.add(safetensors_name(tensor.dtype));
  text.add(R"(","shape":[)");
  for (std::size_t i = 0; i < tensor.shape.size(); ++i) {
    if (i > 0) text.add(",");
    text.add_number(static_cast<std::uint64_t>(tensor.shape[i]));
  }
  text.add(R"(],"data_offsets":[)");
  text.add_number(begin);
  text.add(",");
  text.add_number(end);
  text.add("]}");
}

/// Bytes of tensors, of which the next one is mostly like the one before.
class ContentSizes {
 public:
  std::int64_t of(const HeaderTensor& tensor) {
    if (before_ == nullptr || before_->dtype != tensor.dtype || before_->shape != tensor.shape) {
      bytes_ = content_size(tensor.shape, tensor.dtype, "the content's size");
      before_ = &tensor;
    }
    return bytes_;
  }

 private:
  const HeaderTensor* before_ = nullptr;
  std::int64_t bytes_ = 0;
};

/// Bytes of a header with a text of so many, up to where the tensors begin.
std::uint64_t framed_bytes(std::uint64_t text_bytes, const DataPlace& data) {
  const std::uint64_t least = kLengthBytes + text_bytes;
  const std::uint64_t data_begin = least + ((data.place - least) & (data.align - 1));
  const std::uint64_t length = data_begin - kLengthBytes;
  if (length > kMaxHeaderBytes) {
    throw Error(ErrorKind::kUnsupported, "the safetensors header would have " +
                                             std::to_string(length) + " bytes; the limit is " +
                                             std::to_string(kMaxHeaderBytes));
  }
  return data_begin;
}

/// The length's 8 bytes, the text, and spaces.
std::string framed(const std::string& text, const DataPlace& data) {
  const std::uint64_t data_begin = framed_bytes(text.size(), data);
  const std::uint64_t length = data_begin - kLengthBytes;
  std::string bytes;
  bytes.reserve(data_begin);
  for (unsigned i = 0; i < kLengthBytes; ++i) {
    bytes += static_cast<char>(static_cast<unsigned char>(length >> (8 * i)));
  }
  bytes += text;
  bytes.resize(data_begin, ' ');
  return bytes;
}

void check_place(const DataPlace& data) {
  if (data.place % kLengthBytes != 0 || data.place >= data.align || data.align < kLengthBytes ||
      !std::has_single_bit(data.align)) {
    throw Error(ErrorKind::kInternal, "safetensors headers cannot be aligned to " +
                                          std::to_string(data.place) + " of " +
                                          std::to_string(data.align) + " bytes");
  }
}

/// Checks all tensors and writes their entries; sets what of `header` is not the text.
void write(std::span<const HeaderTensor> tensors, std::span<const std::uint32_t> by_name,
           HeaderText& text, Header& header) {
  std::vector<std::uint32_t> sorted;
  if (by_name.empty()) {
    sorted = order_by_name(tensors.size(), [&](std::size_t i) { return tensors[i].name; });
    by_name = sorted;
  }
  check_order(tensors, by_name);
  header.order = order_of(tensors, by_name);
  header.data_offsets.resize(tensors.size());
  bool is_first = true;
  ContentSizes sizes;
  for (const std::size_t position : header.order) {
    const HeaderTensor& tensor = tensors[position];
    try {
      check(tensor);
      const std::uint64_t begin = header.data_bytes;
      header.data_offsets[position] = begin;
      // Signed, as the sizes of files are.
      header.data_bytes = static_cast<std::uint64_t>(
          add_or_throw(static_cast<std::int64_t>(begin), sizes.of(tensor), "the file's size"));
      if (!is_first) text.add(",");
      is_first = false;
      add_tensor(text, tensor, begin, header.data_bytes);
    } catch (Error& error) {
      error.for_parameter(std::string(tensor.name));
      throw;
    }
  }
}

/// What stands before the tensors.
std::string beginning(const Metadata& metadata, bool has_tensors) {
  if (metadata.empty()) return "{";
  return "{" + metadata_text(metadata) + (has_tensors ? "," : "");
}

}  // namespace

Header make_header(std::span<const HeaderTensor> tensors, const Metadata& metadata,
                   const DataPlace& data, std::span<const std::uint32_t> by_name) {
  check_place(data);
  Header header;
  HeaderText text(/*counts_only=*/false);
  std::size_t names = 0;
  for (const HeaderTensor& tensor : tensors) names += tensor.name.size();
  text.reserve(names + kUsualTensorBytes * (tensors.size() + 1));
  text.add(beginning(metadata, !tensors.empty()));
  write(tensors, by_name, text, header);
  text.add("}");
  header.bytes = framed(text.take(), data);
  return header;
}

TensorBytes tensor_bytes(std::span<const HeaderTensor> tensors,
                         std::span<const std::uint32_t> by_name) {
  Header header;
  HeaderText text(/*counts_only=*/true);
  write(tensors, by_name, text, header);
  return {text.bytes(), header.data_bytes};
}

std::uint64_t file_bytes(const TensorBytes& tensors, const Metadata& metadata,
                         const DataPlace& data) {
  check_place(data);
  const std::uint64_t text = beginning(metadata, tensors.text > 0).size() + tensors.text + 1;
  return framed_bytes(text, data) + tensors.data;
}

}  // namespace reshardfs::safetensors
