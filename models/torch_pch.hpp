// The one precompiled header of models, apps and the torch tests: torch/torch.h costs 17-30 s a translation
// unit.
#pragma once

#include <torch/torch.h>
