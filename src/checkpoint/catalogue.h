// SPDX-License-Identifier: Apache-2.0
/// Where the parameters of a source lie in its files. All readers of a source use its catalogue.
/// Its facts come from a strategy, or from layouts that the set itself records.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "reshardfs/layout.h"
#include "reshardfs/shape.h"

#include "checkpoint/holders.h"
#include "checkpoint/ranks/device_ranks.h"
#include "format/listed_items.h"
#include "layout/box_set.h"

namespace reshardfs {

/// Selects parameters by their names in the source; empty: all.
using NameTaker = std::function<bool(const std::string& name)>;

struct SavedObjects;

/// Where the slices of one parameter lie in the full tensor.
struct SlicePlacement {
  const Layout* layout = nullptr;  ///< the catalogue owns it
  DeviceRanks devices;             ///< of the layout's device matrix
  /// nullopt: it follows from the slices.
  std::optional<Shape> full_shape;
  /// Files with a slice, each at one of the devices; never empty.
  Holders holders;
};

/// A box of a full tensor, and where it is.
struct PlacedBox {
  Box box;
  /// Entries with exactly this box: the first one is read, the others stand in for it. Empty: no
  /// file has the box.
  std::vector<Holding> holdings;
};

/// The boxes that make up one parameter's full tensor, in any order. Equal boxes are replicas of
/// each other; different boxes must not overlap. Boxes without elements are ignored. Elements
/// outside of all boxes are lost.
struct BoxPlacement {
  Shape full_shape;
  std::vector<PlacedBox> boxes;
};

/// Every member function may be called from any number of threads.
class Catalogue {
 public:
  explicit Catalogue(const SourceRanks& ranks) : ranks_(ranks) {}
  virtual ~Catalogue() = default;
  Catalogue(const Catalogue&) = delete;
  Catalogue& operator=(const Catalogue&) = delete;

  /// The ranks of the complete source.
  const SourceRanks& ranks() const noexcept { return ranks_; }

  /// Whether it states how parameters are cut. If not, each file has whole parameters.
  virtual bool states_layouts() const noexcept { return true; }

  /// The layouts that it states for a parameter, one for each pipeline stage, lowest first, even if
  /// there are no files.
  virtual std::vector<const Layout*> layouts_of(const std::string& name) const = 0;

  /// Whether it states that every file has a parameter as a whole, without stating a layout. Unless
  /// another layout is known for the parameter, it stays whole.
  virtual bool states_whole(const std::string& /*name*/) const { return false; }

  /// The names of the axes of a parameter's device matrix; none if they have no names that mean
  /// anything.
  virtual std::vector<std::string> axis_names(const std::string& /*name*/) const { return {}; }

  /// The positions of an array's slices, for each pipeline stage that lays it out and has any of
  /// the files; lowest first. Empty: it is not laid out.
  /// @param holders the files that have it; never empty.
  /// @throws Error if what is stated is impossible for this parameter.
  virtual std::vector<SlicePlacement> placements(const std::string& name,
                                                 const Holders& holders) const = 0;

  /// The boxes of an array, if the catalogue lists them; such a parameter has no layout and no
  /// placements().
  /// @param holders the files that have it; never empty. With several boxes in a file, each box
  ///        counts.
  /// @throws Error if what is stated is impossible for this parameter. The caller must check that
  ///         the boxes fit the full shape, their entries and each other.
  virtual std::optional<BoxPlacement> boxes(const std::string& /*name*/,
                                            const Holders& /*holders*/) const {
    return std::nullopt;
  }

  /// What the user can do if slices do not match placements() or boxes().
  virtual std::string hint() const = 0;

  /// Parameters that are lost if no file has them.
  virtual std::vector<std::string> required_names() const { return {}; }

  /// Tensors that cannot be shown, and why. Files may not contain them.
  virtual std::vector<RefusedTensor> refused() const { return {}; }

  /// The set's objects that are not tensors; nullptr: there are none to pass on.
  virtual std::shared_ptr<const SavedObjects> saved_objects() const { return nullptr; }

  /// Whether files may contain boxes of tensors (see FileIndex::box_offsets()), which boxes()
  /// places.
  virtual bool has_boxes() const { return false; }

  /// Errors in the stated layouts that were corrected, one line each, for the parameters for which
  /// placements() has been called so far.
  virtual std::vector<std::string> warnings() const { return {}; }

  /// Whether to leave out the parameter, because no program can use it.
  virtual bool leaves_out(std::string_view /*name*/) const { return false; }

 private:
  SourceRanks ranks_;
};

}  // namespace reshardfs
