// SPDX-License-Identifier: Apache-2.0
#include <memory>
#include <string>

#include "cli/app.h"
#include "cli/command.h"
#include "cli/words/conversion_arguments.h"
#include "cli/write_file.h"
#include "daemon/open_conversion.h"

namespace reshardfs {
namespace {

struct ReportArguments {
  ConversionArguments conversion;
  std::string output;
  bool force = false;
};

int run_report(const ReportArguments& arguments) {
  arguments.conversion.log.apply();
  const Conversion conversion = open_conversion(arguments.conversion.options());
  write_output(arguments.output, arguments.force,
               [&](const TextSink& out) { conversion.write_report(out); });
  return kExitDone;
}

}  // namespace

void add_report_command(CLI::App& app, CommandAction& action) {
  auto arguments = std::make_shared<ReportArguments>();
  CLI::App* command =
      app.add_subcommand("report", "Write an HTML page with layouts, traffic and parameters");
  command->add_option("SOURCE", arguments->conversion.source, "A checkpoint, as for mount")
      ->required();
  command
      ->add_option("-O,--output", arguments->output,
                   "Write the page, one self-contained HTML file, here; - for standard output")
      ->type_name("FILE")
      ->required()
      ->take_last();
  command->add_flag("--force", arguments->force, "Replace FILE if it exists");
  arguments->conversion.add_to(*command);
  command->footer(
      "Example: write a page to share with colleagues\n  reshardfs report ckpt --src-strategy "
      "train.ckpt --dst-strategy tp=8 -O report.html");
  command->callback(
      [&action, arguments] { action = [arguments] { return run_report(*arguments); }; });
}

}  // namespace reshardfs
