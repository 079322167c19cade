#include "apps/common/interrupt.hpp"

#include <csignal>

namespace cistern::apps {
namespace {

volatile std::sig_atomic_t interrupt = 0;

void remember(int signal) {
  interrupt = signal;
}

}  // namespace

void watch_for_interrupts() {
  struct sigaction action {};
  action.sa_handler = remember;
  action.sa_flags = SA_RESETHAND | SA_RESTART;
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
}

int pending_interrupt() noexcept {
  return interrupt;
}

}  // namespace cistern::apps
