// Everything that is written from the option and command tables.
#pragma once

#include <string>

#include "apps/command.h"

namespace minim {

std::string program_help();
std::string command_help(const Command& command);

// docs/cli.md, packaging/minim.1 and packaging/minim.bash; the files must equal this text.
std::string markdown_reference();
std::string man_page();
std::string bash_completion();

}  // namespace minim
