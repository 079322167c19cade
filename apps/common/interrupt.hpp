// Ctrl-C and SIGTERM as a question that a loop asks between steps.
#pragma once

namespace cistern::apps {

/// The first SIGINT or SIGTERM is remembered, a second one ends the process at once.
void watch_for_interrupts();

/// The signal that arrived, or 0.
int pending_interrupt() noexcept;

}  // namespace cistern::apps
