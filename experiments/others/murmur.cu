// Murmur hashes of keys of 16 bytes, whose words lie together or apart.
__global__ void murmur(unsigned *hash, const unsigned *keys, unsigned seed, int n)
{
#pragma unroll
    for (int k = 0; k < items; k++) {
        int i = (blockIdx.x * items + k) * threads + threadIdx.x;
        if (i >= n) return;
        unsigned h = seed;
#pragma unroll
        for (int word = 0; word < 4; word++) {
            unsigned w = (apart ? keys[word * n + i] : keys[4 * i + word]) * 0xcc9e2d51u;
            w = (w << 15 | w >> 17) * 0x1b873593u;
            h ^= w;
            h = (h << 13 | h >> 19) * 5u + 0xe6546b64u;
        }
        h = (h ^ 16u ^ (h ^ 16u) >> 16) * 0x85ebca6bu;
        h = (h ^ h >> 13) * 0xc2b2ae35u;
        hash[i] = h ^ h >> 16;
    }
}
