// SPDX-License-Identifier: Apache-2.0
/// What is known of how the parameters of a source lie in its files. Whoever reads a source asks
/// its catalogue, wherever that has its knowledge from: a strategy, or what a set records of
/// itself.
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
#include "checkpoint/ranks/source_ranks.h"
#include "format/listed_items.h"
#include "layout/box_set.h"

namespace reshardfs {

/// Which parameters are wanted, by their names in the source; nothing: all.
using NameTaker = std::function<bool(const std::string& name)>;

struct SavedObjects;

/// Where the slices of one parameter lie in the full tensor.
struct SlicePlacement {
  const Layout* layout = nullptr;  ///< the catalogue owns it
  DeviceRanks devices;             ///< of the layout's device matrix
  /// Nothing: it follows from the slices.
  std::optional<Shape> full_shape;
  /// Files with a slice, each at one of the devices; never empty.
  Holders holders;
};

/// A box of a full tensor, and where it is.
struct PlacedBox {
  Box box;
  /// Entries that have just this box: the first is read, the others stand in for it. None: it is in
  /// no file.
  std::vector<Holding> holdings;
};

/// What one parameter's full tensor is made of, box by box, in any order. Equal boxes are replicas
/// of each other; others have no element in common. Boxes without elements do not count, wherever
/// they are. What is in no box is lost.
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

  /// The ranks that a whole source has.
  const SourceRanks& ranks() const noexcept { return ranks_; }

  /// Whether it states how parameters are cut. If not, each file has whole ones.
  virtual bool states_layouts() const noexcept { return true; }

  /// The layouts that it states of a parameter, one for each pipeline stage, lowest first; whether
  /// there are files or not.
  virtual std::vector<const Layout*> layouts_of(const std::string& name) const = 0;

  /// Whether it states of a parameter that every file has the whole, but no layout: whoever has no
  /// other one for it keeps it so.
  virtual bool states_whole(const std::string& /*name*/) const { return false; }

  /// The names of the axes of a parameter's device matrix; none if they have no names that mean
  /// anything.
  virtual std::vector<std::string> axis_names(const std::string& /*name*/) const { return {}; }

  /// Where the slices of an array lie, for each pipeline stage that lays it out and has any of the
  /// files; lowest first. None: it is not laid out.
  /// @param holders the files that have it; never empty.
  /// @throws Error if what is stated is impossible for this parameter.
  virtual std::vector<SlicePlacement> placements(const std::string& name,
                                                 const Holders& holders) const = 0;

  /// The boxes of an array, if the catalogue lists these; of such a parameter it states no layout
  /// and has no placements().
  /// @param holders the files that have it; never empty. With several boxes in a file, each box
  ///        counts.
  /// @throws Error if what is stated is impossible for this parameter. Whoever asks checks that the
  ///         boxes fit the full shape, their entries and each other.
  virtual std::optional<BoxPlacement> boxes(const std::string& /*name*/,
                                            const Holders& /*holders*/) const {
    return std::nullopt;
  }

  /// What the user can do where slices are not as placements() or boxes() has them.
  virtual std::string hint() const = 0;

  /// Parameters that are lost if no file has them.
  virtual std::vector<std::string> required_names() const { return {}; }

  /// Tensors that cannot be shown, and why. Files may have nothing of them.
  virtual std::vector<RefusedTensor> refused() const { return {}; }

  /// What the set has beside its tensors; nullptr: nothing that could be passed on.
  virtual std::shared_ptr<const SavedObjects> saved_objects() const { return nullptr; }

  /// Whether files may have boxes of tensors (see FileIndex::box_offsets()), which boxes() then
  /// places.
  virtual bool has_boxes() const { return false; }

  /// What was found wrong with what is stated and could be set right, one line each: of the
  /// parameters that placements() was asked for so far.
  virtual std::vector<std::string> warnings() const { return {}; }

  /// Whether the parameter is of no use to anybody.
  virtual bool leaves_out(std::string_view /*name*/) const { return false; }

 private:
  SourceRanks ranks_;
};

}  // namespace reshardfs
