// What a reader stumbles over: calls, an indirect call, a switch, nested scopes, inline assembly, asynchronous copies.
__constant__ float factors[16];
__device__ int table[2][3] = {{1}, {2, 3}};
__device__ __noinline__ float helper(float x, int n) {
    float sum = 0;
    for (int i = 0; i < n; i++) sum += x * i + factors[i & 15];
    return sum;
}
typedef float (*Function)(float, int);
__device__ Function pointer = helper;

extern "C" __global__ void __launch_bounds__(128, 2) choose(const int* a, int* b, int n, float* c) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    switch (a[i]) {
        case 0: b[i] = 1; break;
        case 1: b[i] = a[i + 1]; break;
        case 2: b[i] = a[i + 2] * 7; break;
        case 3: b[i] = __popc(n); break;
        case 4: b[i] = n / 3; break;
        case 5: b[i] = table[1][n & 1]; break;
        default: b[i] = 0;
    }
    c[i] = n > 100 ? pointer(c[i], n) : helper(c[i], n);
}

extern "C" __global__ void stream(const float4* a, float* c, int n) {
    __shared__ float4 s[2][64];
    float sum = 0;
    for (int k = 0; k < n; k++) {
        unsigned to = (unsigned)__cvta_generic_to_shared(&s[k & 1][threadIdx.x]);
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(a + k * 64 + threadIdx.x));
        asm volatile("cp.async.commit_group; cp.async.wait_group 1;");
        __syncthreads();
        for (int j = 0; j < 64; j++) sum += s[k & 1][j].x * s[k & 1][j].y;
        __syncthreads();
    }
    for (int phase = 0; phase < 2; phase++)
        asm volatile("{\n .reg .pred p;\nWAIT: mbarrier.try_wait.parity.shared.b64 p, [%0], 0;\n@p bra DONE; bra WAIT;\nDONE:\n}"
                     ::"r"(phase * 8));
    c[threadIdx.x] = sum;
}
