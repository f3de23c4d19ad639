// The AVX-512 tier over tests/kernels/avx512_emulated.h, as the table kEmulatedAvx512Kernels.
#include "kernels/cpu/avx512.cpp"
