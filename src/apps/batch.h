// minim run --batch: many prompts from a file, answered side by side.
#pragma once

#include "apps/arguments.h"

namespace minim {

// Flags that have no meaning together with --batch, or without it. The error is one of usage.
Result<Ok> check_batch_flags(const Arguments& arguments);

// The exit code. The flags were checked.
int batch_command(const Arguments& arguments);

}  // namespace minim
