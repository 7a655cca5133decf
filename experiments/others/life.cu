// A step of the game of life on a torus, 32 cells a word, `rows` words a thread; neighbours are added bit by bit.
__device__ void add(unsigned &ones, unsigned &twos, unsigned &fours, unsigned bits)
{
    unsigned carry = ones & bits;
    ones ^= bits;
    fours |= twos & carry;
    twos ^= carry;
}

__global__ void life(unsigned *out, const unsigned *in, int words, int height)
{
    int x = blockIdx.x * block_x + threadIdx.x, first = (blockIdx.y * block_y + threadIdx.y) * rows;
    if (x >= words) return;
    int left = x ? x - 1 : words - 1, right = x + 1 < words ? x + 1 : 0;
    for (int y = first; y < min(first + rows, height); y++) {
        unsigned ones = 0, twos = 0, fours = 0, self = in[(size_t)y * words + x];
#pragma unroll
        for (int d = -1; d <= 1; d++) {
            const unsigned *row = in + (size_t)(y + d < 0 ? height - 1 : y + d < height ? y + d : 0) * words;
            unsigned centre = row[x];
            add(ones, twos, fours, centre << 1 | row[left] >> 31);
            add(ones, twos, fours, centre >> 1 | row[right] << 31);
            if (d) add(ones, twos, fours, centre);
        }
        out[(size_t)y * words + x] = twos & ~fours & (ones | self);
    }
}
