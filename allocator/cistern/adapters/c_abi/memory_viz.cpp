#include "cistern/adapters/c_abi/memory_viz.hpp"

#include <algorithm>
#include <cstdint>
#include <string_view>
#include <utility>

namespace cistern {
namespace {

/// Writes pickles of protocol 2. Containers are opened, filled and closed; the reader's stack keeps the order.
class Pickle {
 public:
  Pickle() { text_ = "\x80\x02"; }

  Pickle& string(std::string_view value) {
    text_ += 'X';
    little_endian(value.size(), 4);
    text_ += value;
    return *this;
  }
  Pickle& number(std::uint64_t value) {
    text_ += '\x8a';  // LONG1: how many bytes, then two's complement, so that one more keeps the sign.
    text_ += '\x09';
    little_endian(value, 8);
    text_ += '\0';
    return *this;
  }
  Pickle& boolean(bool value) { return put(value ? '\x88' : '\x89'); }
  Pickle& minus_one() {
    text_ += 'J';
    little_endian(~std::uint64_t{0}, 4);
    return *this;
  }
  Pickle& begin_list() { return put(']').put('('); }
  Pickle& end_list() { return put('e'); }
  Pickle& begin_dict() { return put('}').put('('); }
  Pickle& end_dict() { return put('u'); }
  Pickle& empty_list() { return put(']'); }
  Pickle& empty_dict() { return put('}'); }
  Pickle& pair_of_zeros() { return number(0).number(0).put('\x86'); }
  std::string finish() && {
    put('.');
    return std::move(text_);
  }

 private:
  Pickle& put(char opcode) {
    text_ += opcode;
    return *this;
  }
  void little_endian(std::uint64_t value, int byte_count) {
    for (int i = 0; i < byte_count; ++i) text_ += static_cast<char>(value >> (8 * i));
  }

  std::string text_;
};

const char* state_name(BlockState state) {
  switch (state) {
    case BlockState::kActive:
      return "active_allocated";
    case BlockState::kPending:
      return "active_pending_free";
    default:
      return "inactive";
  }
}

using Blocks = std::vector<BlockInfo>::const_iterator;

void write_segment(Pickle& pickle, const RangeInfo& range, Blocks begin, Blocks end, int device_index) {
  std::uint64_t total = 0, allocated = 0, active = 0, requested = 0;
  for (Blocks block = begin; block != end; ++block) {
    const bool granted = block->state == BlockState::kActive;
    total += block->bytes;
    if (granted) allocated += block->bytes, requested += block->requested_bytes;
    if (granted || block->state == BlockState::kPending) active += block->bytes;
  }
  pickle.begin_dict();
  pickle.string("device").number(static_cast<std::uint64_t>(device_index));
  pickle.string("address").number(begin->address);
  pickle.string("total_size").number(total);
  pickle.string("allocated_size").number(allocated);
  pickle.string("active_size").number(active);
  pickle.string("requested_size").number(requested);
  pickle.string("stream").number(range.stream.value);
  pickle.string("segment_type").string(range.small ? "small" : "large");
  pickle.string("segment_pool_id").pair_of_zeros();
  pickle.string("is_expandable").boolean(true);
  pickle.string("frames").empty_list();
  pickle.string("blocks").begin_list();
  for (Blocks block = begin; block != end; ++block) {
    pickle.begin_dict();
    pickle.string("address").number(block->address);
    pickle.string("size").number(block->bytes);
    pickle.string("requested_size").number(block->state == BlockState::kActive ? block->requested_bytes : 0);
    pickle.string("state").string(state_name(block->state));
    pickle.string("frames").empty_list();
    pickle.end_dict();
  }
  pickle.end_list().end_dict();
}

}  // namespace

std::string pickle_for_memory_viz(const std::vector<RangeInfo>& ranges, int device_index) {
  const auto is_hole = [](const BlockInfo& block) { return block.state == BlockState::kHole; };
  Pickle pickle;
  pickle.begin_dict();
  pickle.string("segments").begin_list();
  for (const RangeInfo& range : ranges) {
    const Blocks end = range.blocks.end();
    for (Blocks begin = std::find_if_not(range.blocks.begin(), end, is_hole); begin != end;) {
      const Blocks hole = std::find_if(begin, end, is_hole);
      write_segment(pickle, range, begin, hole, device_index);
      begin = std::find_if_not(hole, end, is_hole);
    }
  }
  pickle.end_list();
  pickle.string("device_traces").begin_list();
  for (int device = 0; device <= device_index; ++device) pickle.empty_list();
  pickle.end_list();
  pickle.string("external_annotations").empty_list();
  pickle.string("allocator_settings").begin_dict();
  pickle.string("PYTORCH_CUDA_ALLOC_CONF").string("");
  pickle.string("max_split_size").minus_one();
  pickle.string("garbage_collection_threshold").number(0);
  pickle.string("expandable_segments").boolean(true);
  pickle.string("pinned_num_register_threads").number(0);
  pickle.string("release_lock_on_cudamalloc").boolean(false);
  pickle.string("pinned_use_cuda_host_register").boolean(false);
  pickle.string("roundup_power2_divisions").empty_dict();
  pickle.end_dict().end_dict();
  return std::move(pickle).finish();
}

}  // namespace cistern
