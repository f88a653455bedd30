// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "report/bounded_writer.h"
#include "report/page.h"

namespace reshardfs {

/// Writes a page's section on sizes: what each element type takes, weights and optimizer apart, and
/// the files of each target rank.
void write_sizes(const ReportSubject& subject, BoundedWriter& out);

}  // namespace reshardfs
