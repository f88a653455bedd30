// SPDX-License-Identifier: Apache-2.0
/// Which dimension of tensors the tensor parallelism of a framework cuts, by type of model: its own
/// plans, as config/maps/parts/transformers-tp.toml has them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "reshardfs/shape.h"

#include "modelmap/expression.h"
#include "modelmap/pattern.h"

namespace reshardfs {

/// The plan of a type, and the names that models of its kind have.
class TensorPlan {
 public:
  struct Cut {
    std::optional<std::size_t> dimension{};  ///< nothing: it is whole
    bool is_known = false;     ///< models have the name; else nothing is known about it
    bool is_named = false;     ///< by the plan, and not only left out
    bool is_packed = false;    ///< several matrices, each cut by itself
    bool is_by_heads = false;  ///< ranks share heads(), and no parts of them
  };
  struct Place {
    bool first = false;  ///< an embedding
    bool last = false;   ///< a head, or the norm before it
    std::optional<std::int64_t> layer{};
    std::string stack{};  ///< the name up to the number of the layer
  };

  Cut cut_of(std::string_view name, const Shape& shape) const;
  /// Nothing: the plan does not tell which stage of a pipeline has the tensor.
  std::optional<Place> place_of(std::string_view name) const;
  bool is_embedding(std::string_view name) const;
  bool is_head(std::string_view name) const;
  /// How many heads of keys and values there are, in numbers of config.json, if the plan is of a
  /// program that cuts between them alone.
  const std::optional<modelmap::Expression>& heads() const noexcept { return heads_; }
  /// "transformers-tp.toml, line 30"
  const std::string& origin() const noexcept { return origin_; }

 private:
  friend class TensorPlanReader;

  enum class Part : std::uint8_t { kWhole, kRows, kColumns, kPacked };
  struct Shared {
    std::vector<std::string> text{};
    std::vector<std::string> embeddings{};
    std::vector<std::string> heads{};
    std::vector<std::string> last{};
    std::vector<std::string> beside{};
  };
  struct Named {
    modelmap::Pattern pattern{};
    std::optional<Part> part{};  ///< nothing: the plan leaves it out
  };

  /// @param use is called with what stands behind each of the prefixes until it returns true.
  template <typename Use>
  bool any_text(std::string_view name, const Use& use) const;
  static bool is_one_of(const std::vector<std::string>& modules, std::string_view name);
  void add(const std::string& text, std::optional<Part> part);
  /// Of a module of the language model, in the plan's words.
  const Named* find(std::string_view module) const;
  bool is_beside(std::string_view name) const;

  std::shared_ptr<const Shared> shared_{};
  /// By Pattern::shape(), in the order of the plans.
  std::unordered_map<std::string, std::vector<Named>> named_{};
  std::optional<modelmap::Expression> heads_{};
  std::string origin_{};
};

/// @param text of the table; `file` for messages.
/// @param types of a model, the whole before its language model: the plans of all count, the first
///        first.
/// @return nothing: no type has a plan.
/// @throws Error kBadInput with the file and the line.
std::optional<TensorPlan> read_tensor_plan(const std::string& file, const std::string& text,
                                           const std::vector<std::string>& types);

}  // namespace reshardfs
