// SPDX-License-Identifier: Apache-2.0
#include "modelmap/layer_pattern.h"

#include <algorithm>
#include <utility>

#include "reshardfs/error.h"

#include "base/text/text.h"

namespace reshardfs::modelmap {
namespace {

constexpr std::size_t kMostSymbols = 65'536;

[[noreturn]] void refuse(std::string_view text, const std::string& what) {
  throw Error(ErrorKind::kBadInput, "the hybrid layer pattern '" +
                                        printable(std::string(text.substr(0, 200))) + "' " + what);
}

void check_symbols(std::string_view part, std::string_view text) {
  if (const auto unknown = unknown_symbol(part)) {
    if (*unknown == '[') {
      refuse(text, "has '[': groups of layers are not supported, write each layer's symbol");
    }
    refuse(text, "has '" + printable(std::string(1, *unknown)) +
                     "', which is no symbol of a layer (" + std::string(kLayerSymbols) + ")");
  }
  const bool has_plain = part.find('*') != std::string_view::npos;
  if (has_plain && part.find_first_of("+D") != std::string_view::npos) {
    refuse(text, "has '*' together with '" + std::string(1, part[part.find_first_of("+D")]) +
                     "', which Megatron-Core does not support in one model");
  }
}

std::string only(std::string_view pattern, std::string_view symbols) {
  std::string kept;
  std::copy_if(pattern.begin(), pattern.end(), std::back_inserter(kept),
               [&](char c) { return symbols.find(c) != std::string_view::npos; });
  return kept;
}

}  // namespace

std::optional<char> unknown_symbol(std::string_view symbols) {
  const std::size_t at = symbols.find_first_not_of(kLayerSymbols);
  return at == std::string_view::npos ? std::nullopt : std::optional(symbols[at]);
}

LayerPattern LayerPattern::parse(std::string_view text) {
  if (text.size() > kMostSymbols) {
    refuse(text, "is longer than " + std::to_string(kMostSymbols) + " symbols");
  }
  LayerPattern out;
  out.text_ = text;
  std::size_t depth = 0;
  for (std::size_t begin = 0; begin <= text.size(); ++depth) {
    const std::size_t end = std::min(text.find('/', begin), text.size());
    std::string part(text.substr(begin, end - begin));
    begin = end + 1;
    if (depth == 0) {
      out.segments_.push_back(0);
      for (const char c : part) {
        if (c == '|') {
          out.segments_.push_back(0);
        } else {
          ++out.segments_.back();
        }
      }
      std::erase(part, '|');
    }
    check_symbols(part, text);
    if (part.empty()) refuse(text, "has no layer" + std::string(depth == 0 ? "" : " behind a '/'"));
    if (depth == 0) {
      out.decoder_ = std::move(part);
    } else if (depth == 1) {
      out.next_tokens_ = std::move(part);
    } else if (part != out.next_tokens_) {
      refuse(text, "has different layers for depths of multi-token prediction: '" +
                       out.next_tokens_ + "' and '" + part + "'");
    }
  }
  return out;
}

std::vector<std::int64_t> LayerPattern::positions(std::string_view symbols) const {
  const std::string& layers = symbols.starts_with(kNextTokenMark) ? next_tokens_ : decoder_;
  std::vector<std::int64_t> positions;
  for (std::size_t i = 0; i < layers.size(); ++i) {
    if (symbols.find(layers[i]) == std::string_view::npos) continue;
    positions.push_back(static_cast<std::int64_t>(i));
  }
  return positions;
}

std::string NamedLayers::text() const {
  const bool is_told = is_hybrid || next_tokens.find('?') == std::string::npos;
  return is_told && !next_tokens.empty() ? decoder + "/" + next_tokens : decoder;
}

std::string disagreement(const LayerPattern& stated, const NamedLayers& named) {
  const std::string& own = stated.decoder();
  const bool differs_behind = !stated.next_tokens().empty() && !named.next_tokens.empty() &&
                              named.next_tokens.find('?') == std::string::npos &&
                              stated.next_tokens() != named.next_tokens;
  if (differs_behind) {
    return "has '" + stated.next_tokens() +
           "' for multi-token prediction, but the names of the tensors have '" + named.next_tokens +
           "'";
  }
  if (!stated.next_tokens().empty() && named.next_tokens.empty()) {
    return "has '" + stated.next_tokens() +
           "' for multi-token prediction, of which no name of a tensor is";
  }
  if (named.is_hybrid) {
    if (named.decoder.size() > own.size()) {
      return "has " + counted(own.size(), "layer") + ", but the names of the tensors have " +
             std::to_string(named.decoder.size());
    }
    for (std::size_t i = 0; i < named.decoder.size(); ++i) {
      if (named.decoder[i] == own[i] || named.decoder[i] == '?') continue;
      return "has '" + std::string(1, own[i]) + "' for layer " + std::to_string(i) +
             ", whose tensors are those of '" + std::string(1, named.decoder[i]) + "'";
    }
    return {};
  }
  const std::string attention = only(own, kAttentionSymbols);
  const std::string mlp = only(own, kMlpSymbols);
  if (attention.size() + mlp.size() != own.size()) {
    return "asks for 'M' layers, whose tensors a GPT model does not have";
  }
  if (attention.size() != mlp.size()) {
    return "has " + std::to_string(attention.size()) + " attention and " +
           std::to_string(mlp.size()) + " MLP layers; a layer of a GPT model is one of each";
  }
  if (2 * attention.size() != named.decoder.size()) {
    return "pairs with " + counted(attention.size(), "layer") +
           ", but the names of the tensors have " + std::to_string(named.decoder.size() / 2);
  }
  for (std::size_t i = 0; i < attention.size(); ++i) {
    for (const bool is_mlp : {false, true}) {
      const char wanted = is_mlp ? mlp[i] : attention[i];
      const char found = named.decoder[2 * i + (is_mlp ? 1 : 0)];
      if (found == wanted || found == '?') continue;
      return std::string("has '") + wanted + "' for the " + (is_mlp ? "MLP" : "attention") +
             " of layer " + std::to_string(i) + ", whose tensors are those of '" + found + "'";
    }
  }
  return {};
}

}  // namespace reshardfs::modelmap
