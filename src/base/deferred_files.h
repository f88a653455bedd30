// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>

#include "reshardfs/virtual_file.h"

#include "base/function_ref.h"

namespace reshardfs {

/// The files below a directory, of which there may be a million: until something needs them, only
/// their names and sizes are told. Every member function may be called from any number of threads
/// at once, and reads no source.
class DeferredFiles {
 public:
  /// The path is relative to the directory, the size that of VirtualFile::size(), in bytes.
  using Tell = FunctionRef<void(std::string_view path, std::uint64_t size)>;
  using Take = FunctionRef<void(std::string_view path, std::shared_ptr<const VirtualFile> file)>;

  DeferredFiles() = default;
  DeferredFiles(const DeferredFiles&) = delete;
  DeferredFiles& operator=(const DeferredFiles&) = delete;
  virtual ~DeferredFiles() = default;

  /// Calls with each file, always in the same order.
  virtual void tell(Tell call) const = 0;
  /// Makes all files; in the same order.
  virtual void make(Take call) const = 0;
};

}  // namespace reshardfs
