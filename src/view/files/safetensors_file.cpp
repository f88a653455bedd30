// SPDX-License-Identifier: Apache-2.0
#include "view/files/safetensors_file.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <utility>

#include "reshardfs/error.h"

#include "base/text/text.h"
#include "plan/target/target_table.h"
#include "view/files/recent_texts.h"
#include "view/files/text_value.h"
#include "view/view.h"

namespace reshardfs {
namespace {

/// What the length of a header is a multiple of.
constexpr std::uint64_t kHeaderUnit = 8;

}  // namespace

SafetensorsFile::SafetensorsFile(std::shared_ptr<const TargetTable> table, Rank own_rank,
                                 std::vector<const TargetParameter*> parameters,
                                 std::shared_ptr<const Common> common)
    : PartedFile(std::move(table), own_rank),
      parameters_(std::move(parameters)),
      common_(std::move(common)) {
  const auto measured = [this] {
    return safetensors::tensor_bytes(slices(), target().order_by_name(parameters_));
  };
  set_sizes(common_->sizes ? common_->sizes->of(target(), rank(), parameters_, measured)
                           : measured());
}

void SafetensorsFile::measure() {
  set_sizes(safetensors::tensor_bytes(tensors()));
}

void SafetensorsFile::set_sizes(const safetensors::TensorBytes& tensors) {
  if (common_->as_in_source) place_ = place_in_source(header());
  set_size(safetensors::file_bytes(tensors, metadata(), {common_->align, place_}));
}

std::uint64_t SafetensorsFile::place_in_source(const safetensors::Header& head) const {
  std::map<std::uint64_t, std::uint64_t> bytes;  // by place in a page
  for (const std::size_t number : head.order) {
    FileImage image;
    append_to(image, number);
    std::vector<StoredRange> first;
    image.add_unchanged(ByteRange::whole(std::min(image.size(), common_->align)), 0, 1, first);
    for (const StoredRange& range : first) {
      const std::uint64_t place =
          (range.source_offset - range.offset - head.data_offsets[number]) % common_->align;
      if (place % kHeaderUnit == 0) bytes[place] += image.size() / first.size();
    }
  }
  const auto most = std::max_element(
      bytes.begin(), bytes.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
  return most == bytes.end() ? 0 : most->first;
}

SafetensorsFile::SafetensorsFile(std::shared_ptr<const TargetTable> table, Rank own_rank,
                                 std::shared_ptr<const Common> common)
    : PartedFile(std::move(table), own_rank), common_(std::move(common)) {}

SafetensorsFile::~SafetensorsFile() {
  recent_texts().forget(this);
}

std::vector<safetensors::HeaderTensor> SafetensorsFile::slices() const {
  std::vector<safetensors::HeaderTensor> tensors;
  tensors.reserve(parameters_.size());
  SliceShapes shapes(target(), rank());
  for (const TargetParameter* parameter : parameters_) {
    tensors.push_back({parameter->name, parameter->dtype, shapes.of(*parameter)});
  }
  return tensors;
}

/// Made when it is read: those of all ranks would take much memory.
safetensors::Header SafetensorsFile::header() const {
  return safetensors::make_header(tensors(), metadata(), {common_->align, place_},
                                  target().order_by_name(parameters_));
}

std::vector<PartedFile::Stretch> SafetensorsFile::stretches() const {
  const safetensors::Header head = header();
  // A program that reads data has read the header, or will.
  recent_texts().get(this, [&] { return head.bytes; });
  std::vector<Stretch> stretches;
  stretches.reserve(head.order.size() + 1);
  stretches.push_back({0, kFrame});
  for (const std::size_t number : head.order) {
    const std::uint64_t begin = head.bytes.size() + head.data_offsets[number];
    // What has no bytes begins where the next one does.
    if (begin == stretches.back().begin) stretches.pop_back();
    stretches.push_back({begin, number});
  }
  if (stretches.back().begin == size()) stretches.pop_back();
  return stretches;
}

void SafetensorsFile::append_to(FileImage& image, std::size_t number) const {
  const TargetParameter& parameter = *parameters_[number];
  image.append({target().view(parameter, rank()), parameter.source->dtype, parameter.dtype});
}

void SafetensorsFile::read_frame(std::uint64_t offset, std::span<std::byte> out) const {
  const auto bytes = recent_texts().get(this, [this] { return header().bytes; });
  std::memcpy(out.data(), bytes->data() + offset, out.size());
}

std::vector<const TargetParameter*> arrays_of(const TargetTable& target, Rank rank) {
  std::vector<const TargetParameter*> arrays;
  for (const TargetParameter& parameter : target.parameters()) {
    if (is_array(parameter.dtype) && target.has(parameter, rank)) arrays.push_back(&parameter);
  }
  return arrays;
}

namespace {

constexpr std::uint64_t kMindSporesAlign = 8;
constexpr std::uint64_t kPage = 4096;

SafetensorsFile::Common without_texts(const ViewContext& context, SafetensorsKind kind,
                                      const std::string& format) {
  const ConversionOptions& options = context.options;
  SafetensorsFile::Common common;
  common.sizes = context.sizes;
  const bool equals_mindspores =
      kind == SafetensorsKind::kMindSpores && format == "ms" && options.casts.empty();
  common.as_in_source = options.as_in_source && !options.align;
  common.align =
      options.align.value_or(equals_mindspores && !common.as_in_source ? kMindSporesAlign : kPage);
  common.metadata.emplace_back("format", format);
  std::string casts;
  for (const std::string& cast : options.casts) casts += (casts.empty() ? "" : ", ") + cast;
  if (!casts.empty()) common.metadata.emplace_back("cast", casts);
  return common;
}

}  // namespace

std::shared_ptr<const SafetensorsFile::Common> safetensors_common(const ViewContext& context,
                                                                  SafetensorsKind kind,
                                                                  const std::string& format) {
  return std::make_shared<const SafetensorsFile::Common>(without_texts(context, kind, format));
}

std::shared_ptr<const SafetensorsFile::Common> safetensors_common(const ViewContext& context,
                                                                  const TargetTable& table,
                                                                  SafetensorsKind kind,
                                                                  const std::string& format) {
  constexpr std::size_t kNamed = 5;
  SafetensorsFile::Common common = without_texts(context, kind, format);
  std::string left_out;
  std::size_t left_out_count = 0;
  std::vector<std::string> like_keys;
  for (const TargetParameter& parameter : table.parameters()) {
    const auto has_the_name = [&](const auto& entry) { return entry.first == parameter.name; };
    const bool taken = std::any_of(common.metadata.begin(), common.metadata.end(), has_the_name);
    if (is_array(parameter.dtype)) {
      if (taken && format == "ms") like_keys.push_back(parameter.name);
      continue;
    }
    const std::optional<std::string> value = taken ? std::nullopt : text_value(parameter);
    if (value) {
      common.metadata.emplace_back(parameter.name, *value);
    } else if (++left_out_count <= kNamed) {
      left_out += (left_out.empty() ? "" : ", ") + printable(parameter.name);
    }
  }
  if (!like_keys.empty()) {
    context.warnings.push_back(
        "MindSpore cannot load safetensors files that have a parameter with the name of a key of "
        "their metadata: " +
        name_list(like_keys) + "; rename it with --name-map");
  }
  if (left_out_count > 0) {
    context.warnings.push_back(
        "not in safetensors files, which hold arrays and short texts only: " + left_out +
        (left_out_count > kNamed ? ", ..." : ""));
  }
  return std::make_shared<const SafetensorsFile::Common>(std::move(common));
}

}  // namespace reshardfs
