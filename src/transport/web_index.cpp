// SPDX-License-Identifier: Apache-2.0
#include "transport/web_index.h"

#include <algorithm>
#include <array>
#include <optional>
#include <set>
#include <utility>

#include "reshardfs/error.h"

#include "base/json/json_value.h"
#include "transport/url.h"

namespace reshardfs {
namespace {

/// A name that may be joined to a path.
bool is_plain(const std::string& name) {
  return !name.empty() && name != "." && name != ".." && name.find('/') == std::string::npos &&
         name.find('\0') == std::string::npos;
}

std::vector<WebEntry> entries_of_json(std::string_view page, const std::string& url) {
  const auto bad = [&] {
    return Error(ErrorKind::kBadInput,
                 "the server's list of the directory is not as nginx writes it")
        .in_file(url);
  };
  const auto document = JsonDocument::parse(page);
  if (!document || !document->value().is_list()) throw bad();
  std::vector<WebEntry> entries;
  for (const JsonValue item : document->value()) {
    const auto name = item.find("name");
    const auto type = item.find("type");
    if (!name || !name->text() || !type || !type->text()) throw bad();
    WebEntry entry{std::string(*name->text()), *type->text() == "directory"};
    if (is_plain(entry.name)) entries.push_back(std::move(entry));
  }
  return entries;
}

/// What stands behind the directory's own URL; nothing if the link leads elsewhere.
std::string below(std::string_view link, const UrlParts& page) {
  link = link.substr(0, link.find('#'));
  // Links that sort the list.
  if (link.find('?') != std::string_view::npos) return {};
  const UrlParts parts = split_url(link);
  if (!parts.scheme.empty()) {
    if (parts.scheme != page.scheme || parts.authority != page.authority) return {};
    link = link.substr(link.find("://") + 3);
    link.remove_prefix(std::min(link.find('/'), link.size()));
  }
  if (link.starts_with("//")) return {};
  if (link.starts_with('/')) {
    const std::string path = url_decoded(link);
    const std::string own = url_decoded(page.path);
    return path.starts_with(own) ? path.substr(own.size()) : "";
  }
  if (link.starts_with("./")) link.remove_prefix(2);
  // "javascript:", "mailto:"
  const std::size_t colon = link.find(':');
  if (colon != std::string_view::npos && colon < link.find('/')) return {};
  return url_decoded(link);
}

/// The character that "&NAME;" stands for, of those that URLs need; 0 for others.
char character_of(std::string_view entity) {
  constexpr std::array<std::pair<std::string_view, char>, 7> kEntities{{{"amp", '&'},
                                                                        {"lt", '<'},
                                                                        {"gt", '>'},
                                                                        {"quot", '"'},
                                                                        {"apos", '\''},
                                                                        {"#39", '\''},
                                                                        {"#x27", '\''}}};
  for (const auto& [name, character] : kEntities) {
    if (entity == name) return character;
  }
  return 0;
}

std::string without_entities(std::string_view text) {
  constexpr std::size_t kLongest = 8;
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const std::size_t end =
        text[i] == '&' ? text.substr(i, kLongest).find(';') : std::string_view::npos;
    const char character =
        end == std::string_view::npos ? '\0' : character_of(text.substr(i + 1, end - 1));
    out += character == '\0' ? text[i] : character;
    if (character != '\0') i += end;
  }
  return out;
}

/// The links of a page, in one pass over it: how a hostile page nests its elements does not matter,
/// which it does to parsers that make a tree.
class Links {
 public:
  explicit Links(std::string_view page) : page_(page) {}

  /// @return nothing behind the last one.
  std::optional<std::string> next() {
    while (true) {
      at_ = page_.find('<', at_);
      if (at_ == std::string_view::npos) return std::nullopt;
      ++at_;
      if (at_ + 1 >= page_.size() || (page_[at_] != 'a' && page_[at_] != 'A')) continue;
      ++at_;
      if (!is_blank(page_[at_])) continue;
      if (auto link = link_of_tag()) return link;
    }
  }

 private:
  static bool is_blank(char c) noexcept {
    return c == ' ' || c == '\t' || c == '\n' || c == '\r' || c == '\f';
  }
  bool at_end() const noexcept { return at_ >= page_.size() || page_[at_] == '>'; }
  void skip_blanks() noexcept {
    while (!at_end() && is_blank(page_[at_])) ++at_;
  }

  /// The attribute "href" of the tag; the position is behind the attribute or the tag then.
  std::optional<std::string> link_of_tag() {
    while (true) {
      skip_blanks();
      if (at_end()) return std::nullopt;
      const std::size_t begin = at_;
      while (!at_end() && !is_blank(page_[at_]) && page_[at_] != '=') ++at_;
      const std::string_view name = page_.substr(begin, at_ - begin);
      skip_blanks();
      if (at_end() || page_[at_] != '=') continue;
      ++at_;
      skip_blanks();
      const std::string_view text = value();
      if (name == "href" || name == "HREF") return without_entities(text);
    }
  }

  std::string_view value() {
    if (at_end()) return {};
    const char quote = page_[at_];
    if (quote == '"' || quote == '\'') {
      const std::size_t end = page_.find(quote, at_ + 1);
      const std::string_view text = page_.substr(
          at_ + 1, end == std::string_view::npos ? std::string_view::npos : end - at_ - 1);
      at_ = end == std::string_view::npos ? page_.size() : end + 1;
      return text;
    }
    const std::size_t begin = at_;
    while (!at_end() && !is_blank(page_[at_])) ++at_;
    return page_.substr(begin, at_ - begin);
  }

  std::string_view page_;
  std::size_t at_ = 0;
};

std::vector<WebEntry> entries_of_html(std::string_view page, const std::string& url) {
  const UrlParts own = split_url(url);
  std::vector<WebEntry> entries;
  std::set<std::string> known;
  Links links(page);
  while (const auto link = links.next()) {
    WebEntry entry{below(*link, own)};
    if (entry.name.ends_with('/')) {
      entry.is_directory = true;
      entry.name.pop_back();
    }
    if (is_plain(entry.name) && known.insert(entry.name).second) {
      entries.push_back(std::move(entry));
    }
  }
  return entries;
}

}  // namespace

std::vector<WebEntry> parse_web_index(std::string_view content_type, std::string_view page,
                                      const std::string& url) {
  if (content_type.find("json") != std::string_view::npos) return entries_of_json(page, url);
  return entries_of_html(page, url);
}

}  // namespace reshardfs
