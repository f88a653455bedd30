// SPDX-License-Identifier: Apache-2.0
/// Which views the options of a conversion ask for.
#pragma once

#include <vector>

#include "reshardfs/conversion_options.h"

#include "base/unmatched_options.h"

namespace reshardfs {

/// Whether the view shows one value for parameters that several ranks hold.
bool has_one_value(ViewKind kind);
/// Whether the view is made of the whole model, whatever the target is.
bool shows_the_whole(ViewKind kind);

/// Whether a view is shown: named by the user, as part of --views merged, or by default.
bool is_wanted(ViewKind kind, const ConversionOptions& options);
/// Whether the user has named this view, so that it is an error if it cannot be made.
bool is_named(ViewKind kind, const ConversionOptions& options);
/// Whether any view that is made of the whole model is shown.
bool wants_whole(const ConversionOptions& options);
/// Whether the user has named such a view, including --views merged.
bool names_whole(const ConversionOptions& options);

/// Adds options whose views are not shown, such as --params without the rank directories.
/// @param formats of the rank files.
void add_idle_view_options(const ConversionOptions& options,
                           const std::vector<OutputFormat>& formats, UnmatchedOptions& unmatched);

}  // namespace reshardfs
