#include "cistern/core/failure.hpp"

#include "cistern/base/units.hpp"
#include "cistern/core/budget.hpp"

namespace cistern {
namespace {

std::string limit_text(std::size_t bytes) { return bytes == kNoLimit ? "none" : format_bytes(bytes); }

std::string line(const char* label, const std::string& text) {
  std::string out = "  ";
  out += label;
  out.resize(20, ' ');
  return out + text + "\n";
}

std::string advice(const Failure& failure) {
  if (failure.code == FailureCode::kLimit && failure.sufficient_limit_bytes != 0) {
    return "a limit of " + format_bytes(failure.sufficient_limit_bytes) + " would have served this request";
  }
  if (failure.code == FailureCode::kInUse) {
    return "the least limit possible now is " + format_bytes(failure.sufficient_limit_bytes);
  }
  if (failure.code == FailureCode::kTooLarge) return "ask for less: no limit and no trimming can help";
  if (failure.code == FailureCode::kBookkeeping) return "free host memory";
  if (failure.free_bytes >= failure.asked_bytes) {
    return "enough is free, but in pieces: free large neighbours first, or ask in smaller pieces";
  }
  return "free some of the holders above, or ask for less at a time (a smaller batch)";
}

}  // namespace

std::string Failure::cause() const {
  const std::string asked = format_bytes(asked_bytes);
  switch (code) {
    case FailureCode::kLimit:
      return "the limit of " + limit_text(limit_bytes) + " leaves no room for " + format_bytes(need_bytes) + " more";
    case FailureCode::kSourceRefused:
      return "the " + source + " memory has no " + format_bytes(need_bytes) + " left to give";
    case FailureCode::kTooLarge:
      return asked + " is more than the device has in all (" + format_bytes(capacity_bytes) + ")";
    case FailureCode::kBookkeeping:
      return "the host has no memory for the allocator's own tables";
    case FailureCode::kInUse:
      return "a limit of " + asked + " is below what is in use";
  }
  return "unknown";
}

std::string Failure::explain() const {
  std::string text = "cistern: out of memory on device " + std::to_string(device.value) + " (" + source +
                     "): " + cause() + ".\n";
  if (code == FailureCode::kInUse) text = "cistern: limit not changed: " + cause() + ".\n";
  text += line(code == FailureCode::kInUse ? "limit asked" : "asked",
               format_bytes(asked_bytes) + " (" + std::to_string(asked_bytes) + " bytes)");
  if (code != FailureCode::kInUse) text += line("largest free", format_bytes(largest_free_bytes));
  text += line("reserved", format_bytes(reserved_bytes) + " (in use " + format_bytes(active_bytes - pending_bytes) +
                               ", waiting for streams " + format_bytes(pending_bytes) + ", free " +
                               format_bytes(free_bytes) + ")");
  text += line("limit", limit_text(limit_bytes) + ", device capacity " + format_bytes(capacity_bytes));
  std::string rungs;
  for (std::size_t rung = 0; rung < kRungCount; ++rung) {
    if (!tried[rung]) continue;
    if (!rungs.empty()) rungs += ", ";
    rungs += rung_name(static_cast<Rung>(rung));
  }
  if (!rungs.empty()) text += line("tried", rungs);
  if (!holders.empty()) text += "  largest holders:\n";
  for (const Holder& holder : holders) {
    std::string sizes = format_bytes(holder.smallest_bytes);
    if (holder.largest_bytes != holder.smallest_bytes) sizes += " to " + format_bytes(holder.largest_bytes);
    text += "    " + format_bytes(holder.bytes) + " in " + std::to_string(holder.count) +
            (holder.count == 1 ? " block of " : " blocks of ") + sizes + "\n";
  }
  return text + line("what would help", advice(*this));
}

}  // namespace cistern
