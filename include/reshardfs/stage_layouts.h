// SPDX-License-Identifier: Apache-2.0
/// The layouts of one pipeline stage.
#pragma once

#include <cstddef>
#include <initializer_list>
#include <iterator>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "reshardfs/export.h"
#include "reshardfs/layout.h"

namespace reshardfs {

/// A map from parameter names (without stage prefix) to layouts, sorted by name. Equal layouts are
/// stored once: most stages have many parameters and few different layouts.
class RESHARDFS_EXPORT StageLayouts {
  using Map = std::map<std::string, std::shared_ptr<const Layout>>;

 public:
  using value_type = std::pair<const std::string&, const Layout&>;

  // The standard library's templates expect these names.
  // NOLINTBEGIN(readability-identifier-naming)
  /// Yields value_type.
  class const_iterator {
   public:
    using iterator_category = std::input_iterator_tag;
    using value_type = StageLayouts::value_type;
    using difference_type = std::ptrdiff_t;
    using reference = value_type;
    struct pointer {
      value_type value;
      const value_type* operator->() const noexcept { return &value; }
    };

    const_iterator() = default;
    explicit const_iterator(Map::const_iterator at) : at_(at) {}
    value_type operator*() const noexcept { return {at_->first, *at_->second}; }
    pointer operator->() const noexcept { return {**this}; }
    const_iterator& operator++() noexcept {
      ++at_;
      return *this;
    }
    // NOLINTNEXTLINE(cert-dcl21-cpp): an iterator's may be assigned to
    const_iterator operator++(int) noexcept { return const_iterator(at_++); }
    bool operator==(const const_iterator&) const = default;

   private:
    Map::const_iterator at_;
  };
  using iterator = const_iterator;
  // NOLINTEND(readability-identifier-naming)

  StageLayouts() = default;
  StageLayouts(std::initializer_list<std::pair<std::string, Layout>> items);

  const_iterator begin() const noexcept { return const_iterator(layouts_.begin()); }
  const_iterator end() const noexcept { return const_iterator(layouts_.end()); }
  std::size_t size() const noexcept { return layouts_.size(); }
  bool empty() const noexcept { return layouts_.empty(); }
  const_iterator find(const std::string& name) const { return const_iterator(layouts_.find(name)); }
  bool contains(const std::string& name) const { return layouts_.contains(name); }
  /// The reference is valid as long as a copy of these layouts exists.
  /// @throws std::out_of_range
  const Layout& at(const std::string& name) const { return *layouts_.at(name); }

  /// @return the name's position, and whether the name is new; if not, its layout is unchanged.
  std::pair<const_iterator, bool> try_emplace(std::string name, const Layout& layout);
  void insert_or_assign(const std::string& name, const Layout& layout);

  bool operator==(const StageLayouts& other) const;

 private:
  Map layouts_;
  std::vector<std::shared_ptr<const Layout>> kinds_;  ///< each distinct layout once
};

}  // namespace reshardfs
