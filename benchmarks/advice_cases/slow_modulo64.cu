// Remainders of 64 bits, or of 32.
#if PLANTED
typedef unsigned long long word;
#else
typedef unsigned word;
#endif
__global__ void hash(unsigned* out, const unsigned* in, int n, int buckets)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    word h = in[i];
    unsigned sum = 0;
#pragma unroll 1
    for (int k = 0; k < 32; ++k) {
        h = h * 2654435761u + k;
#if PLANTED
        sum += (unsigned)(h % (word)buckets);  // FAULT
#else
        sum += h & (buckets - 1);
#endif
    }
    out[i] = sum;
}
