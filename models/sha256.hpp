// SHA-256 (FIPS 180-4), for naming weights and for noticing a damaged checkpoint.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

namespace cistern::models {

class Sha256 {
 public:
  void update(const void* data, std::size_t bytes);
  /// 64 lower-case hexadecimal digits. Ends the message: call once.
  std::string finish();

 private:
  void compress(const std::uint8_t* block);

  std::array<std::uint32_t, 8> state_{0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                      0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  std::array<std::uint8_t, 64> pending_{};
  std::size_t pending_bytes_ = 0;
  std::uint64_t message_bytes_ = 0;
};

}  // namespace cistern::models
