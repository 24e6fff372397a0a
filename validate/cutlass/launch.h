// What all products share: placeholder addresses of arrays, for which the launch is searched afterwards.
#pragma once
#include <cstdio>
#include <cstdlib>

inline void* placeholder(long number) { return reinterpret_cast<void*>(0x7a0000000000 + number * 0x100000000); }
