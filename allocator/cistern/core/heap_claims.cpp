// Growing and trimming: memory comes and goes in two steps, so that no source is called under a heap's lock.
#include <bit>

#include "cistern/base/check.hpp"
#include "cistern/base/mutant.hpp"
#include "cistern/core/heap_hot_path.hpp"

namespace cistern {

/// Neighbouring vacant blocks that would hold a need once their holes have memory.
struct Heap::Window {
  BlockIndex first = kNoBlock;
  BlockIndex last = kNoBlock;
  std::size_t cut_front = 0;  ///< Of the first block, a hole, not needed: granules.
  std::size_t cut_back = 0;   ///< Of the last block, a hole.
  std::size_t commit_bytes = ~std::size_t{0};
  Address address = ~Address{0};
};

/// What claim_idle() is asked for.
struct Heap::IdleRule {
  std::size_t bytes = 0;
  std::uint64_t epoch = 0;
  bool whole_ranges = false;
};

/// A free block, and how much of it could go.
struct Heap::Idle {
  BlockIndex block = kNoBlock;
  std::size_t bytes = 0;
};

bool Heap::is_hole(BlockIndex index) const noexcept {
  return blocks_[index].state() == BlockState::kHole && blocks_[index].bytes() != 0;  // no border, and not no block
}

bool Heap::vacant(BlockIndex index) const noexcept {
  return blocks_[index].state() == BlockState::kFree || is_hole(index);
}

std::uint32_t Heap::range_of(BlockIndex index) const noexcept {
  const Block& before = blocks_[blocks_[index].prev];
  if (before.bytes() == 0) return static_cast<std::uint32_t>(before.requested_bytes());  // a border knows its range
  std::uint32_t slot = 0;
  while (blocks_[index].address() - ranges_[slot].source.address >= ranges_[slot].source.bytes) ++slot;
  return slot;
}

BlockIndex& Heap::holes_like(const Block& hole) noexcept {
  const auto log2 = static_cast<std::size_t>(std::bit_width(hole.bytes() / rules_.granule_bytes)) - 1;
  return holes_[hole.block_class()][std::min(log2, kHoleBins - 1)];
}

void Heap::link_hole(BlockIndex index) noexcept {
  Block& block = blocks_[index];
  BlockIndex& head = holes_like(block);
  block.bin_prev = kNoBlock;
  block.bin_next = head;
  if (head != kNoBlock) blocks_[head].bin_prev = index;
  head = index;
}

void Heap::unlink_hole(BlockIndex index) noexcept {
  const Block& block = blocks_[index];
  if (block.bin_next != kNoBlock) blocks_[block.bin_next].bin_prev = block.bin_prev;
  if (block.bin_prev != kNoBlock) blocks_[block.bin_prev].bin_next = block.bin_next;
  else holes_like(block) = block.bin_next;
}

void Heap::resize_hole(BlockIndex index, std::size_t bytes) noexcept {
  unlink_hole(index);
  blocks_[index].set_bytes(bytes);
  if (CISTERN_MUTANT(I3_hole_not_linked_again)) return;
  link_hole(index);
}

void Heap::recount_split(BlockIndex index) noexcept {
  const Block& block = blocks_[index];
  if (block.state() == BlockState::kFree) resize_free(index, block.block_class(), block.address(), block.bytes());
}

void Heap::become_hole(BlockIndex index) noexcept {
  Block& block = blocks_[index];
  block.set_state(BlockState::kHole);
  block.set_last_free(0);
  if (const BlockIndex next = block.next; is_hole(next)) {
    block.set_bytes(block.bytes() + blocks_[next].bytes());
    unlink_hole(next);
    unlink(next);
  }
  if (const BlockIndex prev = block.prev; is_hole(prev)) {
    resize_hole(prev, blocks_[prev].bytes() + block.bytes());
    unlink(index);
    index = prev;
  } else {
    link_hole(index);
  }
  recount_split(blocks_[index].prev);
  recount_split(blocks_[index].next);
}

BlockIndex Heap::split_hole(BlockIndex index, std::size_t bytes) noexcept {
  const Block& block = blocks_[index];
  const Block piece(block.address() + bytes, block.bytes() - bytes, block.block_class(), BlockState::kHole);
  const BlockIndex rest = link_new(piece, index, block.next);
  resize_hole(index, bytes);
  link_hole(rest);
  return rest;
}

BlockIndex Heap::split_vacant(BlockIndex index, Address at) noexcept {
  return is_hole(index) ? split_hole(index, at - blocks_[index].address()) : split_free(index, at);
}

void Heap::add_range(const SourceRange& source, RangeKind kind, bool committed) {
  const bool small = kind == RangeKind::kSmall;
  end_rest();
  blocks_.prepare(kRoom + 2);
  std::uint32_t slot = unused_slot_;
  while (slot < ranges_.size() && ranges_[slot].border != kNoBlock) ++slot;
  if (slot == ranges_.size()) ranges_.emplace_back();
  unused_slot_ = slot + 1;
  const std::size_t block_class = small ? kSmallBlocks : kLargeBlocks;
  Block border(source.address, 0, block_class, BlockState::kHole);
  border.set_requested_bytes(slot);
  ranges_[slot] = Range{source, blocks_.create(border), small, 0, kind == RangeKind::kPlanned};
  const Block whole(source.address, source.bytes, block_class, BlockState::kHole);
  const BlockIndex index = link_new(whole, ranges_[slot].border, kNoBlock);
  log(EventKind::kReserve, source.address, source.bytes);
  if (!committed) {
    link_hole(index);
    return;
  }
  ranges_[slot].committed_bytes = source.bytes;
  committed_bytes_[block_class] += source.bytes;
  log(EventKind::kCommit, source.address, source.bytes);
  insert_free(index, block_class);
  gauges_.claim_in(block_class, source.bytes);
}

void Heap::remove_range(std::uint32_t slot) noexcept {
  Range& range = ranges_[slot];
  const BlockIndex hole = first_block(slot);
  CISTERN_ASSERT(is_hole(hole) && blocks_[hole].bytes() == range.source.bytes);
  log(EventKind::kUnreserve, range.source.address, range.source.bytes);
  unlink_hole(hole);
  blocks_.destroy(hole);
  blocks_.destroy(range.border);
  range = Range{};
  unused_slot_ = std::min(unused_slot_, slot);
}

void Heap::consider_window(BlockIndex first, std::size_t bytes, Window& best) const noexcept {
  Window window;
  window.first = first;
  std::size_t total = 0;
  std::size_t holes = 0;
  for (BlockIndex index = first; total < bytes; index = blocks_[index].next) {
    if (!vacant(index)) return;  // the run ends before the need is met
    total += blocks_[index].bytes();
    if (is_hole(index)) holes += blocks_[index].bytes();
    window.last = index;
  }
  std::size_t excess = total - bytes;
  if (is_hole(window.last)) {
    window.cut_back = round_down(std::min(excess, blocks_[window.last].bytes()), rules_.granule_bytes);
    excess -= window.cut_back;
  }
  if (first != window.last && is_hole(first)) {
    window.cut_front = round_down(std::min(excess, blocks_[first].bytes()), rules_.granule_bytes);
    if (window.cut_front == blocks_[first].bytes()) return;  // a later window is the same without it
  }
  window.commit_bytes = holes - window.cut_front - window.cut_back;
  window.address = blocks_[first].address() + window.cut_front;
  if (window.commit_bytes < best.commit_bytes ||
      (window.commit_bytes == best.commit_bytes && window.address < best.address)) {
    best = window;
  }
}

Heap::Window Heap::best_window(std::size_t block_class, std::size_t bytes, std::size_t most_holes) const noexcept {
  Window best;
  for (BlockIndex hole : holes_[block_class]) {
    for (std::size_t seen = 0; hole != kNoBlock && seen < most_holes; ++seen, hole = blocks_[hole].bin_next) {
      // Of the windows in which it is the first hole there are two: with the free block in front of it, and without.
      if (const BlockIndex before = blocks_[hole].prev; vacant(before)) consider_window(before, bytes, best);
      consider_window(hole, bytes, best);
    }
  }
  return best;
}

std::optional<Claim> Heap::claim_growth(const Need& need, std::size_t wish_bytes) {
  end_rest();
  blocks_.prepare(kRoom);
  const std::size_t bytes = need.span_bytes(rules_.least_block_bytes);
  const std::size_t block_class = need.block_class;
  Window best = best_window(block_class, bytes, kScannedHoles);
  if (best.first == kNoBlock) best = best_window(block_class, bytes, ~std::size_t{0});
  if (best.first == kNoBlock) return std::nullopt;
  if (wish_bytes > best.commit_bytes) {
    best.cut_back -= std::min(best.cut_back, round_up(wish_bytes - best.commit_bytes, rules_.granule_bytes));
  }
  Claim claim;
  std::size_t pieces = 1;
  for (BlockIndex index = best.first; index != best.last; index = blocks_[index].next) ++pieces;
  claim.pieces.reserve(pieces);
  if (best.cut_front != 0) best.first = split_hole(best.first, best.cut_front);  // it is not the last one then
  if (best.cut_back != 0) split_hole(best.last, blocks_[best.last].bytes() - best.cut_back);
  claim_blocks(best.first, best.last, claim);
  return claim;
}

Claim Heap::claim_place(BlockIndex first, Address address, std::size_t bytes) {
  end_rest();
  blocks_.prepare(kRoom);
  Claim claim;
  BlockIndex last = first;
  std::size_t pieces = 2;  // one more than there are: the last block may be the first
  for (; blocks_[last].address() + blocks_[last].bytes() < address + bytes; last = blocks_[last].next) ++pieces;
  claim.pieces.reserve(pieces);
  // Whole granules beside the place stay out of it: they may be remapped to it.
  const Address begin = round_down(address, rules_.granule_bytes);
  const Address end = round_up(address + bytes, rules_.granule_bytes);
  if (begin > blocks_[first].address()) {
    const BlockIndex rest = split_vacant(first, begin);
    if (last == first) last = rest;
    first = rest;
  }
  if (end < blocks_[last].address() + blocks_[last].bytes()) split_vacant(last, end);
  claim_blocks(first, last, claim);
  return claim;
}

void Heap::claim_blocks(BlockIndex first, BlockIndex last, Claim& claim) noexcept {
  claim.range_slot = range_of(first);
  claim.range = ranges_[claim.range_slot].source;
  for (BlockIndex index = first;; index = blocks_[index].next) {
    Block& block = blocks_[index];
    const bool hole = is_hole(index);
    if (hole) unlink_hole(index);
    else remove_free(index, block.block_class());
    (hole ? claim.hole_bytes : claim.free_bytes) += block.bytes();
    block.set_state(BlockState::kClaimed);
    block.set_requested_bytes(hole ? 0 : block.bytes());  // what it has of memory, for audit()
    claim.pieces.push_back({index, block.address() - claim.range.address, block.bytes(), hole});
    if (index == last) break;
  }
  gauges_.claim_out(blocks_[first].block_class(), claim.free_bytes);
  recount_split(blocks_[first].prev);
  recount_split(blocks_[last].next);
}

void Heap::finish_commit(const Claim& claim) noexcept {
  for (const Claim::Piece& piece : claim.pieces) {
    if (piece.hole) log(EventKind::kCommit, blocks_[piece.block].address(), piece.bytes);
  }
  ranges_[claim.range_slot].committed_bytes += claim.hole_bytes;
  committed_bytes_[class_of(claim)] += claim.hole_bytes;
  const BlockIndex first = claim.pieces.front().block;
  Block::Stamp last_free = blocks_[first].last_free();
  for (std::size_t i = 1; i < claim.pieces.size(); ++i) {
    const BlockIndex piece = claim.pieces[i].block;
    if (!CISTERN_MUTANT(I13_growth_forgets_the_free)) last_free = std::max(last_free, blocks_[piece].last_free());
    blocks_[first].set_bytes(blocks_[first].bytes() + blocks_[piece].bytes());
    unlink(piece);
  }
  become_free(first, class_of(claim), last_free);
  gauges_.claim_in(class_of(claim), claim.hole_bytes + claim.free_bytes);
}

void Heap::finish_decommit(const Claim& claim) noexcept {
  CISTERN_ASSERT(claim.pieces.size() == 1 && claim.hole_bytes == 0);
  const BlockIndex index = claim.pieces.front().block;
  log(EventKind::kDecommit, blocks_[index].address(), claim.free_bytes);
  ranges_[claim.range_slot].committed_bytes -= claim.free_bytes;
  if (!CISTERN_MUTANT(I5_decommit_not_counted)) committed_bytes_[class_of(claim)] -= claim.free_bytes;
  become_hole(index);
}

void Heap::cancel(const Claim& claim) noexcept {
  end_rest();
  // Holes first: the free pieces between them then find their neighbours, and join what was freed meanwhile.
  for (const Claim::Piece& piece : claim.pieces) {
    if (piece.hole) become_hole(piece.block);
  }
  for (const Claim::Piece& piece : claim.pieces) {
    if (!piece.hole) become_free(piece.block, class_of(claim), blocks_[piece.block].last_free());
  }
  gauges_.claim_in(class_of(claim), claim.free_bytes);
}

std::size_t Heap::whole_granules(const Block& block, bool whole_ranges) const noexcept {
  if (whole_ranges) return blocks_[block.prev].bytes() == 0 && block.next == kNoBlock ? block.bytes() : 0;
  const Address begin = round_up(block.address(), rules_.granule_bytes);
  const Address end = round_down(block.address() + block.bytes(), rules_.granule_bytes);
  return begin < end ? end - begin : 0;
}

std::size_t Heap::idle_bytes(const Block& block, const IdleRule& rule) const noexcept {
  if (epochs_.epoch_of(block.last_free()) > rule.epoch && !CISTERN_MUTANT(I13_busy_granules_claimed)) return 0;
  return whole_granules(block, rule.whole_ranges);
}

// A block holds at least one whole granule less than fit its size, so that few bins are looked through.
Heap::Idle Heap::least_idle(const FreeIndex& index, const IdleRule& rule) const noexcept {
  const std::size_t granule = rules_.granule_bytes;
  const std::size_t least = round_up(rule.bytes, granule);
  Idle best;
  for (std::uint32_t bin = index.next_bin(bin_of(least)); bin < kBinCount; bin = index.next_bin(bin + 1)) {
    if (best.block != kNoBlock && round_down(bin_floor_bytes(bin), granule) >= best.bytes + granule) break;
    for (BlockIndex i = index.head(bin); i != kNoBlock; i = blocks_[i].bin_next) {
      const std::size_t idle = idle_bytes(blocks_[i], rule);
      if (idle < least || (best.block != kNoBlock && idle >= best.bytes)) continue;
      best = {i, idle};
      if (idle == least) return best;
    }
  }
  return best;
}

Heap::Idle Heap::most_idle(const FreeIndex& index, const IdleRule& rule) const noexcept {
  const std::size_t granule = rules_.granule_bytes;
  const bool any = rule.bytes >= committed_bytes() - gauges_.current(kAllBlocks, kActiveBytes);  // all have to go
  Idle best;
  const std::uint32_t least = bin_of(granule) + (CISTERN_MUTANT(I10_single_granules_kept) ? 1 : 0);
  std::uint32_t bin = index.last_bin(kBinCount - 1);
  for (; bin >= least && bin < kBinCount; bin = index.last_bin(bin - 1)) {
    const std::size_t most = round_down(bin_floor_bytes(bin + 1) - 1, granule);
    if (most < best.bytes) break;
    Idle of_bin;
    for (BlockIndex i = index.head(bin); i != kNoBlock && of_bin.bytes < most; i = blocks_[i].bin_next) {
      const std::size_t idle = idle_bytes(blocks_[i], rule);
      if (idle > of_bin.bytes) of_bin = {i, idle};
      if (any && idle != 0) return of_bin;
    }
    if (of_bin.block != kNoBlock && of_bin.bytes >= best.bytes) best = of_bin;
  }
  return best;
}

std::optional<Claim> Heap::claim_idle(std::size_t bytes, std::uint64_t idle_epoch, bool whole_ranges) {
  if (!CISTERN_MUTANT(I10_rest_not_ended_by_trim)) end_rest();
  blocks_.prepare(kRoom);
  const IdleRule rule{bytes, idle_epoch, whole_ranges};
  Idle best;
  for (const FreeIndex& index : index_) {
    if (bytes > committed_bytes()) break;
    const Idle found = least_idle(index, rule);
    if (found.block != kNoBlock && (best.block == kNoBlock || found.bytes < best.bytes)) best = found;
  }
  for (std::size_t i = 0; i < index_.size() && best.bytes < bytes; ++i) {
    const Idle found = most_idle(index_[i], rule);
    if (found.bytes > best.bytes) best = found;
  }
  if (best.block == kNoBlock) return std::nullopt;
  Claim claim;
  claim.pieces.reserve(1);
  if (!whole_ranges) best.block = isolate_granules(best.block, bytes);
  claim_blocks(best.block, best.block, claim);
  return claim;
}

BlockIndex Heap::isolate_granules(BlockIndex index, std::size_t bytes) noexcept {
  const Block block = blocks_[index];
  const std::size_t whole = whole_granules(block, false);
  const std::size_t taken = bytes >= whole ? whole : round_up(bytes, rules_.granule_bytes);
  const Address end = block.address() + block.bytes();
  // Beside a hole in front, take the front: holes should meet.
  const Address begin = is_hole(block.prev) ? round_up(block.address(), rules_.granule_bytes)
                                 : round_down(end, rules_.granule_bytes) - taken;
  if (begin + taken != end) split_free(index, begin + taken);
  return begin == block.address() ? index : split_free(index, begin);
}

BlockIndex Heap::split_free(BlockIndex index, Address at) noexcept {
  const Block block = blocks_[index];
  const Block piece(at, block.address() + block.bytes() - at, block.block_class(), BlockState::kActive);
  const BlockIndex rest = link_new(piece, index, block.next);
  resize_free(index, block.block_class(), block.address(), at - block.address());
  blocks_[rest].set_last_free(block.last_free());
  insert_free(rest, block.block_class());
  return rest;
}

}  // namespace cistern
