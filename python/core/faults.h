// SPDX-License-Identifier: Apache-2.0
/// What the engine has got around (a replica read in place of a file that fails, ...), for the
/// logger "reshardfs" of Python.
#pragma once

namespace reshardfs::python {

/// Collects faults from now on; to be called once.
void collect_faults();
/// Logs what was collected since. With the GIL.
void log_faults();

}  // namespace reshardfs::python
