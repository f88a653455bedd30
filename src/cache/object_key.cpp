// SPDX-License-Identifier: Apache-2.0
#include "cache/object_key.h"

#include <algorithm>
#include <span>
#include <string>

#include "base/sha256.h"

namespace reshardfs {

ObjectKey::ObjectKey(std::string_view identity) {
  const std::string digits = sha256_of(std::as_bytes(std::span(identity)));
  std::copy_n(digits.begin(), digits_.size(), digits_.begin());
}

}  // namespace reshardfs
