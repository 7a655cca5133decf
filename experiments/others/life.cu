// A step of Conway's game of life, 32 cells a word; what lies outside is dead. A thread makes `rows` words.
__global__ void life(unsigned *out, const unsigned *in, int words, int height)
{
    const int x = blockIdx.x * block_x + threadIdx.x, y0 = (blockIdx.y * block_y + threadIdx.y) * rows;
    if (x >= words) return;
    unsigned ones[3], twos[3];  // of each row, how many of the three cells around each live
    unsigned alive[3];
    for (int y = y0 - 1; y <= y0 + rows; y++) {
        unsigned left = 0, here = 0, right = 0;
        if (y >= 0 && y < height) {
            const unsigned *row = in + (size_t)y * words + x;
            here = row[0];
            left = x > 0 ? row[-1] : 0;
            right = x + 1 < words ? row[1] : 0;
        }
        const unsigned before = here << 1 | left >> 31, after = here >> 1 | right << 31;
        ones[0] = ones[1], twos[0] = twos[1], alive[0] = alive[1];
        ones[1] = ones[2], twos[1] = twos[2], alive[1] = alive[2];
        ones[2] = before ^ here ^ after, twos[2] = before & here | here & after | before & after, alive[2] = here;
        if (y < y0 + 1 || y > height) continue;
        // the sum of nine cells: ones count 1, twos count 2
        const unsigned one = ones[0] ^ ones[1] ^ ones[2];
        const unsigned carry = ones[0] & ones[1] | ones[1] & ones[2] | ones[0] & ones[2];
        const unsigned two = twos[0] ^ twos[1] ^ twos[2] ^ carry;
        const unsigned any = twos[0] | twos[1] | twos[2] | carry;
        const unsigned pairs = twos[0] & twos[1] | twos[1] & twos[2] | twos[0] & twos[2] | carry & (twos[0] | twos[1] | twos[2]);
        const unsigned three = one & any & ~pairs, four = ~one & ~two & pairs & ~(twos[0] & twos[1] & twos[2] & carry);
        if (y <= height) out[(size_t)(y - 1) * words + x] = three | alive[1] & four;
    }
}
