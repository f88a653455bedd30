// SPDX-License-Identifier: Apache-2.0
#include "cli/app.h"
#include "cli/command.h"
#include "cli/words/conversion_words.h"
#include "cli/words/shared_words.h"
#include "cli/write_file.h"
#include "daemon/open_conversion.h"

namespace reshardfs {

int run_report(const Given& given) {
  log_settings(given).apply();
  const Conversion conversion = open_conversion(conversion_options(given));
  write_output(given.text("output"), given.flag("force"),
               [&](const TextSink& out) { conversion.write_report(out); });
  return kExitDone;
}

}  // namespace reshardfs
