// SPDX-License-Identifier: Apache-2.0
/// From `from` to `to`: a target for each application, and the proof that nothing is left over.
#include <algorithm>
#include <iterator>
#include <utility>

#include "modelmap/mapping_work.h"

namespace reshardfs::modelmap {
namespace {

/// Appends shapes, of which most are like the one before.
void append_shapes(std::vector<std::int64_t>& key, const std::vector<const Shape*>& shapes) {
  for (std::size_t i = 0; i < shapes.size();) {
    std::size_t end = i;
    while (end < shapes.size() && *shapes[end] == *shapes[i]) ++end;
    key.push_back(static_cast<std::int64_t>(end - i));
    key.push_back(static_cast<std::int64_t>(shapes[i]->size()));
    // Not insert(): GCC 14 then warns of an overflow that cannot happen.
    std::ranges::copy(*shapes[i], std::back_inserter(key));
    i = end;
  }
}

}  // namespace

void MappingWork::make_forward(const Application& application) {
  try {
    make_forward_target(application);
  } catch (const Error& error) {
    fail(application, error);
  }
}

/// The tensors by number; nothing, and problems, if some are not there.
std::optional<std::vector<std::uint32_t>> MappingWork::forward_sources(
    const Application& application, const RuleSources& sources, const std::string& target) {
  if (map_.rules[application.rule].reads_one()) {
    Fate& fate = fates_[application.tensor];
    if (fate != Fate::kSkipped) fate = Fate::kTaken;
    return std::vector{application.tensor};
  }
  std::vector<std::uint32_t> tensors;
  const std::string& prefix = sets_[application.set].source_prefix;
  bool is_complete = true;
  for (std::size_t source = 0; source < sources.size(); ++source) {
    const std::string name = prefix + from_name(application, sources, source);
    if (const auto tensor = tensor_named(name)) {
      tensors.push_back(*tensor);
      continue;
    }
    if (wants(target)) {
      fail(ProblemKind::kMissing, application,
           printable(name) + ": missing in the source (" + printable(target) + " needs it)");
    } else {
      excuse({target});
    }
    is_complete = false;
  }
  // What goes wrong from here on is no fault of theirs.
  for (const std::uint32_t tensor : tensors) {
    if (fates_[tensor] != Fate::kSkipped)
      fates_[tensor] = is_complete ? Fate::kTaken : Fate::kSkipped;
  }
  if (!is_complete) return std::nullopt;
  return tensors;
}

std::vector<std::int64_t> MappingWork::forward_key(
    const Application& application, const Scope& scope,
    const std::vector<std::uint32_t>& sources) const {
  std::vector<std::int64_t> key = form_key(application, scope);
  std::vector<const Shape*> shapes;
  shapes.reserve(sources.size());
  for (const std::uint32_t tensor : sources) shapes.push_back(&tensors_[tensor].shape);
  append_shapes(key, shapes);
  return key;
}

RuleFormPtr MappingWork::forward_form(const Application& application, RuleEvaluator& evaluator,
                                      const Scope& scope, const std::string& target,
                                      const std::vector<Shape>& shapes) const {
  check_required(application, scope, target);
  evaluator.bind_shapes(shapes);
  check_required(application, scope, target);
  auto made =
      std::make_shared<RuleForm>(RuleForm{IndexedForm(evaluator.evaluate(target, shapes)), {}, {}});
  for (std::size_t source = 0; source < shapes.size(); ++source) {
    made->is_read.push_back(!made->form.boxes_of(static_cast<std::int64_t>(source)).empty());
  }
  return made;
}

void MappingWork::make_forward_target(const Application& application) {
  const MapRule& rule = map_.rules[application.rule];
  const std::string& source_prefix = sets_[application.set].source_prefix;
  const std::string& target_prefix = sets_[application.set].target_prefix;
  RuleWork& work = rules_[application.rule];
  Scope scope(variables_);
  RuleSourcesPtr rule_sources;
  scope.set_parts([&](const std::string& name) {
    return name == "tp" ? to_parts_of(application) : from_parts_of(application, rule_sources.get());
  });
  // Most tensors are like one before, and need no scope.
  const bool needs_scope = !work.sources || !work.form_parts.empty();
  if (needs_scope) bind_captures(scope, application);
  rule_sources = sources_of(application, scope);
  OrderedTarget target;
  target.tensor.name = target_prefix + *to_name(application);
  const bool is_explained = options_.explain.contains(target.tensor.name);
  auto sources = forward_sources(application, *rule_sources, target.tensor.name);
  if (!sources) return;
  if (sources->empty()) {
    throw Error(ErrorKind::kBadInput, printable(target.tensor.name) + ": there is nothing to join");
  }
  RuleFormPtr form;
  try {
    RuleFormPtr& known = work.forms[forward_key(application, scope, *sources)];
    if (!known || is_explained) {
      if (!needs_scope) bind_captures(scope, application);
      RuleEvaluator evaluator(
          rule, scope, rule_sources, application.values, [&](std::size_t source) {
            return source_prefix + from_name(application, *rule_sources, source);
          });
      std::vector<Shape> shapes;
      shapes.reserve(sources->size());
      for (const std::uint32_t tensor : *sources) shapes.push_back(tensors_[tensor].shape);
      if (!known) known = forward_form(application, evaluator, scope, target.tensor.name, shapes);
      if (is_explained) {
        evaluator.bind_shapes(shapes);  // the form may be that of another target
        explain(target.tensor.name, application, scope);
      }
    }
    form = known;
  } catch (const Error&) {
    for (const std::uint32_t tensor : *sources) fates_[tensor] = Fate::kSkipped;
    throw;
  }
  // The states of a weight are none of what has nothing of it.
  const bool is_read =
      std::find(form->is_read.begin(), form->is_read.end(), true) != form->is_read.end();
  if (rule.body->has_fill && !is_read && !sets_[application.set].is_weights()) return;
  const DType dtype = tensors_[sources->front()].dtype;
  const auto other = std::find_if(sources->begin(), sources->end(), [&](std::uint32_t tensor) {
    return tensors_[tensor].dtype != dtype;
  });
  if (other != sources->end()) {
    fail(ProblemKind::kType, application,
         printable(target.tensor.name) + ": its sources have different types: '" +
             printable(tensors_[sources->front()].name) + "' is " +
             std::string(mindspore_name(dtype)) + ", '" + printable(tensors_[*other].name) +
             "' is " + std::string(mindspore_name(tensors_[*other].dtype)));
  }
  target.tensor.source_dtype = dtype;
  target.tensor.dtype = target_dtype(application, target.tensor.name, dtype).value_or(dtype);
  target.tensor.added = added_to(application, target.tensor.name, dtype);
  check_literals(application, *form, target.tensor);
  target.first_source = sources->front();
  bool is_first = true;
  for (std::size_t source = 0; source < sources->size(); ++source) {
    reads_.push_back({(*sources)[source], static_cast<std::uint32_t>(source), targets_.size()});
    if (!form->is_read[source]) continue;
    target.first_source =
        is_first ? (*sources)[source] : std::min(target.first_source, (*sources)[source]);
    is_first = false;
  }
  target.tensor.form = {form, &form->form.form()};
  target.tensor.sources = *std::move(sources);
  target.tensor.place = rule.place;
  target.tensor.state_prefix = target_prefix.size();
  target.tensor.is_filled = rule.body->has_fill;
  target.rule = application.rule;
  target.values = application.values;
  made_.push_back({std::move(form), application.rule});
  targets_.push_back(std::move(target));
}

/// What pads must be of the tensor's type.
void MappingWork::check_literals(const Application& application, const RuleForm& form,
                                 const TargetTensor& tensor) {
  for (const FormTerm& box : form.form.form().boxes) {
    if (!box.is_literal()) continue;
    try {
      (void)Literal::of(box).bytes(tensor.source_dtype);
    } catch (const Error& error) {
      fail(ProblemKind::kType, application,
           printable(tensor.name) + ": not possible: " + error.message());
      return;
    }
  }
}

void MappingWork::check_sources_read() {
  std::sort(reads_.begin(), reads_.end(), [](const Read& a, const Read& b) {
    return std::tie(a.tensor, a.target, a.number) < std::tie(b.tensor, b.target, b.number);
  });
  auto next = reads_.begin();
  for (std::size_t tensor = 0; tensor < tensors_.size(); ++tensor) {
    const auto begin = next;
    while (next != reads_.end() && next->tensor == tensor) ++next;
    if (fates_[tensor] == Fate::kTaken) {
      check_source_read(static_cast<std::uint32_t>(tensor), {begin, next});
    }
  }
}

void MappingWork::check_source_read(std::uint32_t tensor, std::span<const Read> reads) {
  CoverageKey key = {static_cast<std::uintptr_t>(element_count(tensors_[tensor].shape))};
  bool drops_rest = false;
  for (const Read& read : reads) {
    const MadeTarget& made = made_[read.target];
    drops_rest = drops_rest || map_.rules[made.rule].body->drops_rest;
    key.push_back(reinterpret_cast<std::uintptr_t>(made.form.get()));
    key.push_back(read.number);
  }
  const auto [known, is_new] = coverages_.try_emplace(std::move(key));
  Coverage& coverage = known->second;
  if (!is_new && !coverage.overlap && (coverage.undefined == 0 || drops_rest)) return;
  const MapPlace place = reads.empty() ? MapPlace{std::make_shared<const std::string>(map_.file), 0}
                                       : map_.rules[made_[reads[0].target].rule].place;
  const std::string name = printable(tensors_[tensor].name);
  if (is_new) {
    std::vector<Reading> readings;
    for (const Read& read : reads) {
      const MadeTarget& made = made_[read.target];
      readings.push_back({&made.form->form, read.number, map_.rules[made.rule].body->has_repeat});
    }
    try {
      const Inverse inverse = invert(tensors_[tensor].shape, readings, InverseParts::kCoverage);
      coverage.undefined = inverse.undefined;
      coverage.overlap = inverse.overlap;
    } catch (const Error& error) {
      problems_.add(ProblemKind::kElements, place, name + ": " + error.message());
    }
  }
  if (coverage.overlap) {
    const Read& a = reads[coverage.overlap->first];
    const Read& b = reads[coverage.overlap->second];
    const std::string target = printable(targets_[b.target].tensor.name);
    problems_.add(ProblemKind::kElements, map_.rules[made_[b.target].rule].place,
                  a.target == b.target
                      ? target + ": takes elements twice: those of '" + name + "'"
                      : target + ": takes elements that another rule takes: those of '" + name +
                            "' for '" + printable(targets_[a.target].tensor.name) + "'");
  } else if (coverage.undefined > 0 && !drops_rest) {
    problems_.add(ProblemKind::kElements, place,
                  name + ": " + std::to_string(coverage.undefined) + " elements are not used (of " +
                      std::to_string(element_count(tensors_[tensor].shape)) + ")");
  }
}

}  // namespace reshardfs::modelmap
