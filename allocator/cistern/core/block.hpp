// One piece of a range, as the heap keeps it.
#pragma once

#include <cstddef>
#include <cstdint>

#include "cistern/base/ids.hpp"

namespace cistern {

/// A record's place in its table, in quarters of a record, so that an address is one addition with a scaled operand.
using BlockIndex = std::uint32_t;
/// Has a record all the same, as of a hole of no bytes whose links lead to itself: who follows a link need not ask first
/// whether it leads anywhere, and may write into what it leads to; nobody reads the backward links of that record.
inline constexpr BlockIndex kNoBlock = 0;

enum class BlockState : std::uint8_t {
  kFree,
  kActive,   ///< Granted.
  kPending,  ///< Freed, a stream still uses it.
  kHole,     ///< Address space without memory; counts in no statistic.
  kClaimed,  ///< Taken out of circulation by a growth or trim in progress; memory may come or go.
};

/// Half a cache line. Addresses and sizes are below 2^48; the rest shares their words. A free block has no requested
/// bytes, and only free blocks and holes need links to others of their kind.
class Block {
 public:
  /// When a free was (see FreeEpochs).
  using Stamp = std::uint16_t;
  static constexpr Stamp kMaxStamp = (1u << 15) - 1;

  Block() = default;
  Block(Address address, std::size_t bytes, std::size_t block_class, BlockState state) noexcept
      : place_(address << kShift),
        extent_(bytes << kShift | block_class << kClassShift | static_cast<std::uint64_t>(state)) {}

  Address address() const noexcept { return place_ >> kShift; }
  std::size_t bytes() const noexcept { return extent_ >> kShift; }
  void set_address(Address address) noexcept { place_ = (place_ & kLowBits) | address << kShift; }
  void set_bytes(std::size_t bytes) noexcept { extent_ = (extent_ & kLowBits) | bytes << kShift; }

  BlockState state() const noexcept { return static_cast<BlockState>(extent_ & kStateMask); }
  void set_state(BlockState state) noexcept {
    extent_ = (extent_ & ~(kStateMask | kStreams)) | static_cast<std::uint64_t>(state);
  }
  /// That of its range: kSmallBlocks or kLargeBlocks.
  std::size_t block_class() const noexcept { return extent_ >> kClassShift & 1; }
  /// Free: counted as inactive-split.
  bool split() const noexcept { return (place_ & kSplit) != 0; }
  void set_split(bool split) noexcept { place_ = (place_ & ~kSplit) | std::uint64_t{split} << kSplitShift; }
  /// Free: the list it is in.
  std::uint32_t bin() const noexcept { return static_cast<std::uint32_t>((extent_ & kLowBits) >> kBinShift); }
  /// From now on free, of that size and in that bin.
  void set_free(std::size_t bytes, std::uint32_t bin) noexcept {
    extent_ = bytes << kShift | std::uint64_t{bin} << kBinShift | (extent_ & kClass);
  }
  /// Other streams were recorded: a free has to ask the stream ledger.
  bool streams() const noexcept { return (extent_ & kStreams) != 0; }
  void set_streams() noexcept { extent_ |= kStreams; }

  /// Free: when the last free inside it was, for promise I13.
  Stamp last_free() const noexcept { return static_cast<Stamp>(place_ & kMaxStamp); }
  void set_last_free(Stamp stamp) noexcept { place_ = (place_ & ~std::uint64_t{kMaxStamp}) | stamp; }

  /// Active and pending: what the caller asked for. Claimed: bytes that have memory. Free and hole: meaningless.
  std::size_t requested_bytes() const noexcept { return std::size_t{bin_next} << 32 | bin_prev; }
  void set_requested_bytes(std::size_t bytes) noexcept {
    bin_prev = static_cast<std::uint32_t>(bytes);
    bin_next = static_cast<std::uint32_t>(bytes >> 32);
  }

  BlockIndex prev = kNoBlock;  ///< Neighbours by address within the range; before the first block is its border.
  BlockIndex next = kNoBlock;
  BlockIndex bin_prev = kNoBlock;  ///< Free: neighbours within the bin. Hole: other holes.
  BlockIndex bin_next = kNoBlock;

 private:
  static constexpr unsigned kShift = 16;
  static constexpr std::uint64_t kLowBits = (std::uint64_t{1} << kShift) - 1;
  static constexpr std::uint64_t kStateMask = 7;
  static constexpr unsigned kClassShift = 3;
  static constexpr std::uint64_t kClass = 1u << kClassShift;
  static constexpr std::uint64_t kStreams = 1u << 4;
  static constexpr unsigned kBinShift = 7;  // nine bits
  static constexpr unsigned kSplitShift = 15;
  static constexpr std::uint64_t kSplit = 1u << kSplitShift;

  std::uint64_t place_ = 0;   // 48 bits of address, split, stamp
  std::uint64_t extent_ = 0;  // 48 bits of size, bin, streams, class, state
};
inline constexpr BlockIndex kIndexStep = 4;
static_assert(sizeof(Block) == kIndexStep * 8);

}  // namespace cistern
