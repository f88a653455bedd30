// SPDX-License-Identifier: Apache-2.0
/// Backends for files. Every source may be a path or a URL, whose scheme chooses the backend. To
/// add one, write it in a file of its own, and add it to the list in backends.cpp. All backends
/// must pass the tests in tests/conformance.
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

/// An object in a list.
struct ListedObject {
  std::string path{};  ///< below the directory that was listed
  std::uint64_t size = 0;
  std::string etag{};      ///< without quotation marks, unless it is weak; empty: unknown
  std::string modified{};  ///< in the store's format
};

/// Every member function may be called from any number of threads at once. Locations are as in
/// location.h, of one of the backend's schemes.
class Backend {
 public:
  Backend() = default;
  Backend(const Backend&) = delete;
  Backend& operator=(const Backend&) = delete;
  virtual ~Backend() = default;

  /// In lower case. The empty scheme is for paths.
  virtual std::span<const std::string_view> schemes() const noexcept = 0;

  /// @throws Error kMissing if it does not exist, kBadInput if it is not a file, kUnsupported, kIo.
  virtual ByteSourcePtr open(const std::filesystem::path& location) const = 0;
  /// Sorted by name (bytes). If directories are only parts of names, as in object stores, empty
  /// directories do not exist.
  /// @throws Error kMissing, kBadInput if it is no directory, kUnsupported, kIo.
  virtual std::vector<DirectoryEntry> list(const std::filesystem::path& location) const = 0;
  /// @throws Error kIo if this cannot be determined.
  virtual PathKind kind(const std::filesystem::path& location) const = 0;

  /// All objects below a directory, if one request lists many.
  /// @return nullopt if there are more than `most`, or each directory must be listed separately; an
  ///         empty list if it does not exist.
  /// @throws Error kMissing, kIo.
  virtual std::optional<std::vector<ListedObject>> list_below(
      const std::filesystem::path& /*location*/, std::size_t /*most*/) const {
    return std::nullopt;
  }
  /// Like open() without a request. If the object does not exist, or has another version than in
  /// the list (kChanged), the first read fails.
  /// @param object of list_below().
  virtual ByteSourcePtr open_listed(const std::filesystem::path& location,
                                    const ListedObject& /*object*/) const {
    return open(location);
  }
};

/// @throws Error kUnsupported if there is no backend for its scheme.
const Backend& backend_of(const std::filesystem::path& location);

/// The schemes of all backends, except the empty one.
std::vector<std::string_view> url_schemes();

// --- the backends, each in a file of its own ---------------------------------------------------
const Backend& file_backend();
const Backend& web_backend();
const Backend& s3_backend();
const Backend& url_list_backend();

}  // namespace reshardfs
