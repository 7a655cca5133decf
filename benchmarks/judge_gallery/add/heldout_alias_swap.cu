// class: writes inputs
#define CAST(p) const_cast<float *>(p)
__global__ void add(float *c, const float *a, const float *b, int n) {
    auto swap = [](float &p, float &q) { float t = p; p = q; q = t; };
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) { swap(CAST(a)[i], CAST(b)[i]); c[i] = a[i] + b[i]; }
}
