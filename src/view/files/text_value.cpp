// SPDX-License-Identifier: Apache-2.0
#include "view/files/text_value.h"

#include <vector>

#include "base/text/utf8.h"
#include "plan/reading/content.h"

namespace reshardfs {
namespace {

constexpr std::uint64_t kMaxBytes = 65536;

}  // namespace

std::optional<std::string> text_value(const TargetParameter& parameter) {
  // A raw one may be another on each rank.
  if (parameter.dtype != DType::kString || parameter.treatment != Treatment::kKeep) {
    return std::nullopt;
  }
  const Holding holding = parameter.grid->cell(0);
  if (holding.entry->content_bytes > kMaxBytes) return std::nullopt;
  std::vector<std::byte> bytes(static_cast<std::size_t>(holding.entry->content_bytes));
  ReadBatch batch;
  read_content(holding, 0, bytes, batch);
  batch.check();
  std::string text;
  std::size_t nuls = 0;
  for (std::size_t i = 0; i + 3 < bytes.size(); i += 4) {
    char32_t character = 0;
    for (std::size_t k = 4; k-- > 0;) {
      character = character << 8U | std::to_integer<char32_t>(bytes[i + k]);
    }
    if (!append_utf8(text, character)) return std::nullopt;
    nuls = character == 0 ? nuls + 1 : 0;
  }
  text.resize(text.size() - nuls);
  return text;
}

}  // namespace reshardfs
