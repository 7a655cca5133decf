// Eight rounds of MurmurHash3's finalizer on each key.
__device__ unsigned mixed(unsigned h)
{
#pragma unroll
    for (int i = 0; i < 8; i++) {
        h ^= h >> 16;
        h *= 0x85ebca6bu;
        h ^= h >> 13;
        h *= 0xc2b2ae35u;
        h ^= h >> 16;
    }
    return h;
}

__global__ void hashes(unsigned *out, const unsigned *keys, int n)
{
    const int first = blockIdx.x * threads * items + threadIdx.x * (together ? items : 1);
#pragma unroll
    for (int k = 0; k < items; k++) {
        const int i = first + k * (together ? 1 : threads);
        if (i < n) out[i] = mixed(keys[i]);
    }
}
