// SPDX-License-Identifier: Apache-2.0
#include "export/object_claim.h"

#include <mutex>
#include <span>
#include <string>

#include "export/manifest_text.h"
#include "transport/s3_objects.h"

namespace reshardfs {
namespace {

class ObjectClaim final : public Claim {
 public:
  ObjectClaim(const ObjectTarget& target, const std::optional<Share>& share)
      : target_(target), name_(manifest_name(share)) {}

  std::string read() override { return seen_ = now(); }
  void begin(std::uint64_t good, const std::string& header,
             const std::string& /*opening*/) override {
    header_ = header;
    begun_ = good > 0;
  }
  bool appends() const noexcept override { return false; }
  void append(const std::string& /*line*/) override {}
  void save(const std::function<std::string()>& text) override {
    const std::lock_guard lock(mutex_);
    store(text(), /*is_complete=*/false);
  }
  void complete(const std::string& text) override {
    const std::lock_guard lock(mutex_);
    store(text, /*is_complete=*/true);
  }
  void require_own() const override { require_own(now()); }

 private:
  std::string now() const { return target_.read(name_, {}).value_or(""); }

  void require_own(const std::string& there) const {
    if (begun_ && !there.starts_with(header_)) throw another_export_error(target_.shown(name_));
  }

  void store(const std::string& text, bool is_complete) {
    const std::string there = now();
    require_own(there);
    // The same share in another process: after the failure of a node, for example.
    const bool was_completed = there != seen_ && there.starts_with(header_) &&
                               there.ends_with(manifest_last_line(header_));
    if (there != text && (is_complete || !was_completed)) {
      write_s3_object(target_.name(name_), std::as_bytes(std::span(text)));
      seen_ = text;
    }
    begun_ = true;
  }

  const ObjectTarget& target_;
  const std::string name_;
  std::string header_;
  bool begun_ = false;  ///< whether the one that is there is this export's
  std::string seen_;
  std::mutex mutex_;  // guards both, and keeps writers apart
};

}  // namespace

std::unique_ptr<Claim> claim_in(const ObjectTarget& target, const std::optional<Share>& share) {
  return std::make_unique<ObjectClaim>(target, share);
}

}  // namespace reshardfs
