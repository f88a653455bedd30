// SPDX-License-Identifier: Apache-2.0
#include "daemon/handover/mount_handover.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <ctime>
#include <exception>
#include <memory>
#include <utility>

#include "reshardfs/error.h"

#include "base/process/mount_record.h"
#include "base/version.h"
#include "daemon/handover/handover_options.h"
#include "daemon/handover/takeover.h"
#include "fuse/event_log.h"
#include "fuse/resend.h"

namespace reshardfs {
namespace {

/// A text that an opening in another process holds.
class RestoredText final : public VirtualFile {
 public:
  explicit RestoredText(std::string text) : text_(std::move(text)) {}

  std::uint64_t size() const override { return text_.size(); }
  Effort effort() const noexcept override { return Effort::kNone; }
  void read_at(std::uint64_t offset, std::span<std::byte> out) const override {
    if (offset > text_.size() || out.size() > text_.size() - offset) {
      throw Error(ErrorKind::kBadInput, "a read beyond the end of the file").at_offset(offset);
    }
    std::memcpy(out.data(), text_.data() + offset, out.size());
  }

 private:
  std::string text_;
};

void restore_openings(ServedTree& served, MemoryRecord&& texts) {
  OpenState state = decode_open_state(texts.read());
  for (HeldText& text : state.texts) {
    auto file = std::make_shared<const RestoredText>(std::move(text.bytes));
    served.files.restore(text.handle, std::make_shared<const OpenFile>(std::move(file)));
  }
  for (const HeldText& listing : state.listings) {
    served.listings.restore(listing.handle, served.source.restore_listing(listing.bytes));
  }
}

std::string text_of(const VirtualFile& file) {
  std::string text(static_cast<std::size_t>(file.size()), '\0');
  file.read_at(0, std::as_writable_bytes(std::span(text)));
  return text;
}

}  // namespace

std::vector<std::string> go_on_with_mount(Session& session, ServedTree& served,
                                          const HandoverOptions& options,
                                          InheritedDescriptors& inherited) {
  Takeover& takeover = *options.takeover;
  const HandoverState& state = takeover.state();
  const std::string found = session.replay(state.negotiation);
  if (!found.empty()) {
    throw Error(ErrorKind::kUnsupported, "this version cannot take over the mount: " + found)
        .hint("unmount, and mount with this version");
  }
  MountDescriptors taken = takeover.take();
  takeover.openings().reread();
  for (const std::uint64_t version : options.without_openings) {
    if (takeover.openings().needing(version) == 0) continue;
    throw Error(ErrorKind::kIo,
                "a file of the former contents has been opened meanwhile and cannot be kept open")
        .hint("try again");
  }
  served.source.recall(
      takeover.record().read(MemoryRecord::Text::kTree),
      [&openings = takeover.openings()](std::uint64_t tree) { return openings.of(tree); });
  if (taken.texts.get() >= 0) restore_openings(served, MemoryRecord(std::move(taken.texts)));
  served.channel.use_table(std::move(taken.requests));
  session.adopt(std::move(taken.fuse), state.mount);
  if (MountKeeper* const keeper = options.keeper) {
    if (taken.keeper.get() >= 0) keeper->take_connection(std::move(taken.keeper));
  } else {
    inherited.keeper = std::move(taken.keeper);
  }
  inherited.connection = std::move(taken.connection);
  // From the first answer on.
  set_mount_record(state.record);
  RequestTable& table = served.channel.table();
  if (takeover.after_crash() && resend_requests(session.descriptor())) table.clear();
  return table.unanswered();
}

MountHandover::MountHandover(const HandoverOptions& options, const InheritedDescriptors& inherited,
                             Session& session, ServedTree& served, WorkerThreads& workers,
                             const WakePipe& events)
    : options_(options),
      inherited_(inherited),
      session_(session),
      served_(served),
      workers_(workers),
      events_(events) {
  if (Takeover* const takeover = options_.takeover) {
    record_ = &takeover->record();
    served_.openings = &takeover->openings();
  } else {
    try {
      record_ = &own_record_.emplace();
      served_.openings = &own_openings_.emplace(record_->openings());
    } catch (const std::exception& error) {
      cannot_be_handed_over(error);
    }
  }
  save_tree();
}

void MountHandover::save_tree() {
  if (record_ == nullptr) return;
  served_.source.save_through([this, record = record_](const std::string& saved) {
    // The process that the mount is handed over to has the record then.
    const Channel::Pass pass(served_.channel);
    if (pass.is_open()) record->write(saved, MemoryRecord::Text::kTree);
  });
}

/// From now on, the mount ends with this process.
void MountHandover::cannot_be_handed_over(const std::exception& why) {
  record_ = nullptr;
  log_warning(LogEvent::kHandOverImpossible,
              "the mount cannot be handed over to another process: {}", why.what());
}

void MountHandover::begin() noexcept {
  note_mount();
  begun_ = true;
  const auto early = std::exchange(asked_early_, std::nullopt);
  if (early) return ask(*early);
  start_waiting();  // what the process before has left
}

void MountHandover::note_mount() noexcept {
  if (record_ == nullptr) return;
  try {
    if (Takeover* const takeover = options_.takeover) {
      state_ = takeover->state();
    } else {
      state_.mountpoint = served_.options.mountpoint.string();
      state_.mount = session_.place();
      state_.negotiation = served_.channel.negotiation();
      state_.processes = 1;
      state_.record.mounted_at = static_cast<std::int64_t>(std::time(nullptr));
    }
    state_.program = kVersion;
    state_.trees = options_.trees;
    keep_state();
    if (options_.keeper != nullptr && !options_.is_kept) {
      options_.keeper->keep(session_.descriptor(), served_.channel.table().descriptor(),
                            record_->descriptor());
    }
    tell_kernel();
  } catch (const std::exception& error) {
    cannot_be_handed_over(error);
  }
}

void MountHandover::tell_kernel() {
  if (!options_.change) return;
  set_telling_kernel(true);
  caches_.start(session_.descriptor(), *options_.change, served_.source.current(), events_);
}

void MountHandover::told_kernel() noexcept {
  caches_.stop(std::chrono::seconds(10));  // the thread has only to end
  state_.is_new = false;
  try {
    if (record_ != nullptr) keep_state();
  } catch (const std::exception&) {
    // The process that takes over the mount will tell the kernel again.
  }
  set_telling_kernel(false);
  start_waiting();
}

void MountHandover::keep_state() {
  set_mount_record(state_.record);
  record_->write(encode(state_));
}

void MountHandover::require_possible() const {
  if (!options_.obstacle.empty()) throw Error(ErrorKind::kUsage, options_.obstacle);
  if (state_.processes == 0) throw Error(ErrorKind::kIo, "the mount is not ready yet");
  const bool shared = served_.channel.table().descriptor() >= 0;
  if (record_ != nullptr && shared && served_.channel.negotiation().is_done()) return;
  throw Error(ErrorKind::kIo, "there was no memory to share when the mount began");
}

void MountHandover::ask(bool replace) noexcept {
  if (!begun_) {
    asked_early_ = asked_early_.value_or(false) || replace;
    return;
  }
  state_.record.requests.take(replace);
  try {
    set_mount_record(state_.record);
  } catch (const std::exception&) {
    // No memory: the status shows it with the attempt.
  }
  start_waiting();
}

void MountHandover::start_waiting() noexcept {
  ReloadRequests& requests = state_.record.requests;
  // One at a time, and the next process is not to tell the kernel what this one still does.
  if (successor_ || caches_.is_running() || !requests.is_any_waiting()) return;
  const bool replace = requests.is_any_to_replace_waiting();
  requests.begin_attempt();
  if (options_.on_reload) options_.on_reload();
  try {
    require_possible();
    keep_state();
    SuccessorOffer offer{.state = record_->descriptor(), .replace = replace};
    offer.names.write(encode(names_of(*served_.source.current())));
    successor_.emplace(*options_.successor, std::move(offer), events_);
  } catch (const std::exception& error) {
    refused(error.what());
  }
}

void MountHandover::refused(const std::string& why) noexcept {
  try {
    log_error(LogEvent::kHandOverRefused, "the mount stays with this process: {}", why);
    ++state_.record.reloads;
    state_.record.requests.refuse();
    state_.record.refusal = why;
    set_mount_record(state_.record);
    if (record_ != nullptr) keep_state();
  } catch (const std::exception&) {
    // No memory to say so.
  }
  if (options_.on_refusal) options_.on_refusal();
}

MemoryRecord MountHandover::texts() const {
  OpenState state;
  for (const auto& [handle, open] : served_.files.confirmed()) {
    if (holds_something(handle)) state.texts.push_back({handle, text_of(*open->file)});
  }
  for (const auto& [handle, tree] : served_.listings.confirmed()) {
    state.listings.push_back({handle, served_.source.save_listing(*tree)});
  }
  MemoryRecord record;
  record.write(encode(state));
  return record;
}

bool MountHandover::give() noexcept {
  if (!successor_) return false;
  std::string failure = successor_->failure();
  if (failure.empty()) {
    workers_.pause();
    served_.channel.close();
    try {
      given_ = try_to_give();
      failure = successor_->failure();
    } catch (const std::exception& error) {
      failure = error.what();
    }
    if (!given_) {
      successor_.reset();  // first: it may have taken requests, and takes none any more
      served_.channel.open();
      RequestTable& table = served_.channel.table();
      table.reread();
      if (resend_requests(session_.descriptor())) table.clear();
      served_.openings->reread();
      save_tree();
      workers_.start(table.unanswered());
    }
  }
  if (given_) return true;
  successor_.reset();
  refused(failure);
  start_waiting();
  return false;
}

bool MountHandover::try_to_give() {
  if (!served_.channel.table().is_complete()) {
    throw Error(ErrorKind::kIo, "more requests wait than can be handed over")
        .hint("try again when the source answers");
  }
  keep_state();  // with the requests that wait for the other process
  const MemoryRecord held = texts();
  const MountKeeper* const keeper = options_.keeper;
  const int connection =
      inherited_.connection.get() >= 0 ? inherited_.connection.get() : options_.connection;
  return successor_->give(
      {session_.descriptor(), served_.channel.table().descriptor(), held.descriptor(),
       keeper == nullptr ? inherited_.keeper.get() : keeper->connection(), connection});
}

std::optional<pid_t> MountHandover::successor() const noexcept {
  if (!given_) return std::nullopt;
  return successor_->process();
}

}  // namespace reshardfs
