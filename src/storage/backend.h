// SPDX-License-Identifier: Apache-2.0
/// Where files are. Everything that names a source may be a path or a URL; its scheme chooses the
/// backend. To add one: write it in a file of its own, and add it to the list in backends.cpp. All
/// of them pass one suite of tests, tests/conformance.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "storage/byte_source.h"
#include "storage/local/directory.h"

namespace reshardfs {

/// What a list tells of an object.
struct ListedObject {
  std::string path{};  ///< below the directory that was listed
  std::uint64_t size = 0;
  std::string etag{};      ///< without quotation marks, unless it is weak; empty: it is not told
  std::string modified{};  ///< as the store writes it
};

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

  /// All objects below a directory, where one request tells of many.
  /// @return nothing if there are more than `most`, or each directory is listed by itself; without
  ///         elements if it does not exist.
  /// @throws Error kMissing, kIo.
  virtual std::optional<std::vector<ListedObject>> list_below(
      const std::filesystem::path& /*location*/, std::size_t /*most*/) const {
    return std::nullopt;
  }
  /// As open(), without a request: that it is not there, or is of another version than the list
  /// told (kChanged), is found out by the first read.
  /// @param object of list_below().
  virtual ByteSourcePtr open_listed(const std::filesystem::path& location,
                                    const ListedObject& /*object*/) const {
    return open(location);
  }
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
