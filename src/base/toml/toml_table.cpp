// SPDX-License-Identifier: Apache-2.0
#include "base/toml/toml_table.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "reshardfs/error.h"

namespace reshardfs {
namespace {

/// What a value is, in words of people who do not know the names of TOML's types.
std::string kind_of(const toml::node& node) {
  switch (node.type()) {
    case toml::node_type::string:
      return "a text";
    case toml::node_type::integer:
      return "a number";
    case toml::node_type::floating_point:
      return "a number with a fraction";
    case toml::node_type::boolean:
      return "true or false";
    case toml::node_type::array:
      return "a list";
    case toml::node_type::table:
      return "a table";
    default:
      return "a date or a time";
  }
}

std::string joined(const std::vector<std::string_view>& words) {
  std::string text;
  for (const std::string_view word : words) {
    if (!text.empty()) text += ", ";
    text += word;
  }
  return text;
}

}  // namespace

void fail_at_line(std::int64_t line, const std::string& message) {
  throw Error(ErrorKind::kBadInput, "line " + std::to_string(line) + ": " + message);
}

std::int64_t line_of(const toml::node& node) {
  // Tables that exist only through the keys in them have no place of their own.
  return std::max<std::int64_t>(1, node.source().begin.line);
}

void fail_wrong_type(std::string_view key, const toml::node& node, const std::string& expected) {
  fail_at_line(line_of(node),
               "'" + std::string(key) + "' has " + kind_of(node) + ", expected " + expected);
}

TomlTable::TomlTable(const toml::table& table, std::string header,
                     const std::vector<std::string_view>& keys)
    : table_(table), header_(std::move(header)) {
  for (const auto& [key, node] : table_) {
    if (std::find(keys.begin(), keys.end(), key.str()) != keys.end()) continue;
    fail_at_line(std::max<std::int64_t>(1, key.source().begin.line),
                 "'" + printable(std::string(key.str())) + "' is not a key of " + header_ +
                     ", which has " + joined(keys));
  }
}

TomlTable::TomlTable(const TomlTable& shared, const std::vector<std::string>& columns,
                     const toml::array& row)
    : table_(shared.table_), header_(shared.header_), row_(&row), columns_(columns) {
  if (row.size() > columns.size()) {
    fail_at_line(line_of(row), "the row has " + std::to_string(row.size()) +
                                   " values, but there are " + std::to_string(columns.size()) +
                                   " columns");
  }
  columns_.resize(row.size());
}

const toml::node* TomlTable::find(std::string_view key) const {
  const auto found = std::find(columns_.begin(), columns_.end(), key);
  if (found == columns_.end()) return table_.get(key);
  return row_->get(static_cast<std::size_t>(found - columns_.begin()));
}

std::int64_t TomlTable::line_of_key(std::string_view key) const {
  const toml::node* node = find(key);
  return node == nullptr ? line() : line_of(*node);
}

const toml::node& TomlTable::at(std::string_view key) const {
  const toml::node* node = find(key);
  if (node == nullptr) {
    fail_at_line(line(), header_ + " has no '" + std::string(key) + "', which it needs");
  }
  return *node;
}

const toml::array& list_at(std::string_view key, const toml::node& node,
                           std::string_view expected) {
  const toml::array* list = node.as_array();
  if (list == nullptr) fail_wrong_type(key, node, std::string(expected));
  return *list;
}

std::string text_at(std::string_view key, const toml::node& node, const std::string& expected) {
  std::optional<std::string> text = node.value_exact<std::string>();
  if (!text) fail_wrong_type(key, node, expected);
  return *std::move(text);
}

std::vector<std::string> texts_at(std::string_view key, const toml::node& node) {
  constexpr const char* kForm = "a text or a list of texts";
  std::vector<std::string> texts;
  if (node.is_string()) {
    texts.push_back(text_at(key, node, kForm));
  } else {
    for (const toml::node& text : list_at(key, node, kForm)) {
      texts.push_back(text_at(key, text, kForm));
    }
  }
  return texts;
}

std::int64_t number_at(std::string_view key, const toml::node& node, std::int64_t lowest,
                       std::int64_t highest) {
  const std::string expected =
      "a whole number from " + std::to_string(lowest) + " to " + std::to_string(highest);
  const std::optional<std::int64_t> number = node.value_exact<std::int64_t>();
  if (!number) fail_wrong_type(key, node, expected);
  if (*number < lowest || *number > highest) {
    fail_at_line(line_of(node), "'" + std::string(key) + "' is " + std::to_string(*number) +
                                    ", expected " + expected);
  }
  return *number;
}

}  // namespace reshardfs
