// SPDX-License-Identifier: Apache-2.0
/// From `to` to `from`: every element goes back to where the rule would take it from.
#include <algorithm>
#include <utility>

#include "modelmap/mapping_work.h"

namespace reshardfs::modelmap {

void MappingWork::make_inverse(const Application& application) {
  std::vector<std::string> names;  // of what the tensor would make
  try {
    make_inverse_pieces(application, names);
  } catch (const Error& error) {
    fail(application, error);
    for (const std::string& name : names) from_tensors_[name].is_broken = true;
  }
}

void MappingWork::make_inverse_pieces(const Application& application,
                                      std::vector<std::string>& names) {
  const MapRule& rule = map_.rules[application.rule];
  Scope scope(variables_);
  bind_captures(scope, application);
  RuleSourcesPtr sources;
  scope.set_parts([&](const std::string& name) {
    return name == "tp" ? to_parts_of(application) : from_parts_of(application, sources.get());
  });
  sources = sources_of(application, scope);
  RuleEvaluator evaluator(rule, scope, sources, application.values,
                          [&](std::size_t source) { return names[source]; });
  for (std::size_t source = 0; source < sources->size(); ++source) {
    names.push_back(sets_[application.set].target_prefix +
                    from_name(application, *sources, source));
  }
  const RuleFormPtr form = inverse_form(application, evaluator, scope);
  for (const std::string& name : names) {
    if (!options_.explain.contains(name)) continue;
    const SourceTensor& tensor = tensors_[application.tensor];
    evaluator.bind_target(tensor.name, tensor.shape);  // the form may be that of another target
    explain(name, application, scope);
  }
  for (std::size_t source = 0; source < names.size(); ++source) {
    add_piece(application, *sources, form, source, names[source]);
  }
}

RuleFormPtr MappingWork::inverse_form(const Application& application, RuleEvaluator& evaluator,
                                      Scope& scope) {
  const SourceTensor& tensor = tensors_[application.tensor];
  std::vector<std::int64_t> key = form_key(application, scope);
  key.insert(key.end(), tensor.shape.begin(), tensor.shape.end());
  RuleFormPtr& known = rules_[application.rule].forms[std::move(key)];
  if (known) return known;
  check_required(application, scope, tensor.name);
  evaluator.bind_target(tensor.name, tensor.shape);
  std::vector<Shape> shapes = evaluator.source_shapes(tensor.name, tensor.shape);
  check_required(application, scope, tensor.name);
  NormalForm form = evaluator.evaluate(tensor.name, shapes);
  if (form.shape != tensor.shape) {
    throw Error(ErrorKind::kBadInput, printable(tensor.name) + ": the rule's shape is " +
                                          to_string(form.shape) + ", the tensor has " +
                                          to_string(tensor.shape));
  }
  auto made =
      std::make_shared<RuleForm>(RuleForm{IndexedForm(std::move(form)), std::move(shapes), {}});
  for (std::size_t source = 0; source < made->source_shapes.size(); ++source) {
    made->is_read.push_back(!made->form.boxes_of(static_cast<std::int64_t>(source)).empty());
  }
  return known = std::move(made);
}

void MappingWork::add_piece(const Application& application, const RuleSources& sources,
                            const RuleFormPtr& form, std::size_t source, const std::string& name) {
  const MapRule& rule = map_.rules[application.rule];
  FromTensor& tensor = from_tensors_[name];
  const Shape& shape = form->source_shapes[source];
  if (tensor.pieces.empty()) {
    tensor.shape = shape;
    tensor.order.tensor.place = rule.place;
    tensor.order.tensor.state_prefix = sets_[application.set].target_prefix.size();
    tensor.order.rule = application.rule;
    tensor.order.values = application.values;
    sources.set_values(source, tensor.order.values);
    tensor.order.pattern = sources.pattern_of(source);
  } else if (tensor.shape != shape) {
    tensor.is_broken = true;
    fail(ProblemKind::kShape, application,
         printable(name) + ": the rules that make it do not fit together: " +
             to_string(tensor.shape) + " and " + to_string(shape));
    return;
  }
  const auto dtype = target_dtype(application, name, tensors_[application.tensor].dtype);
  if (!dtype) tensor.is_broken = true;
  tensor.pieces.push_back({form, static_cast<std::uint32_t>(source), application.tensor,
                           application.rule, dtype.value_or(DType::kFloat32),
                           added_to(application, name, tensors_[application.tensor].dtype)});
}

MappingWork::Coverage MappingWork::coverage_of(const FromTensor& tensor) {
  std::vector<Reading> readings;
  CoverageKey key(tensor.shape.begin(), tensor.shape.end());
  for (const Piece& piece : tensor.pieces) {
    const bool repeats = map_.rules[piece.rule].body->has_repeat;
    readings.push_back({&piece.form->form, piece.number, repeats});
    key.push_back(reinterpret_cast<std::uintptr_t>(piece.form.get()));
    key.push_back(piece.number);
  }
  const auto [known, is_new] = coverages_.try_emplace(std::move(key));
  if (is_new) {
    Inverse inverse = invert(tensor.shape, readings);
    known->second = {inverse.undefined, inverse.overlap,
                     std::make_shared<const NormalForm>(std::move(inverse.form))};
  }
  return known->second;
}

void MappingWork::join_pieces() {
  for (auto& [name, tensor] : from_tensors_) {
    if (tensor.is_broken || tensor.pieces.empty()) continue;
    std::sort(tensor.pieces.begin(), tensor.pieces.end(), [](const Piece& a, const Piece& b) {
      return std::tie(a.tensor, a.number) < std::tie(b.tensor, b.number);
    });
    try {
      join_pieces_of(name, tensor);
    } catch (const Error& error) {
      problems_.add(ProblemKind::kShape, tensor.order.tensor.place,
                    printable(name) + ": " + error.message());
    }
  }
  from_tensors_.clear();
}

void MappingWork::join_pieces_of(const std::string& name, FromTensor& tensor) {
  const MapPlace& place = tensor.order.tensor.place;
  // What a map fills in has a type of its own.
  const auto is_read = [](const Piece& piece) { return piece.form->is_read[piece.number]; };
  const auto read = std::find_if(tensor.pieces.begin(), tensor.pieces.end(), is_read);
  const Piece& first = read == tensor.pieces.end() ? tensor.pieces[0] : *read;
  for (const Piece& piece : tensor.pieces) {
    if (!is_read(piece)) continue;
    if (piece.dtype == first.dtype &&
        tensors_[piece.tensor].dtype == tensors_[first.tensor].dtype) {
      continue;
    }
    problems_.add(ProblemKind::kType, place,
                  printable(name) + ": its sources have different types: '" +
                      printable(tensors_[first.tensor].name) + "' is " +
                      std::string(mindspore_name(tensors_[first.tensor].dtype)) + ", '" +
                      printable(tensors_[piece.tensor].name) + "' is " +
                      std::string(mindspore_name(tensors_[piece.tensor].dtype)));
    return;
  }
  for (const Piece& piece : tensor.pieces) {
    if (piece.added == first.added) continue;
    problems_.add(ProblemKind::kType, place,
                  printable(name) + ": the rules that make it add different constants to '" +
                      printable(tensors_[first.tensor].name) + "' and '" +
                      printable(tensors_[piece.tensor].name) + "'");
    return;
  }
  const Coverage coverage = coverage_of(tensor);
  if (coverage.overlap) return fail_overlap(name, tensor, *coverage.overlap);
  if (coverage.undefined > 0 && !wants(name)) return excuse({name});
  if (coverage.undefined > 0) {
    problems_.add(ProblemKind::kElements, place,
                  printable(name) + ": " + std::to_string(coverage.undefined) +
                      " elements would come from nowhere");
    return;
  }
  OrderedTarget& target = tensor.order;
  target.tensor.name = name;
  target.tensor.source_dtype = tensors_[first.tensor].dtype;
  target.tensor.dtype = first.dtype;
  target.tensor.added = first.added;
  target.tensor.form = coverage.form;
  target.first_source = first.tensor;
  for (const Piece& piece : tensor.pieces) target.tensor.sources.push_back(piece.tensor);
  targets_.push_back(std::move(target));
}

void MappingWork::fail_overlap(const std::string& name, const FromTensor& tensor,
                               const std::pair<std::size_t, std::size_t>& overlap) {
  const Piece& a = tensor.pieces[overlap.first];
  const Piece& b = tensor.pieces[overlap.second];
  const std::string target = printable(tensors_[b.tensor].name);
  const MapPlace& place = map_.rules[b.rule].place;
  if (a.tensor == b.tensor) {
    problems_.add(ProblemKind::kElements, place,
                  target + ": takes elements twice: those of '" + printable(name) + "'");
    return;
  }
  problems_.add(ProblemKind::kTwoRules, place,
                printable(name) + ": two rules make it: '" + target +
                    "' takes elements that another rule takes for '" +
                    printable(tensors_[a.tensor].name) + "'");
}

}  // namespace reshardfs::modelmap
