// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <initializer_list>
#include <string>

#include <gtest/gtest.h>

#include "reshardfs/error.h"

namespace reshardfs::test {

/// Runs `action`, which must throw an Error of `kind` whose text has all of `words`.
template <typename Action>
void expect_error(ErrorKind kind, std::initializer_list<std::string> words, Action&& action) {
  try {
    action();
  } catch (const Error& error) {
    const std::string text = error.what();
    EXPECT_EQ(error.kind(), kind) << text;
    for (const std::string& word : words) {
      EXPECT_NE(text.find(word), std::string::npos) << "no '" << word << "' in: " << text;
    }
    return;
  }
  ADD_FAILURE() << "nothing was thrown";
}

}  // namespace reshardfs::test
