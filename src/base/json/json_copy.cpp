// SPDX-License-Identifier: Apache-2.0
#include "base/json/json_copy.h"

namespace reshardfs {

void copy_json(JsonReader& reader, JsonWriter& writer, const JsonEdit& edit) {
  switch (reader.kind()) {
    case JsonKind::kNull:
      return writer.null();
    case JsonKind::kBoolean:
      return writer.boolean(reader.integer() != 0);
    case JsonKind::kInteger:
    case JsonKind::kOtherNumber:
      return writer.written(reader.text());
    case JsonKind::kText:
      return writer.text(reader.text());
    case JsonKind::kList:
      writer.open_list();
      reader.enter();
      while (reader.next()) copy_json(reader, writer, edit);
      return writer.close_list();
    case JsonKind::kObject:
      writer.open_object();
      reader.enter();
      while (reader.next()) {
        if (edit && edit(reader, writer)) continue;
        writer.key(reader.key());
        copy_json(reader, writer, edit);
      }
      return writer.close_object();
  }
}

}  // namespace reshardfs
