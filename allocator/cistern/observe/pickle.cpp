#include "cistern/observe/pickle.hpp"

#include <array>
#include <cstring>
#include <unordered_map>

#include "cistern/observe/files.hpp"

namespace cistern {
namespace {

constexpr std::size_t kMostBytes = std::size_t{1} << 32;

// The instructions that plain data needs, by their names in Python's pickletools.
enum Opcode : unsigned char {
  kProto = 0x80,
  kFrame = 0x95,
  kStop = '.',
  kMark = '(',
  kPop = '0',
  kPopMark = '1',
  kDup = '2',
  kNone = 'N',
  kNewTrue = 0x88,
  kNewFalse = 0x89,
  kBinInt = 'J',
  kBinInt1 = 'K',
  kBinInt2 = 'M',
  kLong1 = 0x8a,
  kLong4 = 0x8b,
  kBinFloat = 'G',
  kBinUnicode = 'X',
  kShortBinUnicode = 0x8c,
  kBinUnicode8 = 0x8d,
  kBinBytes = 'B',
  kShortBinBytes = 'C',
  kBinBytes8 = 0x8e,
  kEmptyDict = '}',
  kDict = 'd',
  kSetItem = 's',
  kSetItems = 'u',
  kEmptyList = ']',
  kList = 'l',
  kAppend = 'a',
  kAppends = 'e',
  kEmptyTuple = ')',
  kTuple = 't',
  kTuple1 = 0x85,
  kTuple2 = 0x86,
  kTuple3 = 0x87,
  kBinPut = 'q',
  kLongBinPut = 'r',
  kMemoize = 0x94,
  kBinGet = 'h',
  kLongBinGet = 'j',
};

// Those that look up names, call, or ask the program for an object.
constexpr std::string_view kBuilders = "cibRoPQ\x81\x82\x83\x84\x92\x93";

std::string read_all(const std::string& path) {
  InputFile file(path);
  std::string bytes;
  std::array<char, 1 << 16> part{};
  for (std::size_t count; (count = file.read(part.data(), part.size())) > 0;) {
    if (bytes.size() + count > kMostBytes) throw FileError(path, "is larger than 4 GiB");
    bytes.append(part.data(), count);
  }
  return bytes;
}

}  // namespace

const PickleValue* PickleValue::find(std::string_view key) const {
  if (kind != Kind::kDictionary) return nullptr;
  for (std::size_t at = items.size(); at >= 2; at -= 2) {
    if (items[at - 2]->kind == Kind::kText && items[at - 2]->text == key) return items[at - 1];
  }
  return nullptr;
}

/// Python's stack machine, as far as plain data needs it.
class PickleReader {
 public:
  PickleReader(const std::string& path, Pickle& pickle) : path_(path), pickle_(pickle) {}

  void read() {
    if (pickle_.bytes_.size() < 2 || byte() != kProto) fail("is not a pickle of protocol 2 to 5");
    if (const unsigned protocol = byte(); protocol < 2 || protocol > 5) {
      fail("is a pickle of protocol " + std::to_string(protocol) + "; 2 to 5 are expected");
    }
    while (step(byte())) {
    }
    pickle_.root_ = pop();
  }

 private:
  using Kind = PickleValue::Kind;

  [[noreturn]] void fail(const std::string& what) const {
    throw FileError(path_, "byte " + std::to_string(at_) + ": " + what);
  }

  std::string_view take(std::uint64_t count) {
    if (count > pickle_.bytes_.size() - at_) fail("the pickle is cut off");
    at_ += static_cast<std::size_t>(count);
    return std::string_view(pickle_.bytes_)
        .substr(at_ - static_cast<std::size_t>(count), static_cast<std::size_t>(count));
  }
  unsigned char byte() { return static_cast<unsigned char>(take(1).front()); }
  std::uint64_t little_endian(std::size_t count) {
    std::uint64_t number = 0;
    const std::string_view bytes = take(count);
    for (std::size_t index = count; index-- > 0;)
      number = number << 8 | static_cast<unsigned char>(bytes[index]);
    return number;
  }

  PickleValue& make(Kind kind) {
    PickleValue& value = pickle_.values_.emplace_back();
    value.kind = kind;
    return value;
  }
  PickleValue& push(Kind kind) {
    PickleValue& value = make(kind);
    stack_.push_back(&value);
    return value;
  }
  void push_integer(std::int64_t number) { push(Kind::kInteger).integer = number; }
  void push_text(std::size_t length_bytes) {
    const std::string_view text = take(little_endian(length_bytes));
    push(Kind::kText).text = text;
  }

  void push_long(std::size_t length_bytes) {
    const std::uint64_t count = little_endian(length_bytes);
    const std::string_view bytes = take(count);
    const bool negative = count > 0 && (bytes.back() & 0x80) != 0;
    std::uint64_t number = negative ? ~std::uint64_t{0} : 0;
    for (std::size_t index = bytes.size(); index-- > 0;)
      number = number << 8 | static_cast<unsigned char>(bytes[index]);
    // A number without sign of 64 bits has nine bytes, the last of them 0: addresses and handles.
    if (count <= 8 || (count == 9 && bytes.back() == 0)) {
      push_integer(static_cast<std::int64_t>(number));
    } else {
      push(Kind::kFloat);
    }
  }
  void push_float() {
    std::uint64_t bits = 0;
    for (const char letter : take(8)) bits = bits << 8 | static_cast<unsigned char>(letter);
    std::memcpy(&push(Kind::kFloat).number, &bits, sizeof bits);
  }

  std::size_t base() const { return marks_.empty() ? 0 : marks_.back(); }
  PickleValue* pop() {
    if (stack_.size() <= base()) fail("an instruction finds no value on the stack");
    PickleValue* value = stack_.back();
    stack_.pop_back();
    return value;
  }
  PickleValue* top(Kind kind) {
    if (stack_.size() <= base() || stack_.back()->kind != kind)
      fail("an instruction finds another kind of value");
    return stack_.back();
  }
  std::vector<const PickleValue*> pop_to_mark() {
    if (marks_.empty()) fail("an instruction finds no mark");
    std::vector<const PickleValue*> items(stack_.begin() + static_cast<std::ptrdiff_t>(marks_.back()),
                                          stack_.end());
    stack_.resize(marks_.back());
    marks_.pop_back();
    return items;
  }
  std::vector<const PickleValue*> pop_some(std::size_t count) {
    std::vector<const PickleValue*> items(count);
    while (count-- > 0) items[count] = pop();
    return items;
  }
  void push_items(Kind kind, std::vector<const PickleValue*> items) {
    if (kind == Kind::kDictionary && items.size() % 2 != 0) fail("a key has no value");
    push(kind).items = std::move(items);
  }
  void extend(Kind kind, const std::vector<const PickleValue*>& items) {
    if (kind == Kind::kDictionary && items.size() % 2 != 0) fail("a key has no value");
    PickleValue* container = top(kind);
    container->items.insert(container->items.end(), items.begin(), items.end());
  }

  void put(std::uint64_t number) {
    if (stack_.size() <= base()) fail("an instruction finds no value on the stack");
    memo_[number] = stack_.back();
  }
  void get(std::uint64_t number) {
    const auto found = memo_.find(number);
    if (found == memo_.end()) fail("an instruction names a value that was not kept");
    stack_.push_back(found->second);
  }

  /// False: the end.
  bool step(unsigned char opcode) {
    if (scalar(opcode) || container(opcode) || memory(opcode)) return true;
    if (opcode == kStop) return false;
    if (kBuilders.find(static_cast<char>(opcode)) != std::string_view::npos) {
      fail("wants to build an object of a class, or to call something: not plain data");
    }
    fail("unknown instruction " + std::to_string(opcode));
  }

  bool scalar(unsigned char opcode) {
    switch (opcode) {
      case kNone:
        push(Kind::kNone);
        return true;
      case kNewTrue:
        push(Kind::kBool).integer = 1;
        return true;
      case kNewFalse:
        push(Kind::kBool);
        return true;
      case kBinInt:
        push_integer(static_cast<std::int32_t>(little_endian(4)));
        return true;
      case kBinInt1:
        push_integer(byte());
        return true;
      case kBinInt2:
        push_integer(static_cast<std::int64_t>(little_endian(2)));
        return true;
      case kLong1:
        push_long(1);
        return true;
      case kLong4:
        push_long(4);
        return true;
      case kBinFloat:
        push_float();
        return true;
      case kShortBinUnicode:
      case kShortBinBytes:
        push_text(1);
        return true;
      case kBinUnicode:
      case kBinBytes:
        push_text(4);
        return true;
      case kBinUnicode8:
      case kBinBytes8:
        push_text(8);
        return true;
      default:
        return false;
    }
  }

  bool container(unsigned char opcode) {
    switch (opcode) {
      case kEmptyDict:
        push(Kind::kDictionary);
        return true;
      case kEmptyList:
      case kEmptyTuple:
        push(Kind::kList);
        return true;
      case kDict:
        push_items(Kind::kDictionary, pop_to_mark());
        return true;
      case kList:
      case kTuple:
        push_items(Kind::kList, pop_to_mark());
        return true;
      case kTuple1:
        push_items(Kind::kList, pop_some(1));
        return true;
      case kTuple2:
        push_items(Kind::kList, pop_some(2));
        return true;
      case kTuple3:
        push_items(Kind::kList, pop_some(3));
        return true;
      case kSetItem:
        extend(Kind::kDictionary, pop_some(2));
        return true;
      case kSetItems:
        extend(Kind::kDictionary, pop_to_mark());
        return true;
      case kAppend:
        extend(Kind::kList, pop_some(1));
        return true;
      case kAppends:
        extend(Kind::kList, pop_to_mark());
        return true;
      default:
        return false;
    }
  }

  bool memory(unsigned char opcode) {
    switch (opcode) {
      case kFrame:
        little_endian(8);
        return true;  // how far to read ahead: all is here
      case kMark:
        marks_.push_back(stack_.size());
        return true;
      case kPop:
        marks_.empty() || stack_.size() > marks_.back() ? static_cast<void>(pop()) : marks_.pop_back();
        return true;
      case kPopMark:
        pop_to_mark();
        return true;
      case kDup:
        stack_.push_back(pop());
        stack_.push_back(stack_.back());
        return true;
      case kBinPut:
        put(byte());
        return true;
      case kLongBinPut:
        put(little_endian(4));
        return true;
      case kMemoize:
        put(memo_.size());
        return true;
      case kBinGet:
        get(byte());
        return true;
      case kLongBinGet:
        get(little_endian(4));
        return true;
      default:
        return false;
    }
  }

  const std::string& path_;
  Pickle& pickle_;
  std::size_t at_ = 0;
  std::vector<PickleValue*> stack_;
  std::vector<std::size_t> marks_;
  std::unordered_map<std::uint64_t, PickleValue*> memo_;
};

Pickle::Pickle(const std::string& path) : bytes_(read_all(path)) {
  PickleReader(path, *this).read();
}

bool is_pickle(const std::string& path) {
  InputFile file(path);
  std::array<unsigned char, 2> head{};
  return file.read(head.data(), head.size()) == head.size() && head[0] == kProto && head[1] >= 2 &&
         head[1] <= 5;
}

}  // namespace cistern
