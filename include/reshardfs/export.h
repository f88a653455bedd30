// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Marks what libreshardfs exports; everything else is hidden (-fvisibility=hidden).
#define RESHARDFS_EXPORT __attribute__((visibility("default")))
