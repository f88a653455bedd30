// SPDX-License-Identifier: Apache-2.0
/// export_conformance --target=DIRECTORY|s3://BUCKET/PREFIX
#include <cstdio>
#include <string_view>

#include <gtest/gtest.h>

#include "base/text/url_path.h"
#include "conformance/export_place.h"
#include "conformance/suite.h"
#include "export/folder_target.h"
#include "export/object_target.h"
#include "support/shared_exceptions.h"

namespace reshardfs::conformance {

std::filesystem::path& export_place() {
  static std::filesystem::path place;
  return place;
}

std::unique_ptr<const Target> open_target(const std::string& name, LockMode lock) {
  const std::filesystem::path place = export_place() / name;
  if (is_url(place)) return std::make_unique<const ObjectTarget>(place, "/nowhere");
  return std::make_unique<const FolderTarget>(place, "/nowhere", lock,
                                              FolderWays{.checksums = true});
}

int run_suite(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  const std::string_view option = "--target=";
  const std::string_view word = argc == 2 ? argv[1] : "";
  if (!word.starts_with(option) || word == option) {
    std::fprintf(stderr, "--target=DIRECTORY|URL is missing\n");
    return 2;
  }
  export_place() = word.substr(option.size());
  return RUN_ALL_TESTS();
}

}  // namespace reshardfs::conformance
