// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "reshardfs/error.h"

namespace reshardfs {

/// What a program that uses the mount gets in errno: always positive. Of the operating system's
/// own numbers only those are passed on that tell the program something about its request.
int errno_of(const Error& error) noexcept;

/// The same for the exception being handled. Call this in a catch block.
int errno_of_current_exception() noexcept;

}  // namespace reshardfs
