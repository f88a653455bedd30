// SPDX-License-Identifier: Apache-2.0
#include "reshardfs/stage_layouts.h"

#include <algorithm>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <stdexcept>
#include <utility>
#include <vector>

#include "base/share_equal.h"
#include "base/text/name_order.h"

namespace reshardfs {

struct StageLayouts::Item {
  std::string name;
  const Layout* layout;  ///< one of the kinds
};

class StageLayouts::Contents {
 public:
  Contents() = default;
  Contents(const Contents& other)
      : items_(other.items_), slots_(other.slots_), kinds_(other.kinds_), kept_(other.kept_) {}
  Contents& operator=(const Contents&) = delete;
  ~Contents() = default;

  std::size_t size() const noexcept { return items_.size(); }
  const Item& item(std::size_t number) const { return items_[number]; }

  Item* find(std::string_view name) {
    if (slots_.empty()) return nullptr;
    const std::uint32_t number = slots_[slot_of(name)];
    return number == kNone ? nullptr : &items_[number];
  }

  Item& add(std::string name, const Layout& layout) {
    if (3 * (items_.size() + 1) > 2 * slots_.size()) grow();
    const std::size_t slot = slot_of(name);
    Item& added = items_.emplace_back(Item{std::move(name), kind(layout)});
    slots_[slot] = static_cast<std::uint32_t>(items_.size() - 1);
    return added;
  }

  /// The kept one of equal layouts.
  const Layout* kind(const Layout& layout) {
    // Of a file's parameters, the next one is mostly laid out as the one before.
    if (!items_.empty() && *items_.back().layout == layout) return items_.back().layout;
    auto shared = share_equal(kinds_, layout);
    const Layout* const kept = shared.get();
    if (shared.use_count() == 1) kept_.push_back(std::move(shared));
    return kept;
  }

  /// The numbers of the items, in the order of their names.
  const std::vector<std::uint32_t>& order() const {
    const std::scoped_lock lock(mutex_);
    if (order_.size() != items_.size()) {
      order_ = order_by_name(items_.size(),
                             [&](std::size_t i) { return std::string_view(items_[i].name); });
    }
    return order_;
  }

  std::size_t place_of(const Item& item) const {
    const std::vector<std::uint32_t>& order = this->order();
    const auto found = std::lower_bound(
        order.begin(), order.end(), item.name,
        [&](std::uint32_t number, const std::string& name) { return items_[number].name < name; });
    return static_cast<std::size_t>(found - order.begin());
  }

 private:
  static constexpr std::uint32_t kNone = static_cast<std::uint32_t>(-1);

  /// Where the name is, or is to be.
  std::size_t slot_of(std::string_view name) const {
    const std::size_t mask = slots_.size() - 1;
    std::size_t slot = std::hash<std::string_view>()(name) & mask;
    while (slots_[slot] != kNone && items_[slots_[slot]].name != name) slot = (slot + 1) & mask;
    return slot;
  }

  void grow() {
    constexpr std::size_t kLeast = 16;
    slots_.assign(std::max(kLeast, 2 * slots_.size()), kNone);
    for (std::uint32_t i = 0; i < items_.size(); ++i) slots_[slot_of(items_[i].name)] = i;
  }

  std::deque<Item> items_;            ///< in the order in which they came; they stay in place
  std::vector<std::uint32_t> slots_;  ///< numbers of items by the hashes of their names
  std::vector<std::shared_ptr<const Layout>> kinds_;  ///< see share_equal()
  std::vector<std::shared_ptr<const Layout>> kept_;   ///< beyond those
  mutable std::mutex mutex_;                          ///< guards order_
  mutable std::vector<std::uint32_t> order_;          ///< out of date if it has another size
};

StageLayouts::value_type StageLayouts::const_iterator::operator*() const noexcept {
  return {item_->name, *item_->layout};
}

StageLayouts::const_iterator& StageLayouts::const_iterator::operator++() {
  if (place_ == kUnknown) place_ = contents_->place_of(*item_);
  const std::vector<std::uint32_t>& order = contents_->order();
  ++place_;
  item_ = place_ == order.size() ? nullptr : &contents_->item(order[place_]);
  return *this;
}

StageLayouts::StageLayouts(std::initializer_list<std::pair<std::string, Layout>> items) {
  for (const auto& [name, layout] : items) try_emplace(name, layout);
}

/// Contents that no other copy has.
StageLayouts::Contents& StageLayouts::own() {
  if (!contents_) {
    contents_ = std::make_shared<Contents>();
  } else if (contents_.use_count() > 1) {
    contents_ = std::make_shared<Contents>(*contents_);
  }
  return *contents_;
}

std::size_t StageLayouts::size() const noexcept {
  return contents_ ? contents_->size() : 0;
}

StageLayouts::const_iterator StageLayouts::begin() const {
  if (empty()) return end();
  return {contents_.get(), &contents_->item(contents_->order().front()), 0};
}

StageLayouts::const_iterator StageLayouts::find(std::string_view name) const {
  return {contents_.get(), contents_ ? contents_->find(name) : nullptr, const_iterator::kUnknown};
}

const Layout& StageLayouts::at(std::string_view name) const {
  const Item* const found = contents_ ? contents_->find(name) : nullptr;
  if (found == nullptr) throw std::out_of_range("no layout of this name");
  return *found->layout;
}

std::pair<StageLayouts::const_iterator, bool> StageLayouts::try_emplace(std::string name,
                                                                        const Layout& layout) {
  Contents& contents = own();
  const Item* const found = contents.find(name);
  const Item* const item = found != nullptr ? found : &contents.add(std::move(name), layout);
  return {const_iterator(&contents, item, const_iterator::kUnknown), found == nullptr};
}

void StageLayouts::insert_or_assign(const std::string& name, const Layout& layout) {
  Contents& contents = own();
  if (Item* const found = contents.find(name)) {
    found->layout = contents.kind(layout);
  } else {
    contents.add(name, layout);
  }
}

bool StageLayouts::operator==(const StageLayouts& other) const {
  if (contents_ == other.contents_) return true;
  return std::equal(begin(), end(), other.begin(), other.end());
}

}  // namespace reshardfs
