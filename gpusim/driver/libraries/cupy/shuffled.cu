// Body of an elementwise kernel: where number i goes.
const unsigned left_mask = (1ull << left_bits) - 1, right_mask = (1ull << right_bits) - 1;
unsigned long long value = i;
do {
    unsigned left = value >> right_bits, right = value & right_mask;
    for (unsigned round = 0; round < rounds; ++round) {
        const unsigned long long product = 0xD2B74407B1CE6E93ull * left;
        left = (unsigned(product >> 32) ^ keys[round] ^ right) & left_mask;
        right = (unsigned(product) << (right_bits - left_bits) | right >> left_bits) & right_mask;
    }
    value = (unsigned long long)left << right_bits | right;
} while (value >= count);
out = value;
