// SPDX-License-Identifier: Apache-2.0
#include "reshardfs/stage_layouts.h"

#include <algorithm>
#include <atomic>
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
    // Files and strategies mostly list their parameters in the same order.
    std::uint32_t number = expected_.load(std::memory_order_relaxed);
    if (number >= items_.size() || items_[number].name != name) {
      number = slots_[slot_of(name, hash_of(name))].number;
    }
    if (number == kNone) return nullptr;
    expected_.store(number + 1, std::memory_order_relaxed);
    return &items_[number];
  }

  /// @return the item of this name, and whether it is new; if not, it stays as it is.
  std::pair<Item*, bool> add(std::string name, const Layout& layout) {
    if (3 * (items_.size() + 1) > 2 * slots_.size()) grow();
    const std::uint32_t hash = hash_of(name);
    Slot& slot = slots_[slot_of(name, hash)];
    if (slot.number != kNone) return {&items_[slot.number], false};
    Item& added = items_.emplace_back(Item{std::move(name), kind(layout)});
    slot = {static_cast<std::uint32_t>(items_.size() - 1), hash};
    return {&added, true};
  }

  void for_each_layout(const std::function<void(const Layout&)>& call) const {
    const Layout* before = nullptr;
    for (const Item& item : items_) {
      if (item.layout != before) call(*item.layout);
      before = item.layout;
    }
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

  /// Other names are mostly told by their hashes, without a look at the items.
  struct Slot {
    std::uint32_t number = kNone;  ///< of an item
    std::uint32_t hash = 0;        ///< of its name
  };

  static std::uint32_t hash_of(std::string_view name) noexcept {
    return static_cast<std::uint32_t>(std::hash<std::string_view>()(name));
  }

  /// Where the name is, or is to be.
  std::size_t slot_of(std::string_view name, std::uint32_t hash) const {
    const std::size_t mask = slots_.size() - 1;
    const auto is_other = [&](const Slot& slot) {
      return slot.number != kNone && (slot.hash != hash || items_[slot.number].name != name);
    };
    std::size_t at = hash & mask;
    while (is_other(slots_[at])) at = (at + 1) & mask;
    return at;
  }

  void grow() {
    constexpr std::size_t kLeast = 16;
    std::vector<Slot> before(std::max(kLeast, 2 * slots_.size()));
    before.swap(slots_);
    const std::size_t mask = slots_.size() - 1;
    for (const Slot& slot : before) {
      if (slot.number == kNone) continue;
      std::size_t at = slot.hash & mask;
      while (slots_[at].number != kNone) at = (at + 1) & mask;
      slots_[at] = slot;
    }
  }

  std::deque<Item> items_;   ///< in the order in which they came; they stay in place
  std::vector<Slot> slots_;  ///< by the hashes of names
  std::vector<std::shared_ptr<const Layout>> kinds_;  ///< see share_equal()
  std::vector<std::shared_ptr<const Layout>> kept_;   ///< beyond those
  std::atomic<std::uint32_t> expected_ = 0;           ///< a guess at what is looked for next
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
  const auto [item, is_new] = contents.add(std::move(name), layout);
  return {const_iterator(&contents, item, const_iterator::kUnknown), is_new};
}

void StageLayouts::insert_or_assign(const std::string& name, const Layout& layout) {
  Contents& contents = own();
  const auto [item, is_new] = contents.add(name, layout);
  if (!is_new) item->layout = contents.kind(layout);
}

void StageLayouts::for_each_layout(const std::function<void(const Layout&)>& call) const {
  if (contents_) contents_->for_each_layout(call);
}

bool StageLayouts::operator==(const StageLayouts& other) const {
  if (contents_ == other.contents_) return true;
  return std::equal(begin(), end(), other.begin(), other.end());
}

}  // namespace reshardfs
