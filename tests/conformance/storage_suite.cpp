// SPDX-License-Identifier: Apache-2.0
/// storage_conformance --location=PATH|URL [--change=COMMAND] [--remove=COMMAND] [--ca-file=FILE]
///                     [--slow-files]
#include <cstdio>
#include <string>
#include <string_view>

#include <gtest/gtest.h>

#include "reshardfs/error.h"

#include "conformance/place.h"
#include "conformance/suite.h"
#include "storage/local/measured_file.h"
#include "storage/location.h"
#include "support/shared_exceptions.h"
#include "transport/settings.h"

namespace reshardfs::conformance {

Place& place() {
  static Place place;
  return place;
}

namespace {

/// @return whether it is one of the suite's own.
bool take(std::string_view word) {
  const auto value = [&](std::string_view option) {
    return word.starts_with(option) ? std::string(word.substr(option.size())) : "";
  };
  if (const std::string given = value("--location="); !given.empty()) {
    place().root = absolute_source(given);
  } else if (const std::string command = value("--change="); !command.empty()) {
    place().change = command;
  } else if (const std::string removing = value("--remove="); !removing.empty()) {
    place().remove = removing;
  } else if (const std::string file = value("--ca-file="); !file.empty()) {
    transport_settings().ca_file = file;
  } else if (word == "--slow-files") {
    slow_files() = SlowFiles::kAll;
  } else {
    return false;
  }
  return true;
}

}  // namespace

int run_suite(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  try {
    for (int i = 1; i < argc; ++i) {
      if (take(argv[i])) continue;
      std::fprintf(stderr, "not an option: %s\n", argv[i]);
      return 2;
    }
  } catch (const Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 2;
  }
  if (place().root.empty()) {
    std::fprintf(stderr, "--location is missing\n");
    return 2;
  }
  return RUN_ALL_TESTS();
}

}  // namespace reshardfs::conformance
