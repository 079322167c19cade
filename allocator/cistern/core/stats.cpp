#include "cistern/core/stats.hpp"

namespace cistern {

const char* rung_name(Rung rung) noexcept {
  switch (rung) {
    case Rung::kFit: return "fit";
    case Rung::kReap: return "reap";
    case Rung::kGrow: return "grow";
    case Rung::kTrim: return "trim";
    case Rung::kWait: return "wait";
    case Rung::kFail: return "fail";
  }
  return "unknown";
}

}  // namespace cistern
