// SPDX-License-Identifier: Apache-2.0
/// Second names of tensors.
#include <algorithm>
#include <utility>

#include "modelmap/mapping_work.h"

namespace reshardfs::modelmap {
namespace {

std::vector<CaptureValue> values_of(const std::vector<std::int64_t>& numbers) {
  std::vector<CaptureValue> values;
  values.reserve(numbers.size());
  for (const std::int64_t number : numbers) values.push_back({number, {}});
  return values;
}

}  // namespace

/// Calls `use` with the names for all values of the captures.
void MappingWork::each_alias_value(const MapAlias& alias, const UseAlias& use) {
  const Scope scope(variables_);
  const NameLookup look_up = scope.lookup();
  std::vector<std::int64_t> ranges;
  std::int64_t count = 1;
  for (std::size_t slot = 0; slot < alias.ranges.size(); ++slot) {
    const RuleCapture capture{alias.name.names()[slot], false, CaptureSide::kTo,
                              alias.ranges[slot]};
    ranges.push_back(evaluate_range(capture, scope));
    count *= ranges.back();
    if (count > kMaxRange) {
      throw Error(ErrorKind::kUnsupported,
                  "the alias has more than " + std::to_string(kMaxRange) + " names");
    }
  }
  for (std::int64_t i = 0; i < count; ++i) {
    std::vector<std::int64_t> numbers(ranges.size());
    std::int64_t rest = i;
    for (std::size_t slot = ranges.size(); slot-- > 0;) {
      numbers[slot] = rest % ranges[slot];
      rest /= ranges[slot];
    }
    Scope inner(variables_);
    for (std::size_t slot = 0; slot < numbers.size(); ++slot) {
      inner.bind(alias.name.names()[slot], numbers[slot]);
    }
    const bool holds =
        std::all_of(alias.when.begin(), alias.when.end(),
                    [&](const auto& condition) { return inner.evaluate(*condition) != 0; });
    if (!holds) continue;
    std::vector<std::int64_t> of_numbers;
    for (const std::size_t slot : alias.of_slots) of_numbers.push_back(numbers[slot]);
    const auto name = alias.name.fill(values_of(numbers), alias.name.numberings(look_up));
    const auto of = alias.of.fill(values_of(of_numbers), alias.of.numberings(look_up));
    if (name && of) use(alias, *name, *of);
  }
}

void MappingWork::each_alias(bool of_source, const UseAlias& use) {
  const bool from = of_source == (direction_ == Direction::kForward);
  for (const MapAlias& alias : map_.aliases) {
    if (alias.is_from != from || (!of_source && !alias.emit)) continue;
    try {
      each_alias_value(alias, use);
    } catch (const Error& error) {
      problems_.add(ProblemKind::kVariable, alias.place,
                    printable(alias.name.text()) + ": " + error.message());
    }
  }
}

void MappingWork::hide_source_aliases() {
  each_alias(true, [this](const MapAlias& alias, const std::string& name, const std::string& of) {
    add_source_alias(alias, name, of);
  });
}

void MappingWork::add_source_alias(const MapAlias& alias, const std::string& name,
                                   const std::string& of) {
  const auto tensor = tensor_named(name);
  if (!tensor) return;
  fates_[*tensor] = Fate::kHidden;
  const auto original = tensor_named(of);
  if (!original) {
    problems_.add(
        ProblemKind::kMissing, alias.place,
        printable(of) + ": missing in the source (" + printable(name) + " is an alias of it)");
    return;
  }
  const SourceTensor& a = tensors_[*tensor];
  const SourceTensor& b = tensors_[*original];
  if (a.shape != b.shape || a.dtype != b.dtype) {
    problems_.add(ProblemKind::kShape, alias.place,
                  printable(name) + ": it is " + std::string(mindspore_name(a.dtype)) + " " +
                      to_string(a.shape) + ", but '" + printable(of) +
                      "', of which it is an alias, is " + std::string(mindspore_name(b.dtype)) +
                      " " + to_string(b.shape));
    return;
  }
  const bool has_variable = alias.when.size() == 1 && alias.when[0]->names().size() == 1 &&
                            alias.when[0]->text() == alias.when[0]->names()[0];
  out_.aliases.push_back(
      {*tensor, *original, alias.place, has_variable ? alias.when[0]->names()[0] : std::string()});
}

void MappingWork::add_target_aliases() {
  std::unordered_map<std::string, std::size_t> originals;
  const std::size_t count = targets_.size();
  const auto use = [&](const MapAlias& alias, const std::string& name, const std::string& of) {
    if (originals.empty()) {
      for (std::size_t i = 0; i < count; ++i) originals.emplace(targets_[i].tensor.name, i);
    }
    const auto original = originals.find(of);
    if (original == originals.end()) {
      if (!wants(name)) return;
      problems_.add(ProblemKind::kAlias, alias.place,
                    printable(of) + ": missing (" + printable(name) + " needs it)");
      return;
    }
    OrderedTarget target = targets_[original->second];
    target.tensor.name = name;
    target.tensor.place = alias.place;
    target.tensor.is_alias = true;
    target.rule = map_.rules.size() + static_cast<std::size_t>(&alias - map_.aliases.data());
    targets_.push_back(std::move(target));
  };
  each_alias(false, use);
}

}  // namespace reshardfs::modelmap
