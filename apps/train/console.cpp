#include "apps/train/console.hpp"

#include <algorithm>

#include "apps/common/table.hpp"
#include "apps/common/text.hpp"
#include "cistern/base/units.hpp"

namespace cistern::train {
namespace {

using apps::text;

// Page faults once the first epoch has made the memory present.
std::string later_page_faults(const RunResult& run) {
  if (run.epochs.size() < 2) return "-";
  std::uint64_t most = 0;
  for (std::size_t i = 1; i < run.epochs.size(); ++i) most = std::max(most, run.epochs[i].page_faults);
  return std::to_string(most);
}

}  // namespace

void print_epoch(std::ostream& out, int epoch, int epochs, std::int64_t batches, const EpochResult& result) {
  out << text(
             "Epoch %d/%d\n%lld/%lld - %.2fs - %.2fms/step - loss: %.4f - accuracy: %.4f - val_loss: %.4f - "
             "val_accuracy: %.4f",
             epoch, epochs, static_cast<long long>(batches), static_cast<long long>(batches), result.seconds,
             result.seconds / static_cast<double>(batches) * 1e3, result.loss, result.accuracy,
             result.validation_loss, result.validation_accuracy)
      << std::endl;
}

void print_report(std::ostream& out, const RunResult& run) {
  apps::print_memory(out, run.memory, "epoch");
  if (run.memory.time_share)
    out << text("time in the allocator: about %.2f %% of training\n", *run.memory.time_share * 100.0);
  out << "peak resident memory of the process: " << format_bytes(run.memory.peak_rss_bytes)
      << ", most page faults in an epoch after the first: " << later_page_faults(run) << '\n'
      << text("val_accuracy %.4f, weights sha256 ", run.validation_accuracy) << run.weights_sha256
      << std::endl;
}

void print_comparison(std::ostream& out, const std::vector<RunResult>& runs) {
  apps::Table table({"strategy", "val_accuracy", "val_loss", "s/epoch", "peak requested", "peak reserved",
                     "source calls", "after epoch 1", "page faults", "peak RSS", "weights"});
  for (const RunResult& run : runs) {
    const apps::MemoryResult* from = run.memory.memories.empty() ? nullptr : &run.memory.memories.front();
    table.add_row({run.memory.strategy, text("%.4f", run.validation_accuracy),
                   text("%.4f", run.validation_loss), text("%.3f", run.median_epoch_seconds()),
                   from ? format_bytes(from->peak_requested_bytes) : "-",
                   from ? format_bytes(from->peak_reserved_bytes) : "-",
                   from ? std::to_string(from->source_calls) : "-",
                   from ? std::to_string(from->source_calls_after_first_period) : "-", later_page_faults(run),
                   format_bytes(run.memory.peak_rss_bytes), run.weights_sha256.substr(0, 12)});
  }
  table.print(out);
  out << "On " << runs.front().memory.device
      << ". s/epoch: median, training only. page faults: the most in an epoch after the first.\n"
      << (same_weights(runs) ? "Final weights are bit-identical in all rows."
                             : "FINAL WEIGHTS DIFFER between rows.")
      << std::endl;
}

}  // namespace cistern::train
