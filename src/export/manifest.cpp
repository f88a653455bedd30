// SPDX-License-Identifier: Apache-2.0
#include "export/manifest.h"

#include <algorithm>
#include <span>
#include <string_view>

#include <fmt/format.h>

#include "base/sha256.h"
#include "base/text/numbers.h"
#include "export/manifest_text.h"
#include "export/target.h"

namespace reshardfs {
namespace {

constexpr const char* kShareOf = "-of-";
constexpr const char* kShareSuffix = ".jsonl";
// Where nothing can be appended, so much may have to be written again after a kill, beside what was
// under way. A small file costs a request, as some bytes do.
constexpr std::uint64_t kSavedBytes = std::uint64_t{256} << 20U;
constexpr std::uint64_t kRequestBytes = std::uint64_t{1} << 20U;

std::optional<Share> share_of(const std::optional<SharePlan>& plan) {
  return plan ? std::optional(plan->share) : std::nullopt;
}

}  // namespace

Manifest::Manifest(const Target& target, const std::string& identity, bool force,
                   const std::optional<SharePlan>& share, const std::string& strategy)
    : header_(manifest_header(identity, share)),
      opening_(header_ + (strategy.empty() ? "" : manifest_strategy_line(strategy))),
      identity_sum_(sha256_of(std::as_bytes(std::span(identity)))),
      claim_(target.claim(share_of(share))) {
  const std::uint64_t good =
      parse_manifest(target.shown(manifest_name(share_of(share))), claim_->read(),
                     same_files(identity, share), identity, force, entries_);
  claim_->begin(good, header_, opening_);
}

std::optional<Manifest::Entry> Manifest::find(const std::string& path) const {
  const std::lock_guard lock(mutex_);
  const auto found = entries_.find(path);
  return found == entries_.end() ? std::nullopt : std::optional(found->second);
}

void Manifest::set(const std::string& path, const Entry& entry) {
  const std::lock_guard lock(mutex_);
  claim_->append(manifest_entry_line(path, entry));
  entries_[path] = entry;
}

void Manifest::add(const std::string& path, const Entry& entry) {
  {
    const std::lock_guard lock(mutex_);
    claim_->append(manifest_entry_line(path, entry));
    entries_[path] = entry;
    if (appends()) return;
    unsaved_bytes_ += std::max(entry.size, kRequestBytes);
    // Large manifests less often, so that they stay a small part of what is sent.
    if (unsaved_bytes_ < std::max(kSavedBytes, entries_.size() * kRequestBytes / 16)) return;
    unsaved_bytes_ = 0;
  }
  save();
}

void Manifest::save() {
  claim_->save([this] {
    const std::lock_guard lock(mutex_);
    std::string text = opening_;
    for (const auto& [path, entry] : entries_) text += manifest_entry_line(path, entry);
    return text;
  });
}

void Manifest::complete(const std::set<std::string>& paths) {
  std::string text = opening_;
  for (const std::string& path : paths) text += manifest_entry_line(path, entries_.at(path));
  claim_->complete(text + manifest_last_line(header_));
}

std::string manifest_name(const std::optional<Share>& share) {
  if (!share) return Manifest::kName;
  return fmt::format("{}{}{}{}{}", kManifestPrefix, share->index, kShareOf, share->count,
                     kShareSuffix);
}

std::optional<Share> share_of_manifest(const std::string& name) {
  if (!name.starts_with(kManifestPrefix)) return std::nullopt;
  std::string_view rest = std::string_view(name).substr(std::string_view(kManifestPrefix).size());
  const auto index = take_number<std::uint64_t>(rest);
  if (!index || !rest.starts_with(kShareOf)) return std::nullopt;
  rest.remove_prefix(std::string_view(kShareOf).size());
  const auto count = take_number<std::uint64_t>(rest);
  if (!count || rest != kShareSuffix) return std::nullopt;
  const Share share{*index, *count};
  // A manifest that reshardfs writes has exactly this name.
  if (manifest_name(share) != name) return std::nullopt;
  return share;
}

Error another_export_error(const std::filesystem::path& manifest) {
  return Error(ErrorKind::kUsage, "another export has begun in the place of this one")
      .in_file(manifest)
      .hint("let only one of them run");
}

}  // namespace reshardfs
