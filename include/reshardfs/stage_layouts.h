// SPDX-License-Identifier: Apache-2.0
/// The layouts of one pipeline stage.
#pragma once

#include <cstddef>
#include <functional>
#include <initializer_list>
#include <iterator>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "reshardfs/export.h"
#include "reshardfs/layout.h"

namespace reshardfs {

/// A map from parameter names (without stage prefix) to layouts, sorted by name. Equal layouts are
/// stored once: most stages have many parameters and few different layouts. Copies share their
/// contents until one is changed. A name is looked up in constant time; the first begin() after a
/// change sorts the names. Const member functions may be called from any number of threads.
class RESHARDFS_EXPORT StageLayouts {
  class Contents;
  struct Item;

 public:
  using value_type = std::pair<const std::string&, const Layout&>;

  // The standard library's templates expect these names.
  // NOLINTBEGIN(readability-identifier-naming)
  /// Yields value_type.
  class RESHARDFS_EXPORT const_iterator {
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
    value_type operator*() const noexcept;
    pointer operator->() const noexcept { return {**this}; }
    const_iterator& operator++();
    // NOLINTNEXTLINE(cert-dcl21-cpp): an iterator's may be assigned to
    const_iterator operator++(int) {
      const_iterator before = *this;
      ++*this;
      return before;
    }
    bool operator==(const const_iterator& other) const noexcept { return item_ == other.item_; }

   private:
    friend class StageLayouts;
    static constexpr std::size_t kUnknown = static_cast<std::size_t>(-1);
    const_iterator(const Contents* contents, const Item* item, std::size_t place)
        : contents_(contents), item_(item), place_(place) {}

    const Contents* contents_ = nullptr;
    const Item* item_ = nullptr;    ///< nullptr: the end
    std::size_t place_ = kUnknown;  ///< in the order of the names, once it matters
  };
  using iterator = const_iterator;
  // NOLINTEND(readability-identifier-naming)

  StageLayouts() = default;
  StageLayouts(std::initializer_list<std::pair<std::string, Layout>> items);

  const_iterator begin() const;
  const_iterator end() const noexcept { return {}; }
  std::size_t size() const noexcept;
  bool empty() const noexcept { return size() == 0; }
  const_iterator find(std::string_view name) const;
  bool contains(std::string_view name) const { return find(name) != end(); }
  /// The reference is valid as long as a copy of these layouts exists.
  /// @throws std::out_of_range
  const Layout& at(std::string_view name) const;

  /// @return the name's position, and whether the name is new; if not, its layout is unchanged.
  std::pair<const_iterator, bool> try_emplace(std::string name, const Layout& layout);
  void insert_or_assign(const std::string& name, const Layout& layout);

  /// Calls with all layouts, equal ones mostly once, in any order: the names need not be sorted.
  void for_each_layout(const std::function<void(const Layout&)>& call) const;

  bool operator==(const StageLayouts& other) const;

 private:
  Contents& own();

  std::shared_ptr<Contents> contents_;  ///< nullptr: it is empty
};

}  // namespace reshardfs
