// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "export/folder.h"
#include "export/manifest.h"
#include "export/share.h"

namespace reshardfs {

/// Reads a file in a directory. Every user who may write there may have replaced it.
/// @param end what it must end with; of one that does not, no more is read.
/// @return nothing if there is none, or if it ends with something else.
/// @throws Error kUsage if it is no regular file, or larger than any that an export writes, or if
///         it has the name of a manifest and another one as well; kIo.
std::optional<std::string> read_text(const Folder& folder, const std::string& name,
                                     std::string_view end = {});

/// Target::claim() in a directory. It never writes to an existing link, device, or file with a
/// second name.
std::unique_ptr<Claim> claim_in(const Folder& folder, const std::optional<Share>& share);

}  // namespace reshardfs
