// What keeps a freed block from being reused: the streams that were recorded on it, and their open fences.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <unordered_map>
#include <vector>

#include "cistern/base/ids.hpp"
#include "cistern/core/block_table.hpp"
#include "cistern/core/stream_fences.hpp"

namespace cistern {

/// One per heap, guarded by its lock. Fences are recorded and queried by the caller with no lock held; the ledger only
/// remembers. Blocks on one stream are never seen here.
class StreamLedger {
 public:
  /// The stream uses the live block too.
  void record_use(BlockIndex block, StreamId stream);

  struct OpenFence {
    StreamId stream;
    FenceId fence;
    BlockIndex block;
  };

  /// The block was freed: hands over its streams, for a fence on each. Until attach() it counts as having open fences.
  /// Fails with std::bad_alloc and no change; all host memory that attach() will want is taken here.
  std::vector<OpenFence> begin_pending(BlockIndex block);
  /// Requires what begin_pending or unfenced gave, with its fences filled in. One with kNoFence stays without.
  void attach(const std::vector<OpenFence>& fences) noexcept;
  /// Hands over the uses that got no fence, for another try; until attach() nobody else gets them.
  std::vector<OpenFence> unfenced();

  /// The oldest open fence of each stream: within a stream, fences are done in order.
  std::vector<OpenFence> oldest() const;
  /// All open fences of all blocks.
  std::vector<OpenFence> all() const;

  /// The fence is done, or the owner stream was ordered behind it. Returns the block if it was its last one.
  /// A fence that is not open any more is ignored: another thread closed it.
  std::optional<BlockIndex> close(const OpenFence& fence);

  /// Whether the predicate holds of a block with open fences.
  template <class Predicate>
  bool any_block(Predicate predicate) const {
    return std::any_of(open_counts_.begin(), open_counts_.end(), [&](const auto& one) { return predicate(one.first); });
  }

  bool has_unfenced() const noexcept { return unfenced_count_ != 0; }
  bool empty() const noexcept { return open_counts_.empty(); }

 private:
  /// An open fence, or the place of one that is being recorded or could not be.
  enum class Recorded : std::uint8_t { kNow, kYes, kRefused };
  struct Entry {
    OpenFence open;
    Recorded recorded = Recorded::kNow;
  };

  std::unordered_map<BlockIndex, std::vector<StreamId>> uses_;
  std::map<StreamId, std::deque<Entry>> queues_;
  std::unordered_map<BlockIndex, std::size_t> open_counts_;
  std::size_t unfenced_count_ = 0;
};

}  // namespace cistern
