// SPDX-License-Identifier: Apache-2.0
/// Values of a TOML file, with errors that name the line.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <toml++/toml.h>

#include "reshardfs/error.h"

#include "base/toml/toml_keys.h"

namespace reshardfs {

/// @throws Error kBadInput "line N: message".
[[noreturn]] void fail_at_line(std::int64_t line, const std::string& message);

std::int64_t line_of(const toml::node& node);

/// A table and its keys.
class TomlTable {
 public:
  /// @param header how the file names the table: "[devices]".
  /// @param keys all that the table may have.
  /// @throws Error kBadInput if it has another.
  TomlTable(const toml::table& table, std::string header,
            const std::vector<std::string_view>& keys);

  /// One row of a list in `shared`: its values, which `columns` name, and all other keys of
  /// `shared`. A row can lack the last columns.
  /// @throws Error kBadInput if the row has more values than there are columns.
  TomlTable(const TomlTable& shared, const std::vector<std::string>& columns,
            const toml::array& row);

  const std::string& header() const noexcept { return header_; }
  /// Of the header, or of the row.
  std::int64_t line() const { return row_ == nullptr ? line_of(table_) : line_of(*row_); }
  /// The line of a key's value; of the header if the table does not have it.
  std::int64_t line_of_key(std::string_view key) const;

  const toml::node* find(std::string_view key) const;
  /// @throws Error kBadInput if the key is missing.
  const toml::node& at(std::string_view key) const;

 private:
  const toml::table& table_;
  std::string header_;
  const toml::array* row_ = nullptr;
  std::vector<std::string> columns_{};  ///< those that the row has
};

// Each throws Error kBadInput if the value of `key` is of another kind or out of range.
const toml::array& list_at(std::string_view key, const toml::node& node, std::string_view expected);
std::string text_at(std::string_view key, const toml::node& node, const std::string& expected);
std::int64_t number_at(std::string_view key, const toml::node& node, std::int64_t lowest,
                       std::int64_t highest);

/// A text, or those of a list; there may be none, and they may be empty.
std::vector<std::string> texts_at(std::string_view key, const toml::node& node);

/// What `read` makes of a TOML text: of its tables, with errors that name the file and the line.
/// @throws Error kBadInput for invalid TOML, or keys of too many parts.
template <typename Read>
auto read_toml(const std::string& file, const std::string& text, const Read& read) {
  try {
    refuse_deep_toml_keys(text);
    return read(toml::parse(text, file));
  } catch (const toml::parse_error& error) {
    throw Error(ErrorKind::kBadInput, "line " + std::to_string(error.source().begin.line) + ": " +
                                          std::string(error.description()))
        .in_file(file);
  } catch (Error& error) {
    error.in_file(file);
    throw;
  }
}

/// @throws Error kBadInput "'key' is a list, expected ...".
[[noreturn]] void fail_wrong_type(std::string_view key, const toml::node& node,
                                  const std::string& expected);

/// Calls `read` with each table of [[key]]. @throws Error kBadInput if it is something else.
template <typename Read>
void for_each_table(const TomlTable& file, std::string_view key, const Read& read) {
  const toml::node* node = file.find(key);
  if (node == nullptr) return;
  const std::string header = "tables [[" + std::string(key) + "]]";
  for (const toml::node& element : list_at(key, *node, header)) {
    if (!element.is_table()) fail_wrong_type(key, element, header);
    read(*element.as_table());
  }
}

}  // namespace reshardfs
