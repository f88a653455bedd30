// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include <CLI/CLI.hpp>

namespace reshardfs {

/// The text of --help: options in groups, one line of usage, and everything wrapped to the columns
/// of the terminal, or to 80 where the output is not a terminal.
///
/// Programs read it too: completions and the check of the manual (packaging/program_help.py). An
/// option's default follows its description as "[default: ...]", and the words that its argument
/// does not name as "[possible values: ...]".
class HelpFormatter : public CLI::Formatter {
 public:
  /// @param columns of a line.
  explicit HelpFormatter(std::size_t columns) : columns_(columns) {}

  std::string make_help(const CLI::App* app, std::string name,
                        CLI::AppFormatMode mode) const override;

 private:
  [[nodiscard]] std::string option_groups(const CLI::App& app) const;
  [[nodiscard]] std::string entry(const std::string& head, const std::string& text,
                                  std::size_t column) const;

  std::size_t columns_;
};

/// For standard output as it is.
std::shared_ptr<HelpFormatter> help_formatter();

}  // namespace reshardfs
