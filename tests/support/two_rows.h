// SPDX-License-Identifier: Apache-2.0
/// What a parameter of two rows of four bytes each is in tests: its layouts for two ranks, and the
/// records of a rank's row.
#pragma once

#include <string>

#include "reshardfs/layout.h"

#include "support/wire.h"

namespace reshardfs::test {

inline const Layout kRows{.device_matrix = {2}, .tensor_map = {{0}, {}}};
inline const Layout kWhole{.device_matrix = {2}, .tensor_map = {{}, {}}};

/// A record of a row.
/// @param content four bytes.
inline std::string rows(const std::string& name, const std::string& content) {
  return record(name, {1, 4}, "Int8", content);
}

}  // namespace reshardfs::test
