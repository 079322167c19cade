// Opaque handles for objects. A handle that was freed is the next one given out, as drivers do: who takes a
// handle for an identity is caught.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

namespace fake_cudart {

template <class Handle, class Object>
class HandleTable {
 public:
  explicit HandleTable(std::uintptr_t base) : base_(base) {}

  Handle insert(Object object) {
    std::size_t index = slots_.size();
    if (free_.empty()) {
      slots_.emplace_back();
    } else {
      index = free_.back();
      free_.pop_back();
    }
    slots_[index] = {std::move(object), true};
    return reinterpret_cast<Handle>(base_ + kStride * (index + 1));
  }

  /// Null if the handle is none of ours, or was freed.
  Object* find(Handle handle) {
    const std::uintptr_t distance = reinterpret_cast<std::uintptr_t>(handle) - base_;
    const std::size_t index = distance / kStride - 1;
    if (distance % kStride != 0 || index >= slots_.size() || !slots_[index].used) return nullptr;
    return &slots_[index].object;
  }

  void erase(Handle handle) {
    const std::size_t index = (reinterpret_cast<std::uintptr_t>(handle) - base_) / kStride - 1;
    slots_[index] = {};
    free_.push_back(index);
  }

  void clear() {
    slots_.clear();
    free_.clear();
  }

  std::size_t size() const { return slots_.size() - free_.size(); }

  template <class Visit>
  void for_each(Visit visit) {
    for (Slot& slot : slots_) {
      if (slot.used) visit(slot.object);
    }
  }

 private:
  static constexpr std::uintptr_t kStride = 64;
  struct Slot {
    Object object{};
    bool used = false;
  };
  std::uintptr_t base_;
  std::vector<Slot> slots_;
  std::vector<std::size_t> free_;
};

}  // namespace fake_cudart
