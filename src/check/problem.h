// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "reshardfs/error.h"

#include "check/verify.h"
#include "checkpoint/set_faults.h"

namespace reshardfs {

/// A problem of kind kIo or kFile from what was thrown. @throws the error again if it is kInternal.
Problem problem_from(const Error& error);

/// @throws as the other one.
Problem problem_from(const SetFault& fault);

}  // namespace reshardfs
