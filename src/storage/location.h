// SPDX-License-Identifier: Apache-2.0
/// Paths that may be URLs. A URL is kept as a path: its text is the URL without a query, percent
/// signs decoded, so that names are joined to it as to any other, and messages show no secret.
#pragma once

#include <filesystem>
#include <string>

#include "base/text/url_path.h"

namespace reshardfs {

/// "s3" of "s3://bucket/key"; empty for a path.
std::string scheme_of(const std::filesystem::path& path);

/// Converts a location on a command line to an absolute path, or a URL as described above. A URL's
/// query (a signature, or what it asks for) is kept for its requests: URLs with other queries have
/// other locations, with a number before the host that shown_location() leaves out.
/// @throws Error kUsage for a URL that contains a user name and password; kUnsupported for a scheme
///         without a backend.
std::filesystem::path absolute_location(const std::string& text);

/// The same for a source: a JSON list of URLs becomes the directory that it describes, see
/// url_list_backend.cpp; see snapshot_or() for a cache of Hugging Face's hub.
std::filesystem::path absolute_source(const std::string& text);

/// The URL for requests to a web server: percent-encoded, with its query if the user gave one.
std::string web_url(const std::filesystem::path& location);

/// The form of a location that messages and logs show.
std::string shown_location(const std::string& text);

}  // namespace reshardfs
