// SPDX-License-Identifier: Apache-2.0
#include "daemon/mount_versions.h"

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "reshardfs/error.h"

#include "base/json/json_value.h"
#include "base/json/json_writer.h"
#include "base/text/url_path.h"
#include "checkpoint/series/step.h"
#include "conversion/identity.h"
#include "conversion/named_inputs.h"
#include "daemon/mount_tree.h"
#include "fuse/event_log.h"
#include "fuse/kernel_caches.h"
#include "storage/location.h"
#include "view/view.h"

namespace reshardfs {
namespace {

using TreePtr = std::shared_ptr<const Tree>;

TreePtr tree_of(const Conversion& conversion, std::uint64_t version) {
  return std::make_shared<const Tree>(conversion_tree(conversion, version));
}

// --- what tells a tree from others ---------------------------------------------------------------

/// Whichever version of the program shows it. Empty if that cannot be found out: such a mount lives
/// as long as its process.
/// @throws Error after a crash of the process that has found it out: the source may come back.
template <typename Identity>
std::string subject_of(Identity&& identity, std::uint64_t sum, const MountOptions& mount,
                       const Takeover* before) {
  try {
    JsonWriter json;
    json.open_object();
    json.written_member("identity", identity());
    json.member("tree", fmt::format("{:016x}", sum));
    json.open_list("access");
    json.number(mount.uid);
    json.number(mount.gid);
    json.number(mount.file_mode);
    json.number(mount.dir_mode);
    json.number(mount.mtime_ns);
    json.close_list();
    json.texts("fuse", mount.fuse_options);
    json.close_object();
    return json.take();
  } catch (const Error& error) {
    if (before != nullptr && before->after_crash()) throw;
    log_info(LogEvent::kHandOverImpossible, "the mount cannot be handed over: {}", error.what());
    return "";
  }
}

std::string subject_of(const ConversionOptions& options, const Conversion& conversion,
                       const Tree& tree, const MountOptions& mount, const Takeover* before) {
  const auto identity = [&] {
    return mount_identity(options, conversion.source_files(), ConversionAccess::inputs(conversion),
                          ConversionAccess::companions(conversion));
  };
  return subject_of(identity, tree.sum(), mount, before);
}

/// What a subject says. It must outlive the parts.
class Subject {
 public:
  explicit Subject(const std::string& text) : document_(JsonDocument::parse(text)) {}

  std::optional<JsonValue> part(const char* key) const {
    return document_ ? document_->value().find(key) : std::nullopt;
  }
  bool is_same(const Subject& other, const char* key) const {
    return is_same_json(part(key), other.part(key));
  }

 private:
  std::optional<JsonDocument> document_;
};

bool is_same(const std::string& before, const std::string& now, const char* key) {
  return Subject(before).is_same(Subject(now), key);
}

bool has_same_contents(const std::string& before, const std::string& now) {
  if (before.empty() || now.empty()) return false;
  const Subject one(before);
  const Subject other(now);
  return one.is_same(other, "identity") && one.is_same(other, "tree");
}

/// Whether only files differ that pass through unchanged, such as a tokenizer, and what is shown
/// beside them.
bool differ_in_companions(const std::string& before, const std::string& now) {
  if (before.empty() || now.empty()) return false;
  const Subject one(before);
  const Subject other(now);
  const auto was = one.part("identity");
  const auto is = other.part("identity");
  return was && is && differ_in_companions_alone(*was, *is);
}

/// In what the contents differ, for a message.
std::string difference(const std::string& before, const std::string& now) {
  const Subject one(before);
  const Subject other(now);
  const auto identity = other.part("identity");
  if (before.empty() || !identity) return "it cannot be found out whether it is the same";
  if (one.is_same(other, "identity")) return "this program shows other files";
  return identity_difference(one.part("identity"), *identity).what;
}

Error not_what_is_mounted(const std::string& before, const std::string& now) {
  return {ErrorKind::kChanged, "not what is mounted: " + difference(before, now)};
}

void tell_of_other_contents(const std::string& before, const std::string& now) {
  log_warning(LogEvent::kConversionWarning, "the mount shows other contents than before: {}",
              difference(before, now));
}

bool shows_all_steps(const std::string& subject) {
  const Subject said(subject);
  const auto identity = said.part("identity");
  return identity && identity->find("steps");
}

/// Its steps come and go one by one, each with its own tree.
void require_no_steps(const std::string& subject) {
  if (!shows_all_steps(subject)) return;
  throw Error(ErrorKind::kUnsupported, "a mount of all steps cannot show other contents")
      .hint("unmount, and mount again");
}

/// What was said when it was mounted, the kernel does not forget.
void require_same_kernel_options(const std::string& before, const std::string& now) {
  const Subject was(before);
  const auto options = was.part("fuse");
  if (!options || options->is_null() || was.is_same(Subject(now), "fuse")) return;
  throw Error(ErrorKind::kUnsupported,
              "a mount keeps its options of FUSE and the kernel (--fuse-option, --allow-other)")
      .hint("unmount, and mount again");
}

/// The directory that a path leads to now: a link in it may lead to another one later. A file is
/// known by its name, too.
std::filesystem::path real_directory(const std::filesystem::path& source) {
  std::error_code failed;
  if (is_url(source) || !std::filesystem::is_directory(source, failed)) return source;
  auto real = std::filesystem::canonical(source, failed);
  return failed ? source : real;
}

/// Whatever a link in it leads to by now.
void lead_back(std::filesystem::path& source, const std::filesystem::path& before) {
  if (real_directory(source) != before) source = before;
}

// --- trees ---------------------------------------------------------------------------------------

/// Whether the kernel could take a file of one for one of the other.
bool clashes(const Tree& tree, const Tree& former) {
  bool clashes = false;
  tree.for_each([&](const Node& node) {
    if (clashes || node.inode == kRootInode) return;
    const Node* const other = former.find(node.inode);
    if (other == nullptr) return;
    // The numbers of what has no bytes are those of the paths.
    clashes =
        node.size != 0 || other->size != 0 || tree.path(node.inode) != former.path(node.inode);
  });
  return clashes;
}

/// A former tree as it was. @throws Error
TreePtr shown_again(const MountedTree& former, const MountWords& words) {
  ConversionOptions options = words.options_of(former.words);
  lead_back(options.source.path, former.source);
  if (!former.step.empty()) options.source.step = former.step;
  options.source.allow_unmatched = true;  // nobody types them now
  if (!former.series.empty()) options.source.prefix = former.series;
  const Conversion conversion = ConversionAccess::open(options, former.inputs);
  TreePtr tree = tree_of(conversion, former.version);
  const std::string now = subject_of(options, conversion, *tree, {}, nullptr);
  if (!has_same_contents(former.subject, now)) {
    throw Error(ErrorKind::kChanged, difference(former.subject, now))
        .in_file(options.source.path.string());
  }
  return tree;
}

class Builder {
 public:
  Builder(Takeover& before, const MountWords& words) : before_(before), words_(words) {}

  /// @throws Error if programs have files of it open that cannot be shown any more, unless that is
  ///         after a crash: then they are stale.
  void add_former(const MountedTree& former, bool was_shown) {
    // A text of .reshardfs goes on by itself; a collector may have one open at any moment.
    const bool is_open = before_.openings().needing(former.version) > 0;
    // The one that was shown may be opened until the other process stops.
    if (!is_open && !was_shown && !before_.state().is_new) return;
    try {
      versions_.trees.push_back({former.version, shown_again(former, words_)});
      versions_.known.push_back(former);
    } catch (const Error& error) {
      // The source may come back.
      if (before_.after_crash() && error.kind() == ErrorKind::kIo) throw;
      if (is_open && before_.after_crash()) {
        log_warning(LogEvent::kProcessCrashed,
                    "files that were open before the crash return ESTALE: {}", error.what());
        has_lost_ = true;
        return;
      }
      if (is_open) {
        throw Error(ErrorKind::kChanged,
                    std::string("programs have former files open that cannot be shown any more: ") +
                        error.what())
            .hint("close them first");
      }
      versions_.without_openings.push_back(former.version);
    }
  }

  MountVersions finish(TreePtr tree, MountedTree shown) {
    versions_.trees.push_back({shown.version, std::move(tree)});
    versions_.known.push_back(std::move(shown));
    return std::move(versions_);
  }

  /// Whether programs have openings that are stale.
  bool has_lost() const noexcept { return has_lost_; }

  /// A tree none of whose files the kernel could take for one that it knows.
  /// @param shown another tree that the kernel knows; nullptr: there is none.
  /// @param version the last one; becomes the tree's.
  /// @throws Error kUnsupported if there is no such tree: a mount of an earlier release began with
  ///         version 0, where a file has the number of an empty file or a directory in its place.
  TreePtr without_clash(const Conversion& conversion, const Tree* shown,
                        std::uint64_t& version) const {
    constexpr int kMostAttempts = 8;  // chance alone does not need two
    for (int attempt = 0; attempt < kMostAttempts; ++attempt) {
      TreePtr tree = tree_of(conversion, ++version);
      if (!has_clash(*tree, shown)) return tree;
    }
    throw Error(ErrorKind::kUnsupported,
                "a file that is mounted has become empty, or a directory, in the new contents")
        .hint("unmount, and mount again");
  }

  /// All that the kernel may know of former trees.
  std::vector<KnownName> names() const {
    std::vector<KnownName> all;
    for (const auto& version : versions_.trees) {
      std::vector<KnownName> names = names_of(*version.tree);
      std::move(names.begin(), names.end(), std::back_inserter(all));
    }
    return all;
  }

 private:
  bool has_clash(const Tree& tree, const Tree* shown) const {
    if (shown != nullptr && clashes(tree, *shown)) return true;
    return std::any_of(versions_.trees.begin(), versions_.trees.end(),
                       [&](const auto& version) { return clashes(tree, *version.tree); });
  }

  Takeover& before_;
  const MountWords& words_;
  MountVersions versions_;
  bool has_lost_ = false;
};

}  // namespace

MountVersions mount_versions(const ConversionOptions& options, const Conversion& conversion,
                             const MountOptions& mount, const MountWords& words, Takeover* before) {
  const std::uint64_t last =
      before == nullptr ? kFirstVersion : before->state().trees.back().version;
  TreePtr tree = tree_of(conversion, last);
  MountedTree shown{.version = last,
                    .subject = subject_of(options, conversion, *tree, mount, before),
                    .words = words.words,
                    .source = real_directory(options.source.path).string(),
                    .step = conversion.step(),
                    .series = conversion.series(),
                    .inputs = ConversionAccess::saved(conversion)};
  if (before == nullptr) {
    MountVersions versions;
    versions.trees.push_back({last, std::move(tree)});
    versions.known.push_back(std::move(shown));
    return versions;
  }
  const std::vector<MountedTree>& trees = before->state().trees;
  const std::string& was = trees.back().subject;
  const bool is_replaced = !has_same_contents(was, shown.subject);
  if (is_replaced && !before->may_replace()) {
    const bool is_close = before->after_crash() || differ_in_companions(was, shown.subject);
    if (!is_close) {
      throw not_what_is_mounted(was, shown.subject)
          .hint("'reshardfs reload --replace' shows it in the place of what is mounted");
    }
    tell_of_other_contents(was, shown.subject);
  }
  if (is_replaced) require_no_steps(was);
  require_same_kernel_options(was, shown.subject);
  Builder builder(*before, words);
  for (const MountedTree& former : trees) {
    const bool was_shown = &former == &trees.back();
    if (!was_shown || is_replaced) builder.add_former(former, was_shown);
  }
  std::optional<TreeChange> change;
  if (is_replaced) {
    // After a crash it is unknown which names the kernel has; most are still the same.
    const TreePtr same_names = before->after_crash() ? std::move(tree) : nullptr;
    tree = builder.without_clash(conversion, same_names.get(), shown.version);
    shown.subject = subject_of(options, conversion, *tree, mount, before);
    change = {same_names ? names_of(*same_names) : before->names(), true, builder.has_lost()};
  } else if (before->state().is_new) {
    // The other process has not told the kernel all.
    change = {builder.names(), true};
  } else if (!is_same(was, shown.subject, "access")) {
    change = {{}, false};
  }
  MountVersions versions = builder.finish(std::move(tree), std::move(shown));
  versions.change = std::move(change);
  before->show(versions.known, versions.change.has_value(), is_replaced);
  return versions;
}

MountVersions steps_versions(const ConversionOptions& options, const std::string& series,
                             const MountOptions& mount, const MountWords& words, Takeover* before) {
  const auto identity = [&] { return steps_identity(options, inputs_of_options(options)); };
  MountedTree shown{
      .subject = subject_of(identity, 0, mount, before), .words = words.words, .series = series};
  MountVersions versions;
  if (before != nullptr) {
    const std::string& was = before->state().trees.back().subject;
    const std::string& series_was = before->state().trees.back().series;
    const bool same_series = series_was.empty() || series_was == series;
    const bool is_same_mount = same_series && has_same_contents(was, shown.subject);
    // After a crash, each step tells by itself whether it has changed.
    if (!is_same_mount && (!before->after_crash() || !shows_all_steps(was))) {
      throw not_what_is_mounted(was, shown.subject).hint("unmount, and mount again");
    }
    require_same_kernel_options(was, shown.subject);
    if (!is_same(was, shown.subject, "access")) versions.change.emplace();
  }
  versions.known.push_back(std::move(shown));
  if (before != nullptr) before->show(versions.known, versions.change.has_value(), false);
  return versions;
}

ConversionOptions options_after(ConversionOptions options, const MountWords& words,
                                const Takeover& before) {
  const MountedTree& shown = before.state().trees.back();
  if (before.may_replace()) return options;
  options.source.allow_unmatched = true;  // an older version may have accepted them
  if (shown.words.empty()) return options;
  const bool same_source = options.source.path == words.options_of(shown.words).source.path;
  // Files of another run beside it do not change what is mounted.
  if (same_source && options.source.prefix.empty()) options.source.prefix = shown.series;
  if (options.source.step == kAllSteps) return options;
  if (same_source) lead_back(options.source.path, shown.source);
  if (options.source.step == kLatestStep && !shown.step.empty()) options.source.step = shown.step;
  return options;
}

}  // namespace reshardfs
