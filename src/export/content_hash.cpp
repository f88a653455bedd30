// SPDX-License-Identifier: Apache-2.0
#include "export/content_hash.h"

namespace reshardfs {
namespace {

bool has(SumKinds kinds, SumKinds kind) noexcept {
  return (static_cast<unsigned>(kinds) & static_cast<unsigned>(kind)) != 0;
}

}  // namespace

ContentHash::ContentHash(SumKinds kinds) {
  if (has(kinds, SumKinds::kSha256)) sha256_.emplace();
  if (has(kinds, SumKinds::kXxh3)) xxh3_.emplace();
}

void ContentHash::update(std::span<const std::byte> bytes) {
  if (sha256_) sha256_->update(bytes);
  if (xxh3_) xxh3_->update(bytes);
}

ContentSums ContentHash::finish() {
  return {.sha256 = sha256_ ? sha256_->finish() : std::string(),
          .xxh3 = xxh3_ ? xxh3_->finish() : std::string()};
}

}  // namespace reshardfs
