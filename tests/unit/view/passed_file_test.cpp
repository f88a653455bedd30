// SPDX-License-Identifier: Apache-2.0
#include "view/files/passed_file.h"

#include <string>

#include <gtest/gtest.h>

#include "support/errors.h"
#include "support/temp_dir.h"

namespace reshardfs {
namespace {

using test::TempDir;

std::string text_of(const PassedFile& file) {
  std::string text(static_cast<std::size_t>(file.size()), ' ');
  file.read_at(0, std::as_writable_bytes(std::span(text)));
  return text;
}

TEST(PassedFile, HasTheBytesOfItsSource) {
  const TempDir directory;
  EXPECT_EQ(text_of(PassedFile(directory.write("tokenizer.json", "{}"), nullptr)), "{}");
}

TEST(PassedFile, RefusesOneThatHasChanged) {
  const TempDir directory;
  const auto path = directory.write("tokenizer.json", "{}");
  const PassedFile file(path, nullptr);
  std::filesystem::resize_file(path, 3);
  test::expect_error(ErrorKind::kChanged, {"tokenizer.json"}, [&] { text_of(file); });
}

}  // namespace
}  // namespace reshardfs
