// SPDX-License-Identifier: Apache-2.0
/// JSON inside a page: it has no `<`, so that no text in it ends the script element.
#pragma once

#include <string>
#include <string_view>

#include "report/bounded_writer.h"

namespace reshardfs {

/// A text with its quotes; bytes that are not UTF-8 are replaced.
std::string json_text(const std::string& text);

/// A list with one item for each of `items`; `write_item` writes it.
template <typename Items, typename WriteItem>
void write_list(BoundedWriter& out, std::string_view name, const Items& items,
                WriteItem&& write_item) {
  out.print("\"{}\":[", name);
  bool first = true;
  for (const auto& item : items) {
    if (!first) out.write(",");
    first = false;
    write_item(item);
  }
  out.write("],\n");
}

}  // namespace reshardfs
