// SPDX-License-Identifier: Apache-2.0
#include "format/dcp_sharding.h"

#include <algorithm>
#include <filesystem>

#include <nlohmann/json.hpp>

#include "reshardfs/error.h"

namespace reshardfs::safetensors {
namespace {

constexpr const char* kInfo = "DCP_SHARDING_INFO";
constexpr const char* kOffsets = "saved_offsets";
constexpr const char* kPartPrefix = "shard-";

Error bad_info(const std::string& what) {
  return Error(ErrorKind::kBadInput, std::string("its ") + kInfo + " " + what);
}

Error is_part() {
  return Error(ErrorKind::kUnsupported,
               "holds parts of tensors, as torch.distributed.checkpoint saves them to safetensors; "
               "reshardfs reads only whole ones from there")
      .hint("let PyTorch consolidate the files (consolidate_safetensors_files)");
}

}  // namespace

void require_whole_tensors(const ParsedHeader& header, const std::string& name) {
  const auto found = header.metadata.find(kInfo);
  if (found == header.metadata.end()) return;
  if (std::filesystem::path(name).filename().string().starts_with(kPartPrefix)) throw is_part();
  const auto info = nlohmann::json::parse(found->second, nullptr, /*allow_exceptions=*/false);
  if (!info.is_object()) throw bad_info("is not a JSON object");
  for (const ParsedTensor& tensor : header.tensors) {
    const auto place = info.find(tensor.name);
    const bool told = place != info.end() && place->is_object() && place->contains(kOffsets) &&
                      place->at(kOffsets).is_array();
    if (!told) throw bad_info("does not tell where it begins").for_parameter(tensor.name);
    const auto& offsets = place->at(kOffsets);
    const bool are_offsets =
        offsets.size() == tensor.shape.size() &&
        std::all_of(offsets.begin(), offsets.end(), [](const auto& offset) {
          return offset.is_number_integer() && offset.template get<std::int64_t>() >= 0;
        });
    if (!are_offsets) {
      throw bad_info("has offsets that do not fit its shape").for_parameter(tensor.name);
    }
    const bool is_first = std::all_of(offsets.begin(), offsets.end(), [](const auto& offset) {
      return offset.template get<std::int64_t>() == 0;
    });
    if (!is_first) throw is_part().for_parameter(tensor.name);
  }
}

}  // namespace reshardfs::safetensors
