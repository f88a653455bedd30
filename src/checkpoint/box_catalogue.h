// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "checkpoint/catalogue.h"

namespace reshardfs {

/// The boxes of a parameter whose files state their offsets (see FileIndex::box_offsets()); an
/// entry without offsets begins at 0. Of equal boxes, the lowest rank's is read.
BoxPlacement boxes_of_entries(const Holders& holders, Shape full_shape);

/// A base class for catalogues of files that have boxes of tensors. It states no layouts; boxes()
/// places the boxes with boxes_of_entries().
class BoxCatalogue : public Catalogue {
 public:
  using Catalogue::Catalogue;

  std::vector<const Layout*> layouts_of(const std::string& /*name*/) const final { return {}; }
  std::vector<SlicePlacement> placements(const std::string& /*name*/,
                                         const Holders& /*holders*/) const final {
    return {};
  }
  std::string hint() const override { return "take all files from one save"; }
  bool has_boxes() const final { return true; }
};

}  // namespace reshardfs
