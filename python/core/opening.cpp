// SPDX-License-Identifier: Apache-2.0
#include "core/opening.h"

#include <mutex>
#include <optional>
#include <utility>

#include "reshardfs/error.h"

#include "base/process/process_state.h"
#include "base/text/shell_text.h"
#include "cli/advice/opened_source.h"
#include "cli/options/table.h"
#include "cli/words/check_given.h"
#include "cli/words/conversion_words.h"
#include "cli/words/given_values.h"

namespace reshardfs::python {
namespace {

/// What is said of servers and the cache holds for the process, and is read while a source opens.
ProcessState<std::mutex> one_at_a_time("opening of Python's checkpoints", make_new<std::mutex>);

/// Where a strategy is missing, the error names the one that was found, as the command line does.
Conversion open_or_propose(const ConversionOptions& options, const Given& given) {
  try {
    return Conversion::open(options);
  } catch (const Error& error) {
    if (error.need() != Need::kSourceStrategy) throw;
    const auto source = reshardfs::OpenedSource::open(given.argument("SOURCE"), given);
    const auto layout = source ? source->known_layout() : std::nullopt;
    if (!layout) throw;
    throw Error(error.kind(), error.message())
        .in_file(error.file())
        .for_parameter(error.parameter())
        .hint("give --src-strategy " + shell_word(*layout));
  }
}

}  // namespace

OpenedSource open_source(const KeptOpening& opening) {
  const std::lock_guard lock(one_at_a_time.get());
  const Given given = given_values(python_command(), {opening.source}, opening.values);
  check_given(given);
  ConversionOptions options = conversion_options(given);
  Conversion conversion = open_or_propose(options, given);
  if (!opening.identity.empty()) require_same_files(opening.identity, options, conversion);
  return {given, std::move(options), std::move(conversion)};
}

}  // namespace reshardfs::python
