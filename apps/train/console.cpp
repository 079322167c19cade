#include "apps/train/console.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstdarg>
#include <cstdio>
#include <iostream>

#include "apps/common/table.hpp"
#include "cistern/base/units.hpp"

namespace cistern::train {
namespace {

constexpr double kRedrawSeconds = 0.1;
constexpr int kBarWidth = 30;

__attribute__((format(printf, 1, 2))) std::string text(const char* format, ...) {
  char buffer[256];
  std::va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(buffer, sizeof buffer, format, arguments);
  va_end(arguments);
  return buffer;
}

// Page faults once the first epoch has made the memory present.
std::string later_page_faults(const RunResult& run) {
  if (run.epochs.size() < 2) return "-";
  std::uint64_t most = 0;
  for (std::size_t i = 1; i < run.epochs.size(); ++i) most = std::max(most, run.epochs[i].page_faults);
  return std::to_string(most);
}

// Two columns a memory: what is there now, and the most there was.
void print_memories(std::ostream& out, const std::vector<MemoryResult>& memories) {
  std::vector<std::string> header{""}, requested{"requested"}, allocated{"allocated"}, reserved{"reserved"},
      limit{"limit"}, calls{"source calls"};
  const auto add = [](std::vector<std::string>& row, const std::string& now, const std::string& peak) {
    row.insert(row.end(), {now, peak});
  };
  for (const MemoryResult& memory : memories) {
    add(header, memory.name + " now", "peak");
    add(requested, format_bytes(memory.requested_bytes), format_bytes(memory.peak_requested_bytes));
    add(allocated, format_bytes(memory.allocated_bytes), format_bytes(memory.peak_allocated_bytes));
    add(reserved, format_bytes(memory.reserved_bytes), format_bytes(memory.peak_reserved_bytes));
    add(limit, memory.limit_bytes ? format_bytes(*memory.limit_bytes) : "none", "");
    add(calls, std::to_string(memory.source_calls), "");
  }
  apps::Table table(header);
  for (const auto& row : {requested, allocated, reserved, limit, calls}) table.add_row(row);
  table.print(out);
}

}  // namespace

ProgressBar::ProgressBar(std::int64_t batches) : visible_(isatty(STDERR_FILENO) == 1), batches_(batches) {}

bool ProgressBar::due() const {
  return visible_ && watch_.seconds() >= next_draw_;
}

void ProgressBar::draw(std::int64_t batches_done, const RunningMeans& means) {
  next_draw_ = watch_.seconds() + kRedrawSeconds;
  const auto filled = static_cast<std::size_t>(kBarWidth * batches_done / batches_);
  const double left =
      watch_.seconds() / static_cast<double>(batches_done) * static_cast<double>(batches_ - batches_done);
  const std::string bar = std::string(filled, '=') + '>' + std::string(kBarWidth - filled, '.');
  std::cerr << text("\r%lld/%lld [%s] - ETA: %.0fs - loss: %.4f - accuracy: %.4f ",
                    static_cast<long long>(batches_done), static_cast<long long>(batches_), bar.c_str(), left,
                    means.loss, means.accuracy)
            << std::flush;
}

void ProgressBar::erase() {
  if (visible_) std::cerr << "\r\033[K" << std::flush;
}

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
  out << "\nMemory under strategy " << run.strategy << '\n';
  if (run.memories.empty()) {
    out << "torch's own allocator keeps no statistics of the CPU\n";
  } else {
    print_memories(out, run.memories);
    const MemoryResult& trained_on = run.memories.front();
    out << "source calls of " << trained_on.name
        << " after the first epoch: " << trained_on.source_calls_after_first_epoch
        << "\nallocations: " << trained_on.allocations;
    if (run.served_by_rung) {
      out << ", served by";
      for (const auto& [rung, count] : *run.served_by_rung) out << ' ' << rung << ' ' << count;
    }
    out << '\n';
  }
  if (run.time_share)
    out << text("time in the allocator: about %.2f %% of training\n", *run.time_share * 100.0);
  out << "peak resident memory of the process: " << format_bytes(run.peak_rss_bytes)
      << ", most page faults in an epoch after the first: " << later_page_faults(run) << '\n'
      << text("val_accuracy %.4f, weights sha256 ", run.validation_accuracy) << run.weights_sha256
      << std::endl;
}

void print_comparison(std::ostream& out, const std::vector<RunResult>& runs) {
  apps::Table table({"strategy", "val_accuracy", "val_loss", "s/epoch", "peak requested", "peak reserved",
                     "source calls", "after epoch 1", "page faults", "peak RSS", "weights"});
  for (const RunResult& run : runs) {
    const MemoryResult* from = run.memories.empty() ? nullptr : &run.memories.front();
    table.add_row({run.strategy, text("%.4f", run.validation_accuracy), text("%.4f", run.validation_loss),
                   text("%.3f", run.median_epoch_seconds()),
                   from ? format_bytes(from->peak_requested_bytes) : "-",
                   from ? format_bytes(from->peak_reserved_bytes) : "-",
                   from ? std::to_string(from->source_calls) : "-",
                   from ? std::to_string(from->source_calls_after_first_epoch) : "-", later_page_faults(run),
                   format_bytes(run.peak_rss_bytes), run.weights_sha256.substr(0, 12)});
  }
  table.print(out);
  out << "On " << runs.front().device
      << ". s/epoch: median, training only. page faults: the most in an epoch after the first.\n"
      << (same_weights(runs) ? "Final weights are bit-identical in all rows."
                             : "FINAL WEIGHTS DIFFER between rows.")
      << std::endl;
}

}  // namespace cistern::train
