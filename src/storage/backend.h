// SPDX-License-Identifier: Apache-2.0
/// Where files are. Everything that names a source may be a path or a URL; its scheme chooses the
/// backend. To add one: write it in a file of its own, and add it to the list in backends.cpp. All
/// of them pass one suite of tests, tests/conformance.
#pragma once

#include <filesystem>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "storage/byte_source.h"
#include "storage/directory.h"

namespace reshardfs {

/// Every member function may be called from any number of threads at once. Locations are as in
/// location.h, of one of the backend's schemes.
class Backend {
 public:
  Backend() = default;
  Backend(const Backend&) = delete;
  Backend& operator=(const Backend&) = delete;
  virtual ~Backend() = default;

  /// Lower case. The empty one stands for paths.
  virtual std::span<const std::string_view> schemes() const noexcept = 0;

  /// @throws Error kMissing if there is no such file, kBadInput if it is none, kUnsupported, kIo.
  virtual ByteSourcePtr open(const std::filesystem::path& location) const = 0;
  /// Sorted by name (bytes). Where directories are parts of names, as in object stores, one without
  /// entries does not exist.
  /// @throws Error kMissing, kBadInput if it is no directory, kUnsupported, kIo.
  virtual std::vector<DirectoryEntry> list(const std::filesystem::path& location) const = 0;
  /// @throws Error kIo if that cannot be found out.
  virtual PathKind kind(const std::filesystem::path& location) const = 0;
};

/// @throws Error kUnsupported if there is none for its scheme.
const Backend& backend_of(const std::filesystem::path& location);

/// Of all backends, without the empty one.
std::vector<std::string_view> url_schemes();

// --- the backends, each in a file of its own ---------------------------------------------------
const Backend& file_backend();
const Backend& web_backend();
const Backend& s3_backend();
const Backend& url_list_backend();

}  // namespace reshardfs
