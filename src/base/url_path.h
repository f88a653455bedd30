// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>

namespace reshardfs {

/// Whether a path is a URL: it begins with "scheme://". See storage/location.h.
bool is_url(const std::filesystem::path& path) noexcept;

/// As std::filesystem::path::lexically_normal(); a URL stays as it is.
std::filesystem::path normal_location(const std::filesystem::path& location);

}  // namespace reshardfs
