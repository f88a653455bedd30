// SPDX-License-Identifier: Apache-2.0
#include "format/torch/dcp_sharding.h"

#include <algorithm>
#include <filesystem>
#include <string_view>
#include <utility>

#include <nlohmann/json.hpp>

#include "reshardfs/error.h"

#include "format/torch/tensor_limits.h"

namespace reshardfs::safetensors {
namespace {

constexpr const char* kInfo = "DCP_SHARDING_INFO";
constexpr std::string_view kOffsets = "saved_offsets";
constexpr const char* kPartPrefix = "shard-";
constexpr std::int64_t kMostOffset = 1LL << 62U;

Error bad_info(const std::string& what) {
  return Error(ErrorKind::kBadInput, std::string("its ") + kInfo + " " + what);
}

/// Keeps nothing but the offsets: {"name": {"saved_offsets": [0, 8], ...}, ...}. What else a
/// tensor's object has is passed over.
class InfoReader final : public nlohmann::json_sax<nlohmann::json> {
 public:
  explicit InfoReader(PartOffsets& out) : out_(out) {}

  bool null() override { return other(); }
  bool boolean(bool /*value*/) override { return other(); }
  bool number_integer(number_integer_t value) override { return number(value); }
  bool number_unsigned(number_unsigned_t value) override {
    return number(value <= static_cast<number_unsigned_t>(kMostOffset)
                      ? static_cast<std::int64_t>(value)
                      : -1);
  }
  bool number_float(number_float_t /*value*/, const string_t& /*text*/) override { return other(); }
  bool string(string_t& /*value*/) override { return other(); }
  bool binary(binary_t& /*value*/) override { return other(); }

  bool start_object(std::size_t /*elements*/) override {
    if (depth_ != 0) require(depth_ == 1 || !is_wanted_);
    ++depth_;
    return depth_ < kMostDepth;
  }
  bool key(string_t& value) override {
    if (depth_ == 1) {
      const auto [place, is_new] = out_.try_emplace(value);
      if (!is_new) throw bad_info("has it twice").for_parameter(value);
      offsets_ = &place->second;
      name_ = value;
      has_offsets_ = false;
    } else if (depth_ == 2) {
      is_wanted_ = value == kOffsets;
    }
    return true;
  }
  bool end_object() override {
    --depth_;
    if (depth_ == 1) require(has_offsets_);
    is_wanted_ = false;
    return true;
  }
  bool start_array(std::size_t /*elements*/) override {
    require(depth_ > 1);
    if (is_wanted_) require(depth_ == 2 && !std::exchange(has_offsets_, true));
    ++depth_;
    return depth_ < kMostDepth;
  }
  bool end_array() override {
    if (--depth_ == 2) is_wanted_ = false;
    return true;
  }
  bool parse_error(std::size_t /*at*/, const std::string& /*token*/,
                   const nlohmann::detail::exception& /*error*/) override {
    return false;
  }

 private:
  static constexpr std::size_t kMostDepth = 16;

  void require(bool good) const {
    if (good) return;
    Error error = bad_info("does not tell where it begins");
    if (!name_.empty()) error.for_parameter(name_);
    throw error;
  }
  bool other() {
    require(depth_ > 1 && !is_wanted_);
    return true;
  }
  bool number(std::int64_t value) {
    if (!is_wanted_) return other();
    const bool good = depth_ == 3 && value >= 0 && offsets_->size() < kMostTorchDimensions;
    if (!good) throw bad_info("has offsets that do not fit its shape").for_parameter(name_);
    offsets_->push_back(value);
    return true;
  }

  PartOffsets& out_;
  std::size_t depth_ = 0;
  std::string name_;
  Shape* offsets_ = nullptr;
  bool is_wanted_ = false;    ///< in the value of "saved_offsets"
  bool has_offsets_ = false;  ///< the tensor
};

}  // namespace

PartOffsets part_offsets(const ParsedHeader& header, const std::string& name) {
  PartOffsets out;
  const auto found = header.metadata.find(kInfo);
  if (found == header.metadata.end()) return out;
  InfoReader reader(out);
  if (!nlohmann::json::sax_parse(found->second, &reader)) throw bad_info("is no JSON");
  bool has_part = std::filesystem::path(name).filename().string().starts_with(kPartPrefix);
  for (const ParsedTensor& tensor : header.tensors) {
    const auto place = out.find(tensor.name);
    if (place == out.end()) {
      throw bad_info("does not tell where it begins").for_parameter(tensor.name);
    }
    const Shape& offsets = place->second;
    if (offsets.size() != tensor.shape.size()) {
      throw bad_info("has offsets that do not fit its shape").for_parameter(tensor.name);
    }
    has_part = has_part || std::any_of(offsets.begin(), offsets.end(),
                                       [](std::int64_t offset) { return offset != 0; });
  }
  if (!has_part) out.clear();
  return out;
}

}  // namespace reshardfs::safetensors
