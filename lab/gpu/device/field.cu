// What a survey needs on the device besides the kernels that it times: inputs, a float64 reference, a comparison. Lines
// before this one define REAL, the type of the elements or of their parts, PARTS, 2 where they are complex, and
// WIDENED, the type that a REAL becomes in arithmetic.
#if PARTS == 2
typedef double2 Wide;
static __device__ Wide wide(const REAL* x) { return make_double2(x[0], x[1]); }
static __device__ void multiply_add(Wide& sum, Wide a, Wide b)
{
    sum.x += a.x * b.x - a.y * b.y;
    sum.y += a.x * b.y + a.y * b.x;
}
#else
typedef double Wide;
static __device__ Wide wide(const REAL* x) { return static_cast<double>(static_cast<WIDENED>(*x)); }
static __device__ void multiply_add(Wide& sum, Wide a, Wide b) { sum += a * b; }
#endif

// All bits of a number are set, as before a launch.
static __device__ bool untouched(const REAL* x)
{
    bool set = true;
    for (int byte = 0; byte < sizeof(REAL); ++byte) set &= reinterpret_cast<const unsigned char*>(x)[byte] == 0xff;
    return set;
}

// Standard normal numbers, each from its own index, which float holds: Box and Muller's transform of a hash (Steele, Lea and Flood's
// SplitMix64, "Fast splittable pseudorandom number generators", 2014).
extern "C" __global__ void fill_normal(REAL* to, long long count, unsigned long long seed)
{
    const long long stride = gridDim.x * (long long)blockDim.x;
    for (long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x; i < count * PARTS; i += stride) {
        unsigned long long z = (i + 1) * 0x9e3779b97f4a7c15ull + seed * 0xd1342543de82ef95ull;
        z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
        z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
        z ^= z >> 31;
        const float radius = ((unsigned)z + 1.0f) * 0x1p-32f, angle = (unsigned)(z >> 32) * 0x1p-31f;
        to[i] = static_cast<REAL>(sqrtf(-2.0f * logf(fminf(radius, 1.0f))) * cospif(angle));
    }
}

// Euclidean norms of vectors of X, each summed by one block: vector v has the elements X[v * apart + p * step], p < k.
extern "C" __global__ void norms(const REAL* X, long long apart, long long step, int k, double* to)
{
    __shared__ double part[256];
    const REAL* own = X + blockIdx.x * apart * PARTS;
    double sum = 0;
    for (long long p = threadIdx.x; p < k; p += 256)
        for (int part = 0; part < PARTS; ++part) {
            const double x = static_cast<WIDENED>(own[p * step * PARTS + part]);
            sum += x * x;
        }
    part[threadIdx.x] = sum;
    for (int half = 128; half; half /= 2) {
        __syncthreads();
        if (threadIdx.x < half) part[threadIdx.x] += part[threadIdx.x + half];
    }
    if (threadIdx.x == 0) to[blockIdx.x] = sqrt(part[0]);
}

// op(A) op(B) in float64: a block of 256 threads makes 64 x 64 elements. op(A)[i, p] is A[i * ai + p * ap], and so on.
extern "C" __global__ void __launch_bounds__(256)
reference(int m, int n, int k, const REAL* A, long long ai, long long ap, const REAL* B, long long bp, long long bj, Wide* to)
{
    __shared__ Wide As[16][65], Bs[16][65];
    const int t = threadIdx.x, x = t % 16, y = t / 16, tiles = (m + 63) / 64;
    const int i0 = blockIdx.x % tiles * 64, j0 = blockIdx.x / tiles * 64;
    Wide sum[4][4] = {};
    for (int p0 = 0; p0 < k; p0 += 16) {
        for (int e = t; e < 16 * 64; e += 256) {
            // neighbouring threads read along whichever direction is contiguous
            const int pa = ap == 1 ? e % 16 : e / 64, i = ap == 1 ? e / 16 : e % 64;
            const int pb = bp == 1 ? e % 16 : e / 64, j = bp == 1 ? e / 16 : e % 64;
            As[pa][i] = p0 + pa < k && i0 + i < m ? wide(A + ((i0 + i) * ai + (p0 + pa) * ap) * PARTS) : Wide{};
            Bs[pb][j] = p0 + pb < k && j0 + j < n ? wide(B + ((p0 + pb) * bp + (j0 + j) * bj) * PARTS) : Wide{};
        }
        __syncthreads();
#pragma unroll 4
        for (int p = 0; p < 16; ++p)
#pragma unroll
            for (int c = 0; c < 4; ++c)
#pragma unroll
                for (int r = 0; r < 4; ++r) multiply_add(sum[c][r], As[p][x + 16 * r], Bs[p][y + 16 * c]);
        __syncthreads();
    }
    for (int c = 0; c < 4; ++c)
        for (int r = 0; r < 4; ++r) {
            const int i = i0 + x + 16 * r, j = j0 + y + 16 * c;
            if (i < m && j < n) to[i + (long long)j * m] = sum[c][r];
        }
}

// The largest |C - values| / (of_scale x norm of the row x norm of the column + of_value |values| + least) of all numbers,
// as the bit pattern of a double, over the members of a batch, which lie one behind another; infinity where one of the `guard`
// elements behind C is not as it was left, with all bits set.
extern "C" __global__ void compare(const REAL* C, const double* values, const double* rows, const double* columns, int m,
                                   int n, int batch, int guard, double of_scale, double of_value, double least,
                                   unsigned long long* worst)
{
    const double infinity = __longlong_as_double(0x7ff0000000000000ll);
    const long long of_member = (long long)m * n, count = of_member * batch, stride = gridDim.x * (long long)blockDim.x;
    unsigned long long most = 0;
    for (long long at = blockIdx.x * (long long)blockDim.x + threadIdx.x; at < (count + guard) * PARTS; at += stride) {
        const long long e = at / PARTS;
        double error;
        if (e < count) {
            const double bound = of_scale * rows[e / of_member * m + e % m] * columns[e / m] + of_value * fabs(values[at]) + least;
            error = fabs(static_cast<WIDENED>(C[at]) - values[at]) / (bound + 1e-300);
        } else {
            error = untouched(C + at) ? 0.0 : infinity;
        }
        const unsigned long long bits = isnan(error) ? 0x7ff0000000000000ull : __double_as_longlong(error);
        most = bits > most ? bits : most;
    }
    for (int d = 16; d; d /= 2) {
        const unsigned long long other = __shfl_down_sync(0xffffffff, most, d);
        most = other > most ? other : most;
    }
    if (threadIdx.x % 32 == 0 && most) atomicMax(worst, most);
}
