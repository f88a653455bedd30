// SPDX-License-Identifier: Apache-2.0
/// What Python calls by names and values of options.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include <pybind11/pybind11.h>

#include "core/handle.h"

namespace reshardfs::python {

/// An option: its name, its texts or None, and whether they are numbers. See OptionValue.
using PlainValue = std::tuple<std::string, std::optional<std::vector<std::string>>, bool>;

/// @param identity of a kept opening, or empty.
std::shared_ptr<CheckpointHandle> open_checkpoint(const std::string& source,
                                                  const std::vector<PlainValue>& values,
                                                  const std::string& identity);

/// Runs a command in this process: see json_answer().
/// @param progress None, or is called with the members of Progress::Values.
pybind11::bytes run_command(const std::string& name, const std::vector<std::string>& arguments,
                            const std::vector<PlainValue>& values,
                            const pybind11::object& progress);

/// The command line of a command for another process, without the program's name.
std::vector<pybind11::bytes> command_words(const std::string& name,
                                           const std::vector<std::string>& arguments,
                                           const std::vector<PlainValue>& values);

}  // namespace reshardfs::python
