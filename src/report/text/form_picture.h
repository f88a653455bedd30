// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "reshardfs/shape.h"

#include "layout/normal_form.h"

namespace reshardfs {

/// A tensor that the form reads.
struct FormSource {
  std::string name;
  Shape shape;
};

/// A text picture of where the elements of a tensor come from: for each box, which indices of each
/// dimension are which indices of which source.
/// @param source by its number in the form.
/// @param most boxes that are listed; how many more there are is told.
std::string form_picture(const NormalForm& form,
                         const std::function<FormSource(std::size_t)>& source, std::size_t most);

}  // namespace reshardfs
