// SPDX-License-Identifier: Apache-2.0
#include <set>
#include <string>

#include "fuzz/fuzzing.h"
#include "transport/s3_listing.h"
#include "transport/web_index.h"

using namespace reshardfs;
using fuzz::require;

namespace {

void check_page(const std::string& text) {
  fuzz::may_refuse([&] {
    const S3Page page = parse_s3_page(text, "s3://bucket");
    // Each key takes some characters: "<Key></Key>".
    require(page.keys.size() + page.prefixes.size() <= text.size() / 6, "keys out of nothing");
  });
  fuzz::may_refuse([&] {
    const S3PartPage page = parse_s3_parts(text, "s3://bucket");
    require(page.parts.size() <= text.size() / 6, "parts out of nothing");
  });
  require(xml_text(text, "Code").size() <= text.size(), "a text out of nothing");
}

void check_index(const std::string& type, const std::string& text, bool once) {
  fuzz::may_refuse([&] {
    std::set<std::string> names;
    for (const WebEntry& entry : parse_web_index(type, text, "https://host/a%20b/")) {
      const std::string& name = entry.name;
      require(!name.empty() && name != "." && name != "..", "a name that is none");
      require(name.find('/') == std::string::npos && name.find('\0') == std::string::npos,
              "a name that leads elsewhere");
      require(names.insert(name).second || !once, "a name twice");
    }
  });
}

}  // namespace

/// The first byte chooses: a page of a store, or a web server's list as JSON or as a page.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string text(reinterpret_cast<const char*>(data) + 1, size - 1);
  switch (data[0] % 3) {
    case 0:
      check_page(text);
      break;
    case 1:
      check_index("application/json", text, /*once=*/false);
      break;
    default:
      check_index("text/html; charset=utf-8", text, /*once=*/true);
  }
  return 0;
}
