// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Marks what a wheel's Python modules take from the engine's library, and no public header has. It
/// is no part of libreshardfs' interface.
#define RESHARDFS_ENGINE __attribute__((visibility("default")))
