// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cli/words/mount_arguments.h"

namespace reshardfs {

/// Waits until a mount can be made of its source, before anything of it is opened.
///
/// With --wait-for-source: until all that a mount checks is right, as a mount that is tried again
/// and again in a child process finds it; an option that is wrong is not waited with. As a service
/// (in the foreground, below a service manager), without that option: until the source is there, or
/// the server of a URL answers; the manager's patience (TimeoutStartSec=) is the limit. Anybody
/// else is told at once.
///
/// Says on the log, and to a service manager, what it waits for. Any signal that ends the process
/// ends it here, too. To be used while the process has one thread.
/// @throws Error kIo with what is missing, if the time is over; kUsage and kUnsupported at once.
void wait_for_source(const MountArguments& arguments);

}  // namespace reshardfs
