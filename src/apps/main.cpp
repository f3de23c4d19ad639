#include "apps/command.h"

int main(int argc, char** argv) { return minim::run_program(argc, argv); }
