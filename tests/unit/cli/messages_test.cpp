// SPDX-License-Identifier: Apache-2.0
#include "cli/messages.h"

#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>

#include <gtest/gtest.h>

namespace reshardfs {
namespace {

/// In a process of its own: who listens is found out once.
std::string told() {
  const int file = ::memfd_create("messages", 0);
  ::setenv("RESHARDFS_MESSAGES", std::to_string(file).c_str(), /*overwrite=*/1);
  tell_error(Error(ErrorKind::kMissing, "is \xff\xc3\xa9").in_file("/a\"b").hint("look"));
  tell_error(ErrorKind::kIo, "no \x7f");
  tell_progress({.phase = "writing",
                 .current = "",
                 .bytes = 1,
                 .total_bytes = ~std::uint64_t{0},
                 .files = 3,
                 .total_files = 4});
  std::array<char, 4096> text{};
  const ssize_t count = ::pread(file, text.data(), text.size(), 0);
  return {text.data(), static_cast<std::size_t>(count)};
}

// Programs of other versions read them.
constexpr const char* kTold =
    R"({"error":{"kind":"missing","path":"/a\"b","parameter":null,"rank":null,"hint":"look",)"
    R"("message":"is \ufffd\u00e9","text":"/a\"b: is \\xff\u00e9; look"}})"
    "\n"
    R"({"error":{"kind":"io","path":null,"parameter":null,"rank":null,"hint":null,)"
    R"("message":"no \u007f","text":"no \u007f"}})"
    "\n"
    R"({"progress":{"phase":"writing","bytes":1,"total_bytes":18446744073709551615,"files":3,)"
    R"("total_files":4,"file":null}})"
    "\n";

TEST(Messages, HaveTheTextThatTheyAlwaysHad) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto compare = [] {
    const std::string text = told();
    std::fputs(text.c_str(), stderr);
    std::_Exit(text == kTold ? EXIT_SUCCESS : EXIT_FAILURE);
  };
  EXPECT_EXIT(compare(), ::testing::ExitedWithCode(EXIT_SUCCESS), "");
}

}  // namespace
}  // namespace reshardfs
