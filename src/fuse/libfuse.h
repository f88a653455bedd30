// SPDX-License-Identifier: Apache-2.0
/// libfuse's low-level API, in the one version of it that reshardfs is written for.
#pragma once

#define FUSE_USE_VERSION 312
#include <fuse_lowlevel.h>  // IWYU pragma: export
