// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>

#include "base/function_ref.h"
#include "layout/box_set.h"
#include "layout/nest.h"
#include "layout/normal_form.h"

namespace reshardfs {

/// The boxes of a form, in the space of its axes.
BoxSet boxes_of(const NormalForm& form);

/// Which elements of which sources a region of a form is made of.
class FormWalk {
 public:
  explicit FormWalk(std::shared_ptr<const NormalForm> form);

  const NormalForm& form() const noexcept { return *form_; }

  /// What one box has of a region. Of a literal, Nest::from is FormTerm::base.
  using Visit = FunctionRef<void(std::int64_t source, const Nest& nest)>;

  /// Calls `visit` for what the elements of a region are made of, each once. Costs O(log boxes) and
  /// what is visited, where boxes do not interlock. Any number of threads may do so at once.
  /// @param region in the form's dimensions.
  void visit(const Region& region, Visit visit) const;

 private:
  void visit_dimension(std::size_t d, const Region& region, Region& axes, const Visit& visit) const;
  void visit_axes(const Region& axes, const Visit& visit) const;

  std::shared_ptr<const NormalForm> form_;
  std::size_t axes_;
  std::optional<BoxSet> boxes_;  ///< in the space of the axes; none if there is one box
};

}  // namespace reshardfs
