// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Marks a symbol that libreshardfs exports; all others are hidden (-fvisibility=hidden).
#define RESHARDFS_EXPORT __attribute__((visibility("default")))
