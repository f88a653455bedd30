// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "export/folder.h"
#include "export/target.h"

namespace reshardfs::conformance {

/// The directory or URL that the suite is run on: nothing is in it at first.
std::filesystem::path& export_place();

/// A place of that name in it.
std::unique_ptr<const Target> open_target(const std::string& name, LockMode lock);

}  // namespace reshardfs::conformance
