// Addresses and stretches of them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace fake_cudart {

using Address = std::uintptr_t;

inline Address address_of(const void* pointer) {
  return reinterpret_cast<Address>(pointer);
}
inline void* pointer_to(Address address) {
  return reinterpret_cast<void*>(address);
}

struct Span {
  Address begin = 0;
  std::size_t bytes = 0;
  Address end() const { return begin + bytes; }
  bool contains(Address address) const { return address - begin < bytes; }
  bool overlaps(const Span& other) const { return begin < other.end() && other.begin < end(); }
};

std::string hexadecimal(Address address);

}  // namespace fake_cudart
