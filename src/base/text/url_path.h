// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

namespace reshardfs {

/// Characters of the scheme of "scheme://..." (RFC 3986: a letter, then letters, digits, "+", "-",
/// "."); 0 if the text is no URL.
std::size_t scheme_length(std::string_view text) noexcept;

/// Whether a path is a URL. See storage/location.h.
bool is_url(const std::filesystem::path& path) noexcept;

/// The URL that "s3:/bucket" is meant to be, as programs that take it for a path leave it; nothing
/// if the text does not look so.
std::optional<std::string> meant_url(std::string_view text);

/// As std::filesystem::path::lexically_normal(); a URL stays as it is.
std::filesystem::path normal_location(const std::filesystem::path& location);

}  // namespace reshardfs
