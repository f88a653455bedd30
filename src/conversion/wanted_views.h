// SPDX-License-Identifier: Apache-2.0
/// Which views the options of a conversion ask for.
#pragma once

#include <vector>

#include "reshardfs/conversion.h"

#include "base/unmatched_options.h"

namespace reshardfs {

/// Whether ranks that hold the same have one value there.
bool has_one_value(ViewKind kind);
/// Whether it is made of the whole model, in any default.
bool shows_the_whole(ViewKind kind);

/// Whether a view is to be shown: by name, as one of --views merged, or by default.
bool is_wanted(ViewKind kind, const ConversionOptions& options);
/// Whether the user has named this view itself, so that it is an error if it cannot be made.
bool is_named(ViewKind kind, const ConversionOptions& options);
/// Whether any view that is made of the whole model is to be shown.
bool wants_whole(const ConversionOptions& options);
/// Whether one of these is named, --views merged included.
bool names_whole(const ConversionOptions& options);

/// Adds options of views none of which is shown, as --params without the rank directories.
/// @param formats of the rank files.
void add_idle_view_options(const ConversionOptions& options,
                           const std::vector<OutputFormat>& formats, UnmatchedOptions& unmatched);

}  // namespace reshardfs
