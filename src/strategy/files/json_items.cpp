// SPDX-License-Identifier: Apache-2.0
#include "strategy/files/json_items.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include <nlohmann/json.hpp>

#include "reshardfs/error.h"

namespace reshardfs {
namespace {

/// Values nest item > list > list > number; a little more is let through to be named in an error.
constexpr std::size_t kMaxDepth = 8;
/// Values of one item: far above any, and what keeps a hostile one from filling the memory.
constexpr std::size_t kMaxItemValues = 1'000'000;

enum class Section { kOther, kLayouts, kOperators };

/// Depth 1 is inside the file's object, depth 2 inside a section, whose entries are the items.
class ItemParser : public nlohmann::json_sax<nlohmann::json> {
 public:
  explicit ItemParser(JsonItemSink& sink) : sink_(sink) {}

  bool null() override { return add({StrategyJson::Other{"null"}}); }
  bool boolean(bool) override { return add({StrategyJson::Other{"a boolean"}}); }
  bool number_integer(number_integer_t number) override { return add({number}); }
  bool number_unsigned(number_unsigned_t number) override {
    if (number > static_cast<number_unsigned_t>(INT64_MAX)) {
      return add({StrategyJson::Other{"a number of more than 64 bits"}});
    }
    return add({static_cast<std::int64_t>(number)});
  }
  bool number_float(number_float_t, const string_t&) override {
    return add({StrategyJson::Other{"a number that is not a 64-bit integer"}});
  }
  bool string(string_t& text) override { return add({std::move(text)}); }
  bool binary(binary_t&) override { return add({StrategyJson::Other{"binary data"}}); }

  bool start_object(std::size_t) override { return open({StrategyJson::Object{}}); }
  bool end_object() override { return close(); }
  bool start_array(std::size_t) override { return open({StrategyJson::Array{}}); }
  bool end_array() override { return close(); }

  bool key(string_t& text) override {
    if (depth_ == 1) {
      section_name_ = std::move(text);
      section_ = section_of(section_name_);
    } else if (section_ != Section::kOther && depth_ == 2) {
      item_name_ = std::move(text);
      item_values_ = 0;
    } else if (section_ != Section::kOther) {
      begin_member(std::move(text));
    }
    return true;
  }

  bool parse_error(std::size_t position, const std::string&,
                   const nlohmann::detail::exception& error) override {
    // "[json.exception...] parse error at line 1, column 5: ..." quotes the file; the place is
    // enough.
    const std::string text = error.what();
    const std::size_t begin = text.find("line ");
    const std::size_t end = text.find(':', begin);
    std::string place;
    if (begin != std::string::npos && end != std::string::npos) {
      place = " (" + text.substr(begin, end - begin) + ")";
    }
    throw Error(ErrorKind::kBadInput, "is not valid JSON" + place).at_offset(position);
  }

 private:
  static Section section_of(const std::string& name) {
    if (name == "parallel_layout_item") return Section::kLayouts;
    if (name == "parallel_strategy_item") return Section::kOperators;
    return Section::kOther;
  }

  /// Whether what comes now lies outside the items. Refuses what stands where items, or the object
  /// of all sections, must be.
  bool skipped(const StrategyJson& value) const {
    if (depth_ == 0) {
      if (value.object()) return true;
      throw Error(ErrorKind::kBadInput,
                  "is not a strategy: the file is " + value.type_name() + ", expected an object");
    }
    if (section_ == Section::kOther) return true;
    if (depth_ > 1) return false;
    if (value.object()) return true;
    throw Error(ErrorKind::kBadInput,
                "key '" + section_name_ + "' has " + value.type_name() + ", expected an object");
  }

  void begin_member(std::string name) {
    auto& members = std::get<StrategyJson::Object>(open_.back().value);
    const auto same = [&](const auto& member) { return member.key == name; };
    if (std::any_of(members.begin(), members.end(), same)) {
      fail("key '" + printable(name) + "' appears twice");
    }
    // A layout has eight keys; looking through very many for each new one would take forever.
    if (members.size() >= kMaxMembers) fail("has too many keys");
    members.push_back({std::move(name), StrategyJson{}});
  }

  bool add(StrategyJson value) {
    if (!skipped(value)) place(std::move(value));
    return true;
  }

  bool open(StrategyJson value) {
    if (!skipped(value)) {
      if (open_.size() == kMaxDepth) fail("is nested too deeply");
      open_.push_back(std::move(value));
    }
    ++depth_;
    return true;
  }

  bool close() {
    --depth_;
    if (open_.empty()) {
      if (depth_ == 1) section_ = Section::kOther;
      return true;
    }
    StrategyJson value = std::move(open_.back());
    open_.pop_back();
    place(std::move(value));
    return true;
  }

  /// Puts a finished value where it belongs: into the list or object around it, or to the sink.
  void place(StrategyJson value) {
    if (open_.empty()) {
      if (section_ == Section::kLayouts) {
        sink_.layout_item(std::move(item_name_), value);
      } else {
        sink_.operator_item(std::move(item_name_), value);
      }
      return;
    }
    if (++item_values_ > kMaxItemValues) fail("has too many values");
    if (auto* list = std::get_if<StrategyJson::Array>(&open_.back().value)) {
      list->push_back(std::move(value));
    } else {
      std::get<StrategyJson::Object>(open_.back().value).back().value = std::move(value);
    }
  }

  [[noreturn]] void fail(std::string message) const {
    if (section_ == Section::kLayouts) {
      throw Error(ErrorKind::kBadInput, std::move(message)).for_parameter(item_name_);
    }
    throw Error(ErrorKind::kBadInput,
                "operator '" + printable(item_name_) + "': " + std::move(message));
  }

  static constexpr std::size_t kMaxMembers = 64;

  JsonItemSink& sink_;
  std::size_t depth_ = 0;
  Section section_ = Section::kOther;
  std::string section_name_;
  std::string item_name_;
  std::size_t item_values_ = 0;
  /// The lists and objects of the item that are not closed yet, outermost first.
  std::vector<StrategyJson> open_;
};

}  // namespace

std::string StrategyJson::type_name() const {
  struct Namer {
    std::string operator()(const Other& other) const { return std::string(other.type); }
    std::string operator()(std::int64_t) const { return "an integer"; }
    std::string operator()(const std::string&) const { return "a text"; }
    std::string operator()(const Array&) const { return "a list"; }
    std::string operator()(const Object&) const { return "an object"; }
  };
  return std::visit(Namer{}, value);
}

void walk_json_items(const std::string& text, JsonItemSink& sink) {
  ItemParser parser(sink);
  nlohmann::json::sax_parse(text, &parser);
}

}  // namespace reshardfs
