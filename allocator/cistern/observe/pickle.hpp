// Python's pickles of plain data, read without Python: dictionaries, lists, tuples, texts, numbers, booleans
// and None. Whatever would make Python look up a name or call something is refused, so a pickle from anybody
// is only data.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <vector>

namespace cistern {

/// One value. Values may be shared and may even contain themselves: whoever walks them bounds the walk.
struct PickleValue {
  enum class Kind : std::uint8_t { kNone, kBool, kInteger, kFloat, kText, kList, kDictionary };
  Kind kind = Kind::kNone;
  std::int64_t integer = 0;  ///< Also of a bool. Beyond 64 bits: kFloat.
  double number = 0;
  std::string_view text;                    ///< Into the file's bytes; of bytes too.
  std::vector<const PickleValue*> items{};  ///< Of a list or tuple; of a dictionary: key, value, key, value.

  /// The value under a text key of a dictionary (the last, if there are several), or null.
  const PickleValue* find(std::string_view key) const;
};

class Pickle {
 public:
  /// Reads the whole file; `path` may be gzip. Throws FileError with the byte at which it stopped: not a
  /// pickle of protocol 2 to 5, cut off, a stack or memo that does not hold what an instruction needs, or one
  /// that builds an object.
  explicit Pickle(const std::string& path);
  Pickle(const Pickle&) = delete;
  Pickle& operator=(const Pickle&) = delete;

  const PickleValue& root() const noexcept { return *root_; }
  /// More values than this are not in it, unless shared.
  std::size_t value_count() const noexcept { return values_.size(); }

 private:
  friend class PickleReader;
  std::string bytes_;
  std::deque<PickleValue> values_;
  const PickleValue* root_ = nullptr;
};

/// Whether the file begins as pickles of protocol 2 to 5 do. Throws FileError if it cannot be read.
bool is_pickle(const std::string& path);

}  // namespace cistern
