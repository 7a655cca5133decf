// What a launch has left as it was: the first byte that differs, and the number of elements that do not; see untouched.py.
extern "C" __global__ void first_difference(
    const unsigned char* got, const unsigned char* before, unsigned long long bytes, unsigned long long* first)
{
    const unsigned long long stride = gridDim.x * (unsigned long long)blockDim.x, words = bytes / 16;
    const unsigned long long own = blockIdx.x * (unsigned long long)blockDim.x + threadIdx.x;
    const uint4 *x = reinterpret_cast<const uint4*>(got), *y = reinterpret_cast<const uint4*>(before);
    for (unsigned long long i = own; i < words; i += stride) {
        const uint4 a = x[i], b = y[i];
        if (a.x == b.x && a.y == b.y && a.z == b.z && a.w == b.w) continue;
        unsigned long long at = 16 * i;
        while (got[at] == before[at]) ++at;
        atomicMin(first, at);
        break;
    }
    const unsigned long long last = 16 * words + own;
    if (last < bytes && got[last] != before[last]) atomicMin(first, last);
}

template <typename T>
__device__ void count_equal(const T* got, const T* before, unsigned long long elements, unsigned long long* count)
{
    const unsigned long long stride = gridDim.x * (unsigned long long)blockDim.x;
    unsigned own = 0;
    for (unsigned long long i = blockIdx.x * (unsigned long long)blockDim.x + threadIdx.x; i < elements; i += stride)
        own += got[i] == before[i];
    if (own) atomicAdd(count, (unsigned long long)own);
}

struct alignas(16) wide {
    unsigned long long low, high;
    __device__ bool operator==(const wide& other) const { return low == other.low && high == other.high; }
};

#define ENTRY(name, T) extern "C" __global__ void name(const T* g, const T* b, unsigned long long n, \
    unsigned long long* c) { count_equal(g, b, n, c); }
ENTRY(count_equal_1, unsigned char)
ENTRY(count_equal_2, unsigned short)
ENTRY(count_equal_4, unsigned)
ENTRY(count_equal_8, unsigned long long)
ENTRY(count_equal_16, wide)
