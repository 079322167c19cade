// What a program says about memory: the one header most users need besides that of a plug.
#pragma once

#include "cistern/adapters/memory.hpp"
#include "cistern/adapters/scoped_pool.hpp"
